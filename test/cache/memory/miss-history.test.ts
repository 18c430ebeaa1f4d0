/** Reasons for misses in memory: what is recorded, what is forgotten, and what is never claimed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cacheKey, type CacheKey } from '../../../src/cache/key.ts';
import { operations, type Operation } from '../../../src/cache/kinds.ts';
import { MemoryCache } from '../../../src/cache/memory/memory.ts';
import { MissHistory, type MissReason } from '../../../src/cache/memory/miss-history.ts';
import { ledgerVersion } from '../../../src/ledger/version.ts';
import { answerOf, keyAt } from '../../support/answers.ts';
import { fc } from '../../support/fast-check.ts';

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
  const at = version === undefined ? undefined : ledgerVersion(version);
  return cacheKey({ chainId: 4, operation, subject, version: at, form: 'json' });
}

test('a read that was never stored is a first one, also beside its neighbours', () => {
  const { memory } = scene();
  memory.store(keyOf('resource', '0x1/a', 7n), answerOf('a'));
  memory.forget(keyOf('resource', '0x1/a', 7n));
  for (const key of [
    keyOf('resource', '0x1/b', 7n),
    keyOf('module', '0x1/a', 7n),
    keyOf('resource', '0x2/a', 7n),
    keyOf('transaction', '0x1/a'),
  ]) {
    assert.equal(memory.missReason(key), 'first time');
  }
});

test('a read that is held at some version is of another version at every other one', () => {
  const { memory } = scene();
  memory.store(keyAt(7n), answerOf('a'));
  for (const version of [6n, 8n, 7n + 4096n, 7n + 2n ** 40n]) {
    assert.equal(memory.missReason(keyAt(version)), 'other version');
  }
});

test('a read without a version is never of another version', () => {
  const { memory } = scene();
  const key = keyOf('transaction');
  assert.equal(memory.missReason(key), 'first time');
  memory.store(key, answerOf('a'));
  memory.forget(key);
  assert.equal(memory.missReason(key), 'purged');
});

test('a read that made room for others is evicted, and one that is too large is never let in', () => {
  const { memory } = scene(100_000);
  memory.store(keyAt(1n), answerOf('1'.repeat(10_000)));
  for (let index = 2; index < 20; index += 1) memory.store(keyAt(BigInt(index)), answerOf(`${index}`.repeat(5_000)));
  assert.equal(memory.find(keyAt(1n)), undefined);
  assert.equal(memory.missReason(keyAt(1n)), 'evicted');
  memory.store(keyAt(100n), answerOf(20_000));
  assert.equal(memory.missReason(keyAt(100n)), 'too large');
});

test('a read whose lifetime ended has expired, in memory and after its eviction', () => {
  const { memory, neverRead } = scene(100_000);
  memory.store(keyOf('transaction'), answerOf('a', { lifetimeMs: 600_000 }), 0);
  assert.equal(memory.find(keyOf('transaction')), undefined);
  assert.equal(memory.missReason(keyOf('transaction')), 'expired');
  for (let index = 0; index < 20; index += 1) memory.store(keyAt(BigInt(index)), answerOf(`${index}`.repeat(5_000)));
  assert.equal(memory.peek(keyOf('transaction')), undefined);
  assert.equal(memory.missReason(keyOf('transaction')), 'expired');
  assert.equal(neverRead.filter((kind) => kind === 'transaction').length, 1);
});

test('a purge of a read, of its versions, of its account and of everything is the reason for the next miss', async () => {
  const key = keyAt(7n);
  const drops: Readonly<Record<string, (memory: MemoryCache) => unknown>> = {
    read: (memory) => memory.forget(key),
    versions: (memory) => memory.purge({ kind: 'versions', read: '4|resource|0x1/0x1::coin::CoinStore|json|' }),
    everything: (memory) => memory.purge({ kind: 'everything' }),
    clear: (memory) => memory.clear(),
  };
  for (const [title, drop] of Object.entries(drops)) {
    const { memory } = scene();
    memory.store(key, answerOf('a'));
    await drop(memory);
    assert.equal(memory.missReason(key), 'purged', title);
    assert.equal(memory.missReason(keyAt(8n)), 'other version', title);
  }
});

test('a clear of many reads records all of them, in steps', async () => {
  const { memory, neverRead } = scene();
  const count = 12_000;
  for (let version = 0; version < count; version += 1) memory.store(keyAt(BigInt(version)), answerOf('a'));
  memory.find(keyAt(0n));
  assert.equal(memory.clear(), count);
  while (neverRead.length < count - 1) await new Promise(setImmediate);
  for (let version = 0; version < count; version += 1) {
    const reason = memory.missReason(keyAt(BigInt(version)));
    // Pages of versions share some slots of the history.
    assert.ok(reason === 'purged' || reason === 'other version', reason);
  }
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

test('after any sequence the reason is the last that was recorded, or forgotten, and never another', () => {
  const name = fc.record({ hash: fc.nat({ max: 2 ** 32 - 1 }), tag: fc.nat({ max: 2 ** 32 - 1 }) });
  const reason = fc.constantFrom('evicted', 'expired', 'purged', 'not final', 'too large');
  // Few slots and tags, so that reads replace one another.
  const near = name.map(({ hash, tag }) => ({ hash: hash % 5, tag: (tag % 3) * 8 }));
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.oneof(name, near), reason), { maxLength: 60 }), (records) => {
      const history = new MissHistory();
      const bySlot = new Map<number, readonly [tag: number, reason: MissReason]>();
      for (const [{ hash, tag }, reason] of records) {
        history.record(hash, tag, reason);
        bySlot.set(hash % 2 ** 18, [tag >>> 3, reason]);
      }
      for (const [read] of records) {
        const [tag, reason] = bySlot.get(read.hash % 2 ** 18) ?? [];
        assert.equal(history.find(read), tag === read.tag >>> 3 ? reason : undefined);
      }
    }),
    { numRuns: 50 },
  );
});

test('with full tables, a million unknown reads get hardly a reason that is not theirs', () => {
  const history = new MissHistory();
  let seed = 1;
  // xorshift: unlike those of a linear generator, its last bits are as random as the others.
  const next = (): number => {
    seed ^= seed << 13;
    seed ^= seed >>> 17;
    seed ^= seed << 5;
    return seed >>> 0;
  };
  for (let index = 0; index < 2 ** 21; index += 1) {
    history.record(next(), next(), 'evicted');
    history.recordStored(next(), next());
  }
  let [exits, versions] = [0, 0];
  for (let index = 0; index < 1_000_000; index += 1) {
    if (history.find({ hash: next(), tag: next() }) !== undefined) exits += 1;
    if (history.isOfOtherVersion(next(), next())) versions += 1;
  }
  // Expected are 0.002 and 31.
  assert.ok(exits <= 1 && versions < 70, `${exits} and ${versions}`);
});
