import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contentDigest, type CachedResponse } from '../../../src/cache/record.ts';
import { cacheKey, keyText, type CacheKey } from '../../../src/cache/key.ts';
import { MemoryCache } from '../../../src/cache/memory/memory.ts';
import { Address } from '../../../src/ledger/address.ts';
import { answerOf, keyAt } from '../../support/answers.ts';
import { fc } from '../../support/fast-check.ts';

const mebibyte = 1024 * 1024;

function memoryOf(maxBytes: number, onEvict: (reads: number) => void = () => {}): MemoryCache {
  return new MemoryCache({ maxBytes, onEvict });
}

/** Reads of different things, whose answers are all different. */
function put(memory: MemoryCache, index: number, bytes: number): CacheKey {
  const key = keyAt(1n, `0x${index}/a`);
  memory.store(key, answerOf(String(index).padEnd(bytes, 'x')));
  return key;
}

test('the bound holds in bytes, and the least recently used goes first', () => {
  const maxBytes = 1_000_000;
  let evicted = 0;
  const memory = memoryOf(maxBytes, (reads) => (evicted += reads));
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
  const memory = memoryOf(800_000, () => assert.fail('nothing may be pushed out'));
  const first = put(memory, 1, 90_000);
  const second = put(memory, 2, 100_001);
  assert.equal(memory.find(second), undefined);
  assert.ok(memory.find(first) !== undefined);
});

test('an answer that is the same at many versions is held once', () => {
  const memory = memoryOf(64 * mebibyte);
  for (let version = 0n; version < 10_000n; version += 1n) memory.store(keyAt(version), answerOf(1_000));
  assert.deepEqual([memory.fill.entries, memory.fill.answers], [10_000, 1]);
  assert.deepEqual(memory.find(keyAt(0n)), memory.find(keyAt(9_999n)));
  assert.ok(memory.fill.bytes < 10_000 * 80, `${memory.fill.bytes} bytes`);
});

test('a version that was not read is not inferred from its neighbours', () => {
  const memory = memoryOf(mebibyte);
  memory.store(keyAt(5n), answerOf('a'));
  memory.store(keyAt(7n), answerOf('a'));
  for (const version of [4n, 6n, 8n, 5n + 4096n, 5n + 8192n]) assert.equal(memory.find(keyAt(version)), undefined);
});

test('an answer is found at exactly the reads that had it', () => {
  const step = fc.record({
    version: fc.bigInt({ min: 0n, max: 9_000n }),
    subject: fc.constantFrom('0x1/a', '0x2/a'),
    body: fc.constantFrom('1', '2', '3'),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const memory = memoryOf(64 * mebibyte);
      const model = new Map<string, string>();
      for (const { version, subject, body } of steps) {
        const key = keyAt(version, subject);
        memory.store(key, answerOf(body));
        model.set(keyText(key), body);
      }
      for (const { version, subject } of steps) {
        for (const near of [version, version + 1n, version + 4096n]) {
          const key = keyAt(near, subject);
          assert.equal(memory.find(key)?.body.toString(), model.get(keyText(key)));
        }
      }
      assert.deepEqual([memory.fill.entries, memory.fill.answers], [model.size, new Set(model.values()).size]);
    }),
  );
});

test('an evicted answer releases every byte it took', async () => {
  const memory = memoryOf(64 * mebibyte);
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
  const memory = memoryOf(1_000_000);
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

test('answers that differ in anything a client can see have digests of their own', () => {
  const body = Buffer.alloc(1_000_000);
  const other = Buffer.from(body);
  other[999_999] = 1;
  const answer = answerOf('', { body });
  const others: Partial<CachedResponse>[] = [
    { body: other },
    { status: 404 },
    { contentType: 'application/x-bcs' },
    { gasUsed: '1' },
    { cursor: '1' },
    { lifetimeMs: 600_000 },
  ];
  const digests = others.map((change) => contentDigest({ ...answer, ...change }));
  assert.equal(new Set([answer.digest, ...digests]).size, others.length + 1);
  assert.match(answer.digest, /^[\w-]{22}$/);
});

test('one version of several is dropped with its bytes', async () => {
  const versions = [5n, 6n, 7n];
  for (const gone of versions) {
    const memory = memoryOf(mebibyte);
    for (const version of versions) memory.store(keyAt(version), answerOf(`at ${version}`));
    const { bytes } = memory.fill;

    assert.equal(memory.forget(keyAt(gone)), 1);
    assert.equal(memory.forget(keyAt(gone)), 0);
    assert.equal(memory.forget(keyAt(8n)), 0);

    const left = versions.filter((version) => memory.find(keyAt(version)) !== undefined);
    assert.deepEqual(
      left,
      versions.filter((version) => version !== gone),
    );
    for (const version of left) assert.equal(memory.find(keyAt(version))?.body.toString(), `at ${version}`);
    assert.deepEqual([memory.fill.entries, memory.fill.answers], [2, 2]);
    assert.ok(memory.fill.bytes < bytes);
    for (const version of left) memory.forget(keyAt(version));
    assert.deepEqual(memory.fill, { entries: 0, answers: 0, bytes: 0 });
  }
});

test('after a clear memory is as new, and a purge in flight drops nothing more', async () => {
  const memory = memoryOf(64 * mebibyte);
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
  const memory = memoryOf(100_000);
  const first = put(memory, 0, 10_000);
  for (let index = 1; memory.peek(first) !== undefined; index += 1) {
    assert.ok(index < 20);
    put(memory, index, 10_000);
  }
});

test('a purge in steps yields the event loop, and drops its scope', async () => {
  const memory = memoryOf(64 * mebibyte);
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
  const memory = memoryOf(40 * mebibyte, (reads) => (evicted += reads));
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
