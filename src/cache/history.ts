/**
 * The history of the ledger that this process is on, and the names in Redis that it may use for it. A history is known by
 * the accumulator root of a committed transaction, which nodes report again and again (docs/redis.md has the argument).
 * Without a recent confirmation by nodes there is no name, and Redis is not used: this fails closed, because a wrong
 * name means a wrong answer, and reads go to nodes instead.
 */
import { randomBytes } from 'node:crypto';
import type { HistoryRegistry } from './history-registry.ts';
import { continued, type Checkpoint, type Term, type Terms } from './history-terms.ts';

/** `same`: nodes report the checkpoint's root, and none another one. `mixed`: some do, some do not. `other`: none does. */
export type Agreement = 'same' | 'other' | 'mixed' | 'unknown';

export interface Look {
  readonly agreement: Agreement;
  /** A newer checkpoint, of a node that confirmed the compared one afterwards. */
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
  /** All nodes report another root at `version` than before: the ledger's history was replaced. */
  readonly onReplaced: (version: bigint) => void;
  /** A replica that uses the same name is on another history: answers from Redis may be of that. */
  readonly onForeign: () => void;
  /** Milliseconds between two checks. */
  readonly intervalMs: number;
  /** A checkpoint above every head is waited for so long, in ms, before a term is begun beside it. Default 30,000. */
  readonly patienceMs?: number;
  /** Redis is used for so long, in ms, after nodes confirmed the history. Default 10,000: as long as a rollback takes to be seen. */
  readonly trustedMs?: number;
}

const usualTrustedMs = 10_000;
const usualPatienceMs = 30_000;
/** Pause after a check without a result, in ms. */
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
  /** Terms whose root nodes contradicted in this generation. */
  readonly #denied = new Set<string>();
  /** Checkpoints of terms that nodes here have not got to. */
  readonly #awaited = new Map<string, Checkpoint>();
  /** Terms that this process ends, with their ledger, until Redis has recorded it. */
  readonly #toEnd = new Map<string, string>();
  #waitingSinceMs: number | undefined;

  constructor(parts: HistoryParts) {
    this.#parts = parts;
  }

  /** The term whose name this process may use in Redis now; `undefined`: it must not use Redis. */
  get term(): Term | undefined {
    if (this.#term === undefined) return undefined;
    if (this.#generation !== this.#parts.generation() || this.#ledger !== this.#parts.ledger()) {
      this.#forgetOld();
      void this.check();
      return undefined;
    }
    return performance.now() - this.#confirmedAtMs <= this.#trustMs ? this.#term : undefined;
  }

  /** The ledger has gone back: no replica may use the term of before again, whichever root nodes report. */
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
    return this.#parts.trustedMs ?? Math.max(usualTrustedMs, 2 * this.#parts.intervalMs);
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
    // Memory is of the same history: nodes are compared without Redis as well.
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

  /** Whether ledger and generation are those that a step began with. */
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
    const { agreement, next } = await look(known, isMine);
    if (!this.#isOf(ledger)) return;
    this.#note(own.id, known, agreement);
    if (agreement === 'other') return this.#leave(ledger, own, known);
    if (agreement === 'mixed') this.#confirmedAtMs = -Infinity;
    if (agreement === 'unknown' && known !== own.checkpoint) return this.#confirmBehind(ledger, own);
    if (agreement !== 'same') return;
    this.#confirmedAtMs = performance.now();
    // The server of a cluster that holds the terms may be away alone: the others are used.
    if (terms === undefined) return;
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
    const { agreement } = await this.#parts.look(own.checkpoint, false);
    if (!this.#isOf(ledger)) return;
    if (agreement === 'other') return this.#leave(ledger, own, own.checkpoint);
    if (agreement === 'same') this.#confirmedAtMs = performance.now();
  }

  /** A checkpoint that nodes here have not got to is asked about until they have: the term's moves on meanwhile. */
  #note(id: string, checkpoint: Checkpoint, agreement: Agreement): void {
    if (agreement === 'unknown') this.#awaited.set(id, checkpoint);
    else this.#awaited.delete(id);
    if (agreement === 'other') this.#denied.add(id);
  }

  /** Nodes contradict the term's checkpoint: the term is of another history, or the ledger's own was replaced. */
  async #leave(ledger: string, own: Term, known: Checkpoint): Promise<void> {
    this.#denied.add(own.id);
    this.#term = undefined;
    const agreement = known === own.checkpoint ? 'other' : (await this.#parts.look(own.checkpoint, false)).agreement;
    if (!this.#isOf(ledger)) return;
    if (agreement === 'other') this.#parts.onReplaced(own.checkpoint.version);
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
      const { agreement } = await this.#parts.look(known, false);
      if (!this.#isOf(ledger)) return;
      this.#note(older.id, known, agreement);
      if (agreement === 'same') return this.#take(ledger, { ...older, checkpoint: known }, asPublished);
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
      const { agreement } = await look(known, false);
      if (!this.#isOf(ledger)) return;
      this.#note(term.id, known, agreement);
      if (agreement === 'mixed') return;
      isUndecided ||= agreement === 'unknown';
      if (agreement !== 'same') continue;
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
    // Nodes are behind, or the ledger went back while no replica ran: the roots differ only once nodes get there.
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
