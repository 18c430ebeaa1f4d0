/**
 * On which history of the ledger this process is, and under which names Redis may be used for it. A history is known by
 * the accumulator root of a committed transaction, which nodes are asked for again and again (docs/redis.md has the
 * argument). While nodes have not confirmed it lately, no name is given, and Redis is not used: fail closed, for it
 * touches which answer is right; reads go to nodes.
 */
import { randomBytes } from 'node:crypto';
import type { HistoryRegistry } from './history-registry.ts';
import { continued, type Checkpoint, type Term, type Terms } from './history-terms.ts';

/** `same`: nodes confirm the checkpoint and none denies it. `mixed`: some do, some deny. `other`: all deny it. */
export type Word = 'same' | 'other' | 'mixed' | 'unknown';

export interface Look {
  readonly word: Word;
  /** A newer checkpoint, told by a node that confirmed the one that was asked about afterwards. */
  readonly next: Checkpoint | undefined;
}

export interface HistoryParts {
  readonly registry: HistoryRegistry;
  /** Asks every node for its root at `known`; `wantsNext`: and one node, before that, for the root at its head. */
  readonly look: (known: Checkpoint | undefined, wantsNext: boolean) => Promise<Look>;
  /** Chain id and first transaction; `undefined` while they are not known. */
  readonly ledger: () => string | undefined;
  /** The fleet's: when it goes up, nothing of before counts. */
  readonly generation: () => number;
  /** All nodes deny what they confirmed before: the ledger has another history at `version` than it had. */
  readonly onReplaced: (version: bigint) => void;
  /** Others under the same name are on another history: what was taken from Redis may be theirs. */
  readonly onForeign: () => void;
  /** Milliseconds between two checks. */
  readonly intervalMs: number;
  /** A checkpoint above every head is waited for so long, in ms, before a term is begun beside it. Default 30,000. */
  readonly patienceMs?: number;
}

/** Redis is used for this long, in ms, after nodes confirmed the history: the time that a rollback takes to be seen. */
const trustedMs = 10_000;
const usualPatienceMs = 30_000;
/** A check that could not tell is made again after this long, in ms. */
const retryMs = 1_100;
const termIdBytes = 5;

export class History {
  readonly #parts: HistoryParts;
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void> | undefined;
  #isClosed = false;
  #ledger: string | undefined;
  #generation = 0;
  #term: Term | undefined;
  /** The term of the generation before, and its ledger. */
  #left: { readonly id: string; readonly ledger: string } | undefined;
  #confirmedAtMs = -Infinity;
  /** The term's checkpoint in Redis at the last check: one that has not moved since is this process's to move. */
  #seen: bigint | undefined;
  /** Terms that nodes have denied in this generation. */
  readonly #denied = new Set<string>();
  /** Checkpoints of terms that nodes here have not got to. */
  readonly #awaited = new Map<string, Checkpoint>();
  /** Terms that this process has seen end, until Redis knows. */
  readonly #toEnd = new Map<string, string>();
  #waitingSinceMs: number | undefined;

  constructor(parts: HistoryParts) {
    this.#parts = parts;
  }

  /** The term under whose name Redis may be used now; `undefined`: Redis must not be used. */
  get term(): Term | undefined {
    if (this.#term === undefined) return undefined;
    if (this.#generation !== this.#parts.generation() || this.#ledger !== this.#parts.ledger()) {
      this.#forgetOld();
      void this.check();
      return undefined;
    }
    return performance.now() - this.#confirmedAtMs <= this.#trustMs ? this.#term : undefined;
  }

  /** The ledger has gone back: nobody may go on with the term of before, whatever nodes say of its checkpoint. */
  rolledBack(): void {
    this.#forgetOld();
    if (this.#left !== undefined) this.#toEnd.set(this.#left.id, this.#left.ledger);
    this.#left = undefined;
    void this.check();
  }

  /** Compares the history with that of nodes and of other replicas now. Never rejects. */
  check(): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    clearTimeout(this.#timer);
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
      this.#schedule();
    });
    return this.#checking;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  get #trustMs(): number {
    return Math.max(trustedMs, 2 * this.#parts.intervalMs);
  }

  get #patienceMs(): number {
    return this.#parts.patienceMs ?? usualPatienceMs;
  }

  #schedule(): void {
    if (this.#isClosed) return;
    const pauseMs = this.term === undefined ? retryMs : this.#parts.intervalMs;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.check(), pauseMs);
    this.#timer.unref();
  }

  async #check(): Promise<void> {
    const { registry } = this.#parts;
    this.#forgetOld();
    const ledger = this.#ledger;
    if (ledger === undefined) return;
    for (const [id, of] of this.#toEnd) if (await registry.end(of, id)) this.#toEnd.delete(id);
    const terms = await registry.read(ledger);
    if (!this.#isOf(ledger)) return;
    for (const id of this.#awaited.keys())
      if (terms?.open.some((term) => term.id === id) === false) this.#awaited.delete(id);
    // What memory holds is of the same history: without Redis, nodes are asked all the same.
    if (this.#term !== undefined) await this.#confirm(ledger, this.#term, terms);
    if (terms !== undefined && this.#term === undefined && this.#isOf(ledger)) await this.#join(ledger, terms);
  }

  #forgetOld(): void {
    const [generation, ledger] = [this.#parts.generation(), this.#parts.ledger()];
    if (generation === this.#generation && ledger === this.#ledger) return;
    if (this.#term !== undefined && this.#ledger !== undefined) {
      this.#left = { id: this.#term.id, ledger: this.#ledger };
    }
    this.#generation = generation;
    this.#ledger = ledger;
    this.#term = undefined;
    this.#denied.clear();
    this.#awaited.clear();
    this.#waitingSinceMs = undefined;
  }

  /** Whether what was found out is of the present still. */
  #isOf(ledger: string): boolean {
    return this.#generation === this.#parts.generation() && ledger === this.#parts.ledger();
  }

  /** Checks the term that this process is of, and moves its checkpoint on. */
  async #confirm(ledger: string, own: Term, terms: Terms | undefined): Promise<void> {
    const { look } = this.#parts;
    const held = terms?.open.find(({ id }) => id === own.id);
    const isAhead = held !== undefined && held.checkpoint.version > own.checkpoint.version;
    const known = this.#awaited.get(own.id) ?? (isAhead ? held.checkpoint : own.checkpoint);
    const isMine = held === undefined || held.checkpoint.version === this.#seen;
    const { word, next } = await look(known, isMine);
    if (!this.#isOf(ledger)) return;
    this.#note(own.id, known, word);
    if (word === 'other') return this.#leave(ledger, own, known);
    if (word === 'mixed') this.#confirmedAtMs = -Infinity;
    if (word === 'unknown' && known !== own.checkpoint) return this.#confirmBehind(ledger, own);
    if (word !== 'same' || terms === undefined) return;
    if (terms.ended.has(own.id)) {
      this.#term = undefined;
      return this.#parts.onForeign();
    }
    await this.#take(ledger, { ...own, checkpoint: known }, { next, isPublished: held !== undefined });
    await this.#preferOlder(ledger, own, terms);
  }

  /** Nodes here are behind those of another replica: for a while, what they confirmed last is enough. */
  async #confirmBehind(ledger: string, own: Term): Promise<void> {
    this.#waitingSinceMs ??= performance.now();
    if (performance.now() - this.#waitingSinceMs > this.#patienceMs) return;
    const { word } = await this.#parts.look(own.checkpoint, false);
    if (!this.#isOf(ledger)) return;
    if (word === 'other') return this.#leave(ledger, own, own.checkpoint);
    if (word === 'same') this.#confirmedAtMs = performance.now();
  }

  /** A checkpoint that nodes here have not got to is asked about until they have: the term's moves on meanwhile. */
  #note(id: string, checkpoint: Checkpoint, word: Word): void {
    if (word === 'unknown') this.#awaited.set(id, checkpoint);
    else this.#awaited.delete(id);
    if (word === 'other') this.#denied.add(id);
  }

  /** Nodes deny the term's checkpoint: the term is another history's, or the ledger has another history than before. */
  async #leave(ledger: string, own: Term, known: Checkpoint): Promise<void> {
    this.#denied.add(own.id);
    this.#term = undefined;
    const word = known === own.checkpoint ? 'other' : (await this.#parts.look(own.checkpoint, false)).word;
    if (!this.#isOf(ledger)) return;
    if (word === 'other') this.#parts.onReplaced(own.checkpoint.version);
    else this.#parts.onForeign();
  }

  /** The term is this process's from now on. */
  async #take(ledger: string, term: Term, { next, isPublished }: Taken): Promise<void> {
    const isNews = next !== undefined && next.version > term.checkpoint.version;
    const moved = isNews ? { ...term, checkpoint: next } : term;
    this.#term = moved;
    this.#confirmedAtMs = performance.now();
    this.#waitingSinceMs = undefined;
    this.#seen = moved.checkpoint.version;
    await this.#parts.registry.publish(ledger, term.id, isNews || !isPublished ? moved : undefined);
  }

  /** Replicas that began a term each, for one history, come together at the oldest. */
  async #preferOlder(ledger: string, own: Term, terms: Terms): Promise<void> {
    for (const older of terms.open) {
      if (!isOlder(older, own)) return;
      if (this.#denied.has(older.id) || !(await this.#parts.registry.hasMembers(ledger, older.id))) continue;
      const known = this.#awaited.get(older.id) ?? older.checkpoint;
      const { word } = await this.#parts.look(known, false);
      if (!this.#isOf(ledger)) return;
      this.#note(older.id, known, word);
      if (word === 'same') return this.#take(ledger, { ...older, checkpoint: known }, asPublished);
    }
  }

  /** Finds the term of this process's history among those of other replicas, or begins one. */
  async #join(ledger: string, terms: Terms): Promise<void> {
    const { registry, look } = this.#parts;
    let isUndecided = false;
    let empty: Term | undefined;
    for (const term of terms.open) {
      if (this.#denied.has(term.id)) continue;
      const known = this.#awaited.get(term.id) ?? term.checkpoint;
      const { word } = await look(known, false);
      if (!this.#isOf(ledger)) return;
      this.#note(term.id, known, word);
      if (word === 'mixed') return;
      isUndecided ||= word === 'unknown';
      if (word !== 'same') continue;
      const hasMembers = await registry.hasMembers(ledger, term.id);
      if (hasMembers === undefined || !this.#isOf(ledger)) return;
      const confirmed = { ...term, checkpoint: known };
      if (hasMembers) return this.#take(ledger, confirmed, asPublished);
      empty ??= confirmed;
    }
    if (empty !== undefined) {
      await this.#begin(ledger, continued(empty, newId(), Date.now()), terms);
      if (this.#isOf(ledger)) await registry.end(ledger, empty.id);
      return;
    }
    // Nodes that are behind, or a ledger that went back while nobody looked: it cannot be told until they get there.
    this.#waitingSinceMs ??= performance.now();
    if (isUndecided && performance.now() - this.#waitingSinceMs < this.#patienceMs) return;
    const { next } = await look(undefined, true);
    if (next === undefined || !this.#isOf(ledger)) return;
    await this.#begin(ledger, { id: newId(), bornMs: Date.now(), checkpoint: next, before: [] }, terms);
  }

  async #begin(ledger: string, term: Term, terms: Terms): Promise<void> {
    await this.#take(ledger, term, { next: undefined, isPublished: false });
    await this.#parts.registry.tidy(ledger, terms);
    // Another replica may have begun one at the same moment.
    const after = await this.#parts.registry.read(ledger);
    if (after !== undefined && this.#isOf(ledger)) await this.#preferOlder(ledger, term, after);
  }
}

/** Redis has the term, and nothing of it is news. */
const asPublished: Taken = { next: undefined, isPublished: true };

interface Taken {
  readonly next: Checkpoint | undefined;
  /** Redis has the term as it was. */
  readonly isPublished: boolean;
}

function isOlder(one: Term, other: Term): boolean {
  return one.bornMs < other.bornMs || (one.bornMs === other.bornMs && one.id < other.id);
}

/** Eight characters that no other term has. */
function newId(): string {
  return randomBytes(termIdBytes).readUIntBE(0, termIdBytes).toString(36).padStart(8, '0');
}
