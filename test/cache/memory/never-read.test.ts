/** Reads that leave memory, or outlive their answer, without a hit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cacheKey, type CacheKey } from '../../../src/cache/key.ts';
import { operations, type Operation } from '../../../src/cache/kinds.ts';
import { MemoryCache } from '../../../src/cache/memory/memory.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { answerOf, keyAt } from '../../support/answers.ts';

const mebibyte = 1024 * 1024;

interface Scene {
  readonly memory: MemoryCache;
  /** Kinds of reads that left without a hit. */
  readonly neverRead: Operation[];
}

function scene(maxBytes = 64 * mebibyte): Scene {
  const neverRead: Operation[] = [];
  const memory = new MemoryCache({ maxBytes, onEvict: () => {}, onNeverRead: (kind) => void neverRead.push(kind) });
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
