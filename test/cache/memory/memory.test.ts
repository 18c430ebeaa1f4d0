import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cacheKey, type CacheKey, keyText, readText, type KeyParts } from '../../../src/cache/key.ts';
import { operations, type Operation } from '../../../src/cache/kinds.ts';
import { MemoryCache, type CacheLocation } from '../../../src/cache/memory/memory.ts';
import type { PurgeScope } from '../../../src/cache/purge.ts';
import type { CachedResponse, AnswerContent } from '../../../src/cache/record.ts';
import { Address } from '../../../src/ledger/type-tag.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { answerOf, keyAt } from '../../support/answers.ts';
import { pageMatcher } from '../../support/purged-pages.ts';
import { Random } from '../../support/random.ts';

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

/** More for once: LEDGERGATE_MEMORY_STEPS=1000000. */
const steps = Number(process.env['LEDGERGATE_MEMORY_STEPS'] ?? 30_000);
const seed = Number(process.env['LEDGERGATE_MEMORY_SEED'] ?? 8);
const chainId = 4;
const addresses = ['0x1', '0x2', '0xa'];
const codings = ['br', 'zstd', 'gzip'] as const;
type WideScope = Exclude<PurgeScope, { kind: 'read' }>;

/**
 * Memory beside a plain map that never forgets by itself. Memory may have less, and counts what it pushed out; what it
 * has must be the answer that was stored last at that very key, whole, and must stay so in its reader's hands.
 */
class World {
  readonly #random: (below: number) => number;
  readonly #stored = new Map<string, { readonly key: CacheKey; readonly answer: CachedResponse }>();
  readonly #given: { readonly answer: CachedResponse; readonly bytes: Buffer }[] = [];
  readonly #located: { readonly key: CacheKey; readonly held: CacheLocation }[] = [];
  readonly memory: MemoryCache;
  #pushedOut = 0;
  found = 0;
  stillHeld = 0;
  notHeld = 0;

  constructor(maxBytes: number, start: number) {
    const random = new Random(start);
    this.#random = (below) => random.below(below);
    this.memory = new MemoryCache(maxBytes, () => (this.#pushedOut += 1));
  }

  /** Long walks reach each of these in every state that tables, slabs and the bound can be in. */
  async step(): Promise<void> {
    const what = this.#random(4_000);
    if (what < 2_000) this.#store(this.#key(), this.#answer());
    else if (what < 3_700) this.#look(this.#key());
    else if (what < 3_850) this.#addCoded(this.#key());
    else if (what < 3_995) this.#forget(this.#key());
    else if (what < 3_996) this.#flood();
    else if (what < 3_998) await this.#purge(this.#scope());
    else if (what < 3_999) await this.memory.resize(2 ** (21 + this.#random(4)));
    else if (this.#random(8) === 0) this.#clear();
  }

  /** Several slab pages of one account's answers; where they are purged, pages are left with holes, and moved. */
  #flood(): void {
    const address = this.#address();
    for (let index = 0; index < 4_000; index += 1) {
      const subject = `${address}/0x1::coin::Coin${index % 250}`;
      const key = cacheKey({ ...this.#parts('resource'), version: this.#version(), subject });
      this.#store(key, answerOf(`${this.#random(1e9)}`.padEnd(300, '.')));
    }
  }

  #key(): CacheKey {
    const kind = this.#random(10);
    if (kind === 0) return cacheKey({ ...this.#parts('transaction'), subject: `0x${this.#random(200)}` });
    if (kind === 1)
      return cacheKey({ ...this.#parts('view'), version: this.#version(), subject: `{"a":${this.#random(50)}}` });
    const subject = `${this.#address()}/0x1::coin::Coin${this.#random(250)}`;
    return cacheKey({ ...this.#parts('resource'), version: this.#version(), subject });
  }

  #parts(operation: KeyParts['operation']): Omit<KeyParts, 'subject'> {
    return { chainId, operation, version: undefined, form: this.#random(8) === 0 ? 'bcs' : 'json' };
  }

  /** Most on the page of the head, some far below it. */
  #version() {
    const far = this.#random(4) === 0 ? 4_096 * this.#random(8) : 0;
    return LedgerVersion.of(BigInt(1_000_000 - far - this.#random(8)));
  }

  #address(): string {
    return addresses[this.#random(addresses.length)] ?? '0x1';
  }

  /** Mostly small, often equal to others, now and then of a size or form that is kept in another way. */
  #answer(): CachedResponse {
    const name = this.#random(this.#random(2) === 0 ? 40 : 100_000);
    const size = this.#random(150) === 0 ? 16_000 + this.#random(1_000) : 300 + (name % 9);
    const content: Partial<AnswerContent> = {
      contentType: this.#random(50) === 0 ? `text/${this.#random(400)}` : 'application/json',
      gasUsed: this.#random(3) === 0 ? String(name) : undefined,
      cursor: this.#random(20) === 0 ? 'c'.repeat(this.#random(300)) : undefined,
      committedAt: this.#random(5) === 0 ? LedgerVersion.of(BigInt(name)) : undefined,
      status: this.#random(9) === 0 ? 404 : 200,
    };
    return answerOf(`${name}`.padEnd(size, `-${name}`), content);
  }

  #store(key: CacheKey, answer: CachedResponse): void {
    // A transaction's answer has an end, every other one none.
    const kept = key.page.includes('|transaction|')
      ? answerOf(answer.body.toString(), { lifetimeMs: 600_000 })
      : answer;
    const { digest, body } = this.memory.store(key, kept);
    assert.deepEqual([digest, body], [kept.digest, kept.body]);
    this.#stored.set(keyText(key), { key, answer: kept });
  }

  #look(key: CacheKey): void {
    const found = this.#random(2) === 0 ? this.memory.find(key) : this.memory.peek(key);
    if (found === undefined) return;
    this.found += 1;
    const expected = this.#stored.get(keyText(key))?.answer;
    assert.ok(expected !== undefined, `${keyText(key)} is nothing that was stored, or was forgotten`);
    assert.deepEqual({ ...found, coded: {} }, { ...expected, coded: {} });
    for (const [coding, body] of Object.entries(found.coded))
      assert.equal(body.toString(), `${coding} ${found.digest}`);
    assert.deepEqual(this.memory.findAnswer(found.digest)?.body, expected.body);
    this.#hand(found);
    this.#locate(key);
  }

  /** A location is used much later: it has the key's answer still, or is not held. */
  #locate(key: CacheKey): void {
    const at = this.#random(200);
    this.#lookAgain(at);
    const held = this.memory.locate(key);
    assert.equal(held === undefined, key.page.includes('|transaction|'));
    if (held !== undefined) this.#located[at] = { key, held };
  }

  #lookAgain(at: number): void {
    const located = this.#located[at];
    if (located === undefined) return;
    const { key, held } = located;
    if (!this.memory.isHeld(held)) {
      this.notHeld += 1;
      return;
    }
    this.stillHeld += 1;
    const expected = this.#stored.get(keyText(key))?.answer;
    assert.ok(expected !== undefined, `${keyText(key)} is held, and was forgotten`);
    const { bytes, from, to } = this.memory.bodyOf(held);
    assert.ok(expected.body.equals(bytes.subarray(from, to)), `${keyText(key)} is held, and is another answer`);
    assert.deepEqual({ ...this.memory.answerOf(held), coded: {} }, { ...expected, coded: {} });
    this.memory.use(held);
  }

  /** An answer in flight. */
  #hand(answer: CachedResponse): void {
    const at = this.#random(50);
    const before = this.#given[at];
    if (before !== undefined)
      assert.ok(before.answer.body.equals(before.bytes), 'an answer changed in its reader’s hands');
    this.#given[at] = { answer, bytes: Buffer.from(answer.body) };
  }

  #addCoded(key: CacheKey): void {
    const answer = this.#stored.get(keyText(key))?.answer;
    const coding = codings[this.#random(3)] ?? 'gzip';
    if (answer !== undefined) this.memory.addCoded(answer, coding, Buffer.from(`${coding} ${answer.digest}`));
  }

  #forget(key: CacheKey): void {
    const isHeld = this.memory.peek(key) !== undefined;
    assert.equal(this.memory.forget(key), Number(isHeld));
    this.#stored.delete(keyText(key));
  }

  #scope(): WideScope {
    const which = this.#random(10);
    if (which === 0) return { kind: 'everything' };
    if (which < 7) return { kind: 'account', chainId, address: Address.parse(this.#address()) };
    const subject = `${this.#address()}/0x1::coin::Coin${this.#random(250)}`;
    return { kind: 'versions', read: readText({ ...this.#parts('resource'), subject }) };
  }

  /** Concurrent stores have keys outside its scope: within it, memory may have the read or not. */
  async #purge(scope: WideScope): Promise<void> {
    const covers = pageMatcher(scope);
    const purged = this.memory.purge(scope);
    for (const [name, { key }] of this.#stored) if (covers(key.page)) this.#stored.delete(name);
    for (let more = this.#random(3); more > 0; more -= 1) {
      const key = this.#key();
      if (!covers(key.page)) this.#store(key, this.#answer());
    }
    await purged;
  }

  #clear(): void {
    this.memory.clear();
    this.#stored.clear();
    assert.deepEqual(this.memory.fill, { entries: 0, answers: 0, bytes: 0 });
  }

  /** The sum of all entries, beside memory's own figures. */
  checkAll(): void {
    for (const at of this.#located.keys()) this.#lookAgain(at);
    const held = [...this.#stored.values()].filter(({ key, answer }) => {
      const found = this.memory.peek(key);
      if (found !== undefined) assert.deepEqual({ ...found, coded: {} }, { ...answer, coded: {} });
      return found !== undefined;
    });
    const { entries, answers, bytes } = this.memory.fill;
    assert.equal(entries, held.length);
    assert.equal(answers, new Set(held.map(({ answer }) => answer.digest)).size);
    assert.ok(bytes <= this.memory.maxBytes, `${bytes} bytes of ${this.memory.maxBytes}`);
  }

  get pushedOut(): number {
    return this.#pushedOut;
  }
}

test('a key has its own last answer or none after any sequence of stores, uses, evictions and purges', async () => {
  const world = new World(2 ** 24, seed);
  for (let step = 0; step < steps; step += 1) {
    await world.step();
    if (step % 5_000 === 0) world.checkAll();
  }
  world.checkAll();
  // Otherwise little of it was tested.
  assert.ok(world.found > steps / 20 && world.pushedOut > 0, `${world.found} found, ${world.pushedOut} pushed out`);
  assert.ok(
    world.stillHeld > steps / 50 && world.notHeld > steps / 50,
    `${world.stillHeld} held, ${world.notHeld} not`,
  );
});
