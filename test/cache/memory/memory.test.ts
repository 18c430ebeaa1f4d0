import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CachedResponse } from '../../../src/cache/record.ts';
import { cacheKey, type CacheKey } from '../../../src/cache/key.ts';
import { operations, type Operation } from '../../../src/cache/kinds.ts';
import { MemoryCache } from '../../../src/cache/memory/memory.ts';
import { Address } from '../../../src/ledger/type-tag.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { answerOf, keyAt } from '../../support/answers.ts';

const mebibyte = 1024 * 1024;

/** Reads of different things, whose answers are all different. */
function put(memory: MemoryCache, index: number, bytes: number): CacheKey {
  const key = keyAt(1n, `0x${index}/a`);
  memory.store(key, answerOf(String(index).padEnd(bytes, 'x')));
  return key;
}

test('the bound holds in bytes, and the least recently used goes first', () => {
  const maxBytes = 1_000_000;
  let evicted = 0;
  const memory = new MemoryCache(maxBytes, () => (evicted += 1));
  const first = put(memory, 0, 10_000);
  const second = put(memory, 1, 10_000);
  for (let index = 2; index <= 300; index += 1) {
    put(memory, index, 10_000);
    memory.find(first);
    assert.ok(memory.fill.bytes <= maxBytes);
  }
  assert.ok(memory.find(first) !== undefined);
  assert.equal(memory.find(second), undefined);
  assert.equal(memory.fill.entries + evicted, 301);
  assert.ok(memory.fill.bytes > maxBytes * 0.98);
});

test('one answer takes at most an eighth: a larger one is not stored and evicts nothing', () => {
  const memory = new MemoryCache(800_000, () => assert.fail('nothing may be pushed out'));
  const first = put(memory, 1, 90_000);
  const second = put(memory, 2, 100_001);
  assert.equal(memory.find(second), undefined);
  assert.ok(memory.find(first) !== undefined);
});

test('an answer that is the same at many versions is held once', () => {
  const memory = new MemoryCache(64 * mebibyte);
  for (let version = 0n; version < 10_000n; version += 1n) memory.store(keyAt(version), answerOf(1_000));
  assert.deepEqual([memory.fill.entries, memory.fill.answers], [10_000, 1]);
  assert.deepEqual(memory.find(keyAt(0n)), memory.find(keyAt(9_999n)));
  assert.ok(memory.fill.bytes < 10_000 * 80, `${memory.fill.bytes} bytes`);
});

test('an evicted answer releases every byte it took', async () => {
  const memory = new MemoryCache(64 * mebibyte);
  const keys = [keyAt(1n), keyAt(2n), keyAt(5_000n), keyAt(1n, '0x2/b')];
  for (const key of keys) memory.store(key, answerOf('shared by all'));
  memory.store(keyAt(2n), answerOf('another'));
  memory.addCoded(memory.find(keyAt(1n)) as CachedResponse, 'gzip', Buffer.alloc(300));
  assert.equal(await memory.purge({ kind: 'account', chainId: 4, address: Address.parse('0x1') }), 3);
  assert.equal(memory.find(keyAt(1n)), undefined);
  assert.equal(memory.find(keyAt(1n, '0x2/b'))?.body.toString(), 'shared by all');
  assert.equal(await memory.purge({ kind: 'everything' }), 1);
  assert.deepEqual(memory.fill, { entries: 0, answers: 0, bytes: 0 });
});

test('compressed forms count towards the bound, and one that is too much is left out', () => {
  const memory = new MemoryCache(1_000_000);
  const answer = memory.store(keyAt(1n), answerOf(100_000));
  const before = memory.fill.bytes;
  memory.addCoded(answer, 'gzip', Buffer.alloc(500));
  const after = memory.fill.bytes;
  assert.ok(after - before >= 500, `${after - before} bytes`);
  memory.addCoded(answer, 'br', Buffer.alloc(30_000));
  memory.addCoded(answer, 'gzip', Buffer.alloc(700));
  assert.deepEqual(memory.find(keyAt(1n)), { ...answer, coded: { gzip: Buffer.alloc(500) } });
  assert.equal(memory.fill.bytes, after);
});

test('after a clear memory is as new, and a purge in flight drops nothing more', async () => {
  const memory = new MemoryCache(64 * mebibyte);
  for (let index = 0; index < 12_000; index += 1) put(memory, index, 10);
  const purged = memory.purge({ kind: 'everything' });
  assert.equal(memory.fill.entries, 7_000);
  assert.equal(memory.clear(), 7_000);
  assert.deepEqual(memory.fill, { entries: 0, answers: 0, bytes: 0 });
  const kept = put(memory, 20_000, 10);
  assert.equal(await purged, 5_000);
  assert.ok(memory.find(kept) !== undefined);
  memory.forget(kept);
  assert.deepEqual(memory.fill, { entries: 0, answers: 0, bytes: 0 });
});

test('a peek leaves the order of eviction unchanged', () => {
  const memory = new MemoryCache(100_000);
  const first = put(memory, 0, 10_000);
  for (let index = 1; memory.peek(first) !== undefined; index += 1) {
    assert.ok(index < 20);
    put(memory, index, 10_000);
  }
});

test('a purge in steps yields the event loop, and drops its scope', async () => {
  const memory = new MemoryCache(64 * mebibyte);
  for (let index = 0; index < 11_999; index += 1) put(memory, index, 10);
  memory.store(
    cacheKey({ chainId: 4, operation: 'transaction', subject: '0x1', version: undefined, form: 'json' }),
    answerOf('kept'),
  );
  const address = Address.parse('0x7');
  let turns = 0;
  const timer = setInterval(() => (turns += 1), 0);
  const purged = await memory.purge({ kind: 'account', chainId: 4, address });
  clearInterval(timer);
  assert.equal(purged, 1);
  assert.equal(memory.fill.entries, 11_999);
  assert.ok(turns >= 1);
});

test('a lower bound evicts the least recently used in steps, and a higher one stores more', async () => {
  let evicted = 0;
  const memory = new MemoryCache(40 * mebibyte, () => (evicted += 1));
  for (let index = 0; index < 3_000; index += 1) put(memory, index, 10_000);
  const before = memory.fill;

  const resized = memory.resize(10 * mebibyte);
  const afterOneStep = memory.fill;
  await resized;

  assert.ok(afterOneStep.bytes < before.bytes && afterOneStep.bytes > 20 * mebibyte, `${afterOneStep.bytes} bytes`);
  assert.ok(memory.fill.bytes <= 10 * mebibyte && memory.fill.bytes > 9.9 * mebibyte);
  assert.equal(memory.fill.entries + evicted, 3_000);
  assert.ok(memory.find(keyAt(1n, '0x2999/a')) !== undefined);
  await memory.resize(20 * mebibyte);
  for (let index = 0; index < 3_000; index += 1) put(memory, index, 10_000);
  assert.ok(memory.fill.bytes <= 20 * mebibyte && memory.fill.bytes > 19.9 * mebibyte);
});

// Reads that leave memory, or outlive their answer, without a hit.

interface Scene {
  readonly memory: MemoryCache;
  /** Kinds of reads that left without a hit. */
  readonly neverRead: Operation[];
}

function scene(maxBytes = 64 * mebibyte): Scene {
  const neverRead: Operation[] = [];
  const memory = new MemoryCache(maxBytes, undefined, (kind) => void neverRead.push(kind));
  return { memory, neverRead };
}

function keyOf(operation: Operation, subject = '0x1/a', version?: bigint): CacheKey {
  const at = version === undefined ? undefined : LedgerVersion.of(version);
  return cacheKey({ chainId: 4, operation, subject, version: at, form: 'json' });
}

test('a read whose lifetime ended counts once it is evicted', () => {
  const { memory, neverRead } = scene(100_000);
  memory.store(keyOf('transaction'), answerOf('a', { lifetimeMs: 600_000 }), 0);
  assert.equal(memory.find(keyOf('transaction')), undefined);
  for (let index = 0; index < 20; index += 1) memory.store(keyAt(BigInt(index)), answerOf(`${index}`.repeat(5_000)));
  assert.equal(memory.peek(keyOf('transaction')), undefined);
  assert.equal(neverRead.filter((kind) => kind === 'transaction').length, 1);
});

test('a clear of many reads counts all of them, in steps', async () => {
  const { memory, neverRead } = scene();
  const count = 12_000;
  for (let version = 0; version < count; version += 1) memory.store(keyAt(BigInt(version)), answerOf('a'));
  memory.find(keyAt(0n));
  assert.equal(memory.clear(), count);
  while (neverRead.length < count - 1) await new Promise(setImmediate);
  assert.equal(neverRead.length, count - 1);
});

test('a read is never read only if it had no hit since it was stored, and counts once', () => {
  for (const kind of operations) {
    const { memory, neverRead } = scene();
    const key = keyOf(kind, '0x1/a', kind === 'transaction' ? undefined : 7n);
    const write = () => memory.store(key, answerOf('a'));

    write();
    memory.forget(key);
    assert.deepEqual(neverRead, [kind]);
    write();
    memory.find(key);
    memory.forget(key);
    write();
    const held = memory.locate(key);
    assert.ok(held !== undefined);
    memory.use(held);
    memory.forget(key);
    assert.deepEqual(neverRead, [kind]);
    write();
    memory.peek(key);
    write();
    memory.forget(key);
    assert.deepEqual(neverRead, [kind, kind]);
  }
});

test('an expired read that is stored again begins anew', () => {
  const { memory, neverRead } = scene();
  const key = keyOf('transaction');
  const write = (ttlMs: number) => memory.store(key, answerOf('a', { lifetimeMs: 600_000 }), ttlMs);
  write(60_000);
  memory.find(key);
  write(0);
  write(60_000);
  assert.deepEqual(neverRead, []);
  memory.forget(key);
  assert.deepEqual(neverRead, ['transaction']);
});
