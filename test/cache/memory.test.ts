import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bodyDigest, entryBytes, type CachedResponse } from '../../src/cache/entry.ts';
import type { CacheKey } from '../../src/cache/key.ts';
import { MemoryCache } from '../../src/cache/memory.ts';

function entryOf(bytes: number): CachedResponse {
  const body = Buffer.alloc(bytes, 'a');
  return {
    status: 200,
    contentType: 'application/json',
    body,
    servedVersion: undefined,
    committedAt: undefined,
    gasUsed: undefined,
    cursor: undefined,
    digest: bodyDigest(body),
    coded: {},
    isImmutable: true,
  };
}

function keyAt(index: number): CacheKey {
  return `key ${index}` as CacheKey;
}

test('the bound holds in bytes, and what was used least recently goes first', () => {
  const maxBytes = 1_000_000;
  let evicted = 0;
  const memory = new MemoryCache({ maxBytes, onEvict: () => (evicted += 1) });
  memory.store(keyAt(0), entryOf(10_000));
  for (let index = 1; index <= 300; index += 1) {
    memory.store(keyAt(index), entryOf(10_000));
    memory.find(keyAt(0));
    assert.ok(memory.fill.bytes <= maxBytes);
  }
  assert.ok(memory.find(keyAt(0)) !== undefined);
  assert.equal(memory.find(keyAt(1)), undefined);
  assert.equal(memory.fill.entries + evicted, 301);
  assert.ok(memory.fill.bytes > maxBytes * 0.98);
});

test('one answer takes at most an eighth: a larger one is not kept and pushes nothing out', () => {
  const memory = new MemoryCache({ maxBytes: 800_000, onEvict: () => assert.fail('nothing may be pushed out') });
  memory.store(keyAt(1), entryOf(90_000));
  memory.store(keyAt(2), entryOf(100_001));
  assert.equal(memory.find(keyAt(2)), undefined);
  assert.ok(memory.find(keyAt(1)) !== undefined);
});

test('compressed forms count towards the bound', () => {
  const entry = entryOf(1000);
  const coded = { ...entry, coded: { gzip: Buffer.alloc(300), br: Buffer.alloc(200) } };
  assert.equal(entryBytes('key', coded) - entryBytes('key', entry), 500);
  const memory = new MemoryCache({ maxBytes: 1_000_000, onEvict: () => undefined });
  memory.store(keyAt(1), entry);
  const before = memory.fill.bytes;
  memory.store(keyAt(1), coded);
  assert.deepEqual([memory.fill.bytes - before, memory.fill.entries], [500, 1]);
});

test('bodies that differ in one bit have digests of their own', () => {
  const body = Buffer.alloc(1_000_000);
  const other = Buffer.from(body);
  other[999_999] = 1;
  assert.notEqual(bodyDigest(body), bodyDigest(other));
  assert.match(bodyDigest(body), /^[\w-]{22}$/);
});
