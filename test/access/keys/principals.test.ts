import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { change, editKeys, removal } from '../../../src/access/keys/edit-keys.ts';
import { FunctionRights } from '../../../src/access/keys/function-rights.ts';
import {
  createKey,
  hashKey,
  type KeyRecord,
  longestKey,
  parseBearer,
  Principals,
} from '../../../src/access/keys/principals.ts';
import { replaceFile } from '../../../src/access/keys/replace-file.ts';
import { planConfig } from '../../support/keys.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const every = planConfig().operations;
const plans = {
  free: planConfig(),
  pages: planConfig({ operations: ['read', 'view'], origins: ['https://a', 'https://b'] }),
};
const recordOf = (key: string, more: Partial<KeyRecord> = {}): KeyRecord => ({
  name: 'wallet',
  tenant: 'acme',
  plan: 'free',
  sha256: hashKey(key),
  ...more,
});

/** Finds the principal of a key among `records`; `undefined`: none. */
function finderOf(records: readonly KeyRecord[]) {
  const rules = { header: 'x-api-key', plans, anonymous: undefined, trustedProxies: [] };
  const principals = new Principals(rules, { file: true, redis: false });
  principals.setKeys('file', records);
  const find = (key: string, nowMs = 0) => {
    const found = principals.find({ 'x-api-key': key }, undefined, nowMs);
    return typeof found === 'string' ? undefined : found;
  };
  return Object.assign(find, { principals });
}

test('a new key says what it is, is never the same twice, and is found by its text alone', () => {
  const keys = Array.from({ length: 50 }, () => createKey().key);
  const find = finderOf(keys.map((key, index) => recordOf(key, { name: `k${index}` })));

  assert.equal(new Set(keys).size, 50);
  for (const [index, key] of keys.entries()) {
    assert.match(key, /^lgk_[\w-]{43}$/);
    assert.equal(find(key)?.name, `k${index}`);
    assert.equal(find(`${key} `), undefined);
    assert.equal(find(key.slice(0, -1)), undefined);
    assert.equal(find(hashKey(key)), undefined, 'the hash is no key');
  }
});

test('keys and tokens are read from `Authorization` by one form', () => {
  const forms = ['Bearer k', 'bearer  k ', 'BEARER a,b', 'Bearer', 'Bearer ', 'Bearer k l', 'Basic k', 'Bearerk', ''];

  assert.deepEqual(forms.map(parseBearer), ['k', 'k', 'a,b', '', '', '', undefined, undefined, undefined]);
});

test('the hash is the one that any other tool makes', () => {
  // From FIPS 180-2, appendix B.1.
  assert.equal(hashKey('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
});

test('a key is taken until the moment it expires', () => {
  const find = finderOf([recordOf('k', { expiresAtMs: 1_000 })]);
  assert.equal(find('k', 999)?.tenant, 'acme');
  assert.equal(find('k', 1_000), undefined);
});

test('a text that is too long for a key is none, even when its hash is known', () => {
  const long = 'k'.repeat(longestKey + 1);
  const longest = 'k'.repeat(longestKey);
  const find = finderOf([recordOf(long), recordOf(longest)]);
  assert.equal(find(long), undefined);
  assert.equal(find(longest)?.name, 'wallet');
});

function rights(more: Partial<KeyRecord>) {
  const principal = finderOf([recordOf('k', more)])('k');
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
  const find = finderOf([recordOf('a', { plan: 'gone' }), recordOf('b', { name: 'x' }), recordOf('b', { name: 'y' })]);
  assert.equal(find('a'), undefined);
  assert.equal(find('b')?.name, 'x');
  assert.equal(find.principals.size, 1);
});

test("a client's address is the one that trusted proxies report, with a key or without one", () => {
  const rules = { header: 'x-api-key', plans, anonymous: 'free', trustedProxies: ['10.0.0.0/8'] };
  const principals = new Principals(rules, { file: false, redis: false });
  const addressOf = (remoteAddress: string | undefined, forwarded?: string): string =>
    principals.addressOf({ 'x-api-key': 'k', 'x-forwarded-for': forwarded }, { remoteAddress });

  assert.equal(addressOf('203.0.113.9', '198.51.100.1'), '203.0.113.9');
  assert.equal(addressOf('10.0.0.1', '198.51.100.1'), '198.51.100.1');
  assert.equal(addressOf('::ffff:10.0.0.1', '::ffff:198.51.100.1'), '198.51.100.1');
  assert.equal(addressOf(undefined, '198.51.100.1'), '');
  assert.equal(principals.addressOf({}, undefined), '');
  // Without a key, limits count for it.
  const found = principals.find({ 'x-forwarded-for': '2001:db8::7' }, { remoteAddress: '10.0.0.1' }, 0);
  assert.equal(typeof found === 'object' && found.account, 'free:address:2001:db8:0:0::/64');
});

test('one key of Redis is replaced as all of them are: the file precedes it, and its plan must be known', () => {
  const rules = { header: 'x-api-key', plans, anonymous: undefined, trustedProxies: [] };
  const principals = new Principals(rules, { file: true, redis: true });
  const keys = ['one', 'two', 'three', 'four'];
  principals.setKeys('file', [recordOf('one', { name: 'of-the-file' })], new Set([hashKey('two')]));
  principals.setKeys('redis', []);
  const known = { generation: 0, entry: undefined };
  const namesOf = () =>
    keys.map((key) => {
      const found = principals.find({ 'x-api-key': key }, undefined, 0, key === 'four' ? known : undefined);
      return typeof found === 'string' ? found : found.name;
    });

  for (const key of keys) principals.setKey('redis', hashKey(key), recordOf(key, { name: key }));
  assert.deepEqual([namesOf(), principals.size], [['of-the-file', 'bad key', 'three', 'four'], 3]);

  principals.setKey('redis', hashKey('three'), recordOf('three', { plan: 'gone' }));
  // One that a connection repeats.
  principals.setKey('redis', hashKey('four'), undefined);
  principals.setKey('redis', hashKey('one'), undefined);
  assert.deepEqual([namesOf(), principals.size], [['of-the-file', 'bad key', 'bad key', 'bad key'], 1]);

  principals.setRules({ ...rules, plans: { ...plans, gone: planConfig() } });
  assert.deepEqual(namesOf(), ['of-the-file', 'bad key', 'wallet', 'bad key']);
});

const rightsOf = (allow?: readonly string[], deny?: readonly string[]) => FunctionRights.of({ allow, deny });

/** The functions that the rights admit. */
function admitted(rights: FunctionRights | undefined): readonly string[] {
  const functions = ['0x1::coin::balance', '0x1::coin::supply', '0x1::object::owner', '0xa::coin::balance'];
  return functions.filter((id) => rights?.admits(id) === true);
}

test('lists have functions, modules and addresses; deny precedes allow', () => {
  assert.deepEqual(admitted(rightsOf(['0x1::coin::balance'])), ['0x1::coin::balance']);
  assert.deepEqual(admitted(rightsOf(['0x1::coin::*'])), ['0x1::coin::balance', '0x1::coin::supply']);
  assert.deepEqual(admitted(rightsOf(['0x1::*'])), ['0x1::coin::balance', '0x1::coin::supply', '0x1::object::owner']);
  assert.deepEqual(admitted(rightsOf(undefined, ['0x1::*'])), ['0xa::coin::balance']);
  assert.deepEqual(admitted(rightsOf(['0x1::*'], ['0x1::coin::*'])), ['0x1::object::owner']);
  assert.deepEqual(admitted(rightsOf(['0x1::coin::balance'], ['0x1::*'])), []);
  assert.deepEqual(admitted(rightsOf(['0x1::coin::*', '0xa::*'], ['0x1::coin::balance', '0x1::object::owner'])), [
    '0x1::coin::supply',
    '0xa::coin::balance',
  ]);
});

test('addresses of lists are compared in one spelling, names to the letter', () => {
  const long = `0x${'0'.repeat(63)}A`;
  assert.deepEqual(admitted(rightsOf([`${long}::*`, '0x01::coin::supply', '0X1::coin::balance'.toLowerCase()])), [
    '0x1::coin::balance',
    '0x1::coin::supply',
    '0xa::coin::balance',
  ]);
  assert.deepEqual(admitted(rightsOf(['0x1::Coin::balance', '0x1::coin::Balance', '0x1::coi::*', '0x11::*'])), []);
});

test('a function that is not certain is refused by any list, and without a list there are no rights to check', () => {
  assert.equal(rightsOf(undefined, ['0x2::*'])?.admits(undefined), false);
  assert.equal(rightsOf(['0x1::*'])?.admits(undefined), false);
  assert.equal(rightsOf(), undefined);
  assert.equal(FunctionRights.of(undefined), undefined);
});

const entry = (name: string, origins: string): string =>
  `  - { name: ${name}, plan: free, sha256: ${'a'.repeat(64)}, origins: ${origins} }\n`;

test('an entry that an alias refers to is a conflict with words for operators, not a fault', async () => {
  const text = `keys:\n${entry('one', '&pages ["https://a.example"]')}${entry('two', '*pages')}`;
  const fault = { name: 'KeysFault', reason: 'conflict', message: /^an alias \(\*\) elsewhere in the keys file/ };
  await assert.rejects(editKeys(text, removal('one', 'keys.yaml')), fault);
  await assert.rejects(editKeys(text, change('one', { origins: null }, 'keys.yaml')), fault);
  const left = await editKeys(text, removal('two', 'keys.yaml'));
  assert.match(left.text, /name: one/);
  assert.doesNotMatch(left.text, /name: two/);
});

test('what a writer without the lock saves during a change is not lost', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'keys.yaml');
  writeFileSync(file, 'before');
  const replaced = replaceFile(file, (text) => {
    writeFileSync(file, 'saved by an editor');
    return Promise.resolve(`${text}, changed`);
  });
  await assert.rejects(replaced, {
    reason: 'unavailable',
    message: /another program has changed it meanwhile: try again$/,
  });
  assert.equal(readFileSync(file, 'utf8'), 'saved by an editor');
  assert.deepEqual(readdirSync(folder), ['keys.yaml']);
});
