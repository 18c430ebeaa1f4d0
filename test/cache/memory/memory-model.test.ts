import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AnswerContent, CachedResponse } from '../../../src/cache/record.ts';
import { cacheKey, keyText, readText, type CacheKey, type KeyParts } from '../../../src/cache/key.ts';
import { MemoryCache, type CacheLocation } from '../../../src/cache/memory/memory.ts';
import type { PurgeScope } from '../../../src/cache/purge.ts';
import { pageMatcher } from '../../support/purged-pages.ts';
import { Address } from '../../../src/ledger/type-tag.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { Random } from '../../support/random.ts';
import { answerOf } from '../../support/answers.ts';

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
