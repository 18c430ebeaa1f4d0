import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createKey, hashKey, KeySet, longestKey, type KeyRecord } from '../../../src/access/keys/key-set.ts';
import type { AccessOperation, Plan } from '../../../src/access/keys/principal.ts';

const every: readonly AccessOperation[] = ['read', 'view', 'encode', 'submit', 'pass'];
const planOf = (name: string, more: Partial<Plan> = {}): Plan => ({
  name,
  windowMs: 10_000,
  waitMs: 0,
  operations: new Set(every),
  ...more,
});
const plans = new Map([
  ['free', planOf('free')],
  ['pages', planOf('pages', { operations: new Set(['read', 'view']), origins: new Set(['https://a', 'https://b']) })],
]);
const recordOf = (key: string, more: Partial<KeyRecord> = {}): KeyRecord => ({
  name: 'wallet',
  tenant: 'acme',
  plan: 'free',
  sha256: hashKey(key),
  ...more,
});

test('a new key says what it is, is never the same twice, and is found by its text alone', () => {
  const keys = Array.from({ length: 50 }, () => createKey().key);
  const set = new KeySet(
    keys.map((key, index) => recordOf(key, { name: `k${index}` })),
    plans,
  );

  assert.equal(new Set(keys).size, 50);
  for (const [index, key] of keys.entries()) {
    assert.match(key, /^lgk_[\w-]{43}$/);
    assert.equal(set.find(key, 0)?.principal.name, `k${index}`);
    assert.equal(set.find(`${key} `, 0), undefined);
    assert.equal(set.find(key.slice(0, -1), 0), undefined);
    assert.equal(set.find(hashKey(key), 0), undefined, 'the hash is no key');
  }
});

test('the hash is the one that any other tool makes', () => {
  // From FIPS 180-2, appendix B.1.
  assert.equal(hashKey('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
});

test('a key is taken until the moment it expires', () => {
  const set = new KeySet([recordOf('k', { expiresAtMs: 1_000 })], plans);
  assert.equal(set.find('k', 999)?.principal.tenant, 'acme');
  assert.equal(set.find('k', 1_000), undefined);
});

test('a text that is too long for a key is none, even when its hash is known', () => {
  const long = 'k'.repeat(longestKey + 1);
  assert.equal(new KeySet([recordOf(long)], plans).find(long, 0), undefined);
  assert.equal(
    new KeySet([recordOf('k'.repeat(longestKey))], plans).find('k'.repeat(longestKey), 0)?.principal.name,
    'wallet',
  );
});

function rights(more: Partial<KeyRecord>) {
  const principal = new KeySet([recordOf('k', more)], plans).find('k', 0)?.principal;
  return [[...(principal?.operations ?? [])], principal?.origins && [...principal.origins]];
}

test("a key's rights are those of its plan and its own record", () => {
  assert.deepEqual(rights({}), [every, undefined]);
  assert.deepEqual(rights({ operations: ['submit', 'read'] }), [['submit', 'read'], undefined]);
  assert.deepEqual(rights({ origins: ['https://c'] }), [every, ['https://c']]);
  assert.deepEqual(rights({ plan: 'pages' }), [
    ['read', 'view'],
    ['https://a', 'https://b'],
  ]);
  assert.deepEqual(rights({ plan: 'pages', operations: ['submit', 'read'], origins: ['https://b', 'https://c'] }), [
    ['read'],
    ['https://b'],
  ]);
});

test('a key of an unknown plan is none; the first of two records of one key counts', () => {
  const set = new KeySet(
    [recordOf('a', { plan: 'gone' }), recordOf('b', { name: 'x' }), recordOf('b', { name: 'y' })],
    plans,
  );
  assert.equal(set.find('a', 0), undefined);
  assert.equal(set.find('b', 0)?.principal.name, 'x');
  assert.equal(set.size, 1);
});
