/**
 * The history of the ledger that this process is on, and the names in Redis that it may use for it. A history is known by
 * the accumulator root of a committed transaction, which nodes report again and again (docs/redis.md has the argument).
 * Without a recent confirmation by nodes there is no name, and Redis is not used: this fails closed, because a wrong
 * name means a wrong answer, and reads go to nodes instead.
 */
import { randomBytes } from 'node:crypto';
import type { HistoryRegistry } from './history-registry.ts';
import { continued, type Checkpoint, type Term, type Terms } from './history-terms.ts';

/**
 * `same`: nodes report the checkpoint's root, and none another one. `mixed`: some do, some do not. `other`: none does.
 * `pruned`: no node reports one, and a node holds nothing that old any more.
 */
export type Agreement = 'same' | 'other' | 'mixed' | 'pruned' | 'unknown';

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
/** Pause after the first check without a result, in ms; it grows by as much with each. */
const retryMs = 1_100;
const termIdBytes = 5;
/** Terms that one process ended and remembers. */
const mostEnded = 16;

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
  /** Terms whose root nodes contradicted in this generation. */
  readonly #denied = new Set<string>();
  /** Checkpoints of terms that nodes here have not got to. */
  readonly #awaited = new Map<string, Checkpoint>();
  /** Terms that this process ended, by name: also those whose end Redis did not take, or lost. */
  readonly #ended = new Map<string, End>();
  #waitingSinceMs: number | undefined;
  /** Checks without a result, one after another: nodes that report no root must not be asked more often than others. */
  #fruitless = 0;

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
    if (this.#left !== undefined) this.#ended.set(this.#left.id, { ledger: this.#left.ledger, isRecorded: false });
    const [oldest] = this.#ended.keys();
    if (this.#ended.size > mostEnded && oldest !== undefined) this.#ended.delete(oldest);
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
    const { intervalMs } = this.#parts;
    this.#fruitless = this.term === undefined ? this.#fruitless + 1 : 0;
    const pauseMs = this.#fruitless === 0 ? intervalMs : Math.min(intervalMs, retryMs * this.#fruitless);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.check(), pauseMs);
    this.#timer.unref();
  }

  async #check(): Promise<void> {
    const { registry } = this.#parts;
    this.#forgetOld();
    const ledger = this.#ledger;
    if (ledger === undefined) return;
    for (const [id, end] of this.#ended) end.isRecorded ||= await registry.end(end.ledger, id);
    const terms = await this.#read(ledger);
    if (!this.#isOf(ledger)) return;
    for (const id of this.#awaited.keys())
      if (terms?.open.some((term) => term.id === id) === false) this.#awaited.delete(id);
    // Memory is of the same history: nodes are compared without Redis as well.
    if (this.#term !== undefined) await this.#confirm(ledger, this.#term, terms);
    if (terms !== undefined && this.#term === undefined && this.#isOf(ledger)) await this.#join(ledger, terms);
  }

  /** The terms in Redis, without those that this process ended: a member that was away may have published one again. */
  async #read(ledger: string): Promise<Terms | undefined> {
    const terms = await this.#parts.registry.read(ledger);
    if (terms === undefined) return undefined;
    for (const { id } of terms.open) {
      const end = this.#ended.get(id);
      if (end !== undefined) end.isRecorded = false;
    }
    return { open: terms.open.filter(({ id }) => !this.#ended.has(id)), ended: terms.ended };
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
    this.#fruitless = 0;
  }

  /** Whether ledger and generation are those that a step began with. */
  #isOf(ledger: string): boolean {
    return this.#generation === this.#parts.generation() && ledger === this.#parts.ledger();
  }

  /** Checks the term that this process is of, and moves its checkpoint on. */
  async #confirm(ledger: string, own: Term, terms: Terms | undefined): Promise<void> {
    const { look } = this.#parts;
    const askedMs = performance.now();
    const held = terms?.open.find(({ id }) => id === own.id);
    const isAhead = held !== undefined && held.checkpoint.version > own.checkpoint.version;
    const newest = isAhead ? held.checkpoint : own.checkpoint;
    const known = this.#awaited.get(own.id) ?? newest;
    const { agreement, next } = await look(known, !isAhead);
    if (!this.#isOf(ledger)) return;
    this.#note(own.id, known, agreement);
    if (agreement === 'other') return this.#leave(ledger, own, known);
    if (agreement === 'mixed') this.#confirmedAtMs = -Infinity;
    // Nothing can confirm the term any more, unless another member moves its checkpoint on.
    if (agreement === 'pruned' && known === newest && terms !== undefined) this.#term = undefined;
    if (agreement === 'unknown' && known !== own.checkpoint) return this.#confirmBehind(ledger, own);
    if (agreement !== 'same') return;
    this.#confirmedAtMs = askedMs;
    // The server of a cluster that holds the terms may be away alone: the others are used. Nodes prune a checkpoint that
    // stays where it is.
    if (terms === undefined) {
      this.#term = movedOn({ ...own, checkpoint: known }, next);
      return;
    }
    if (terms.ended.has(own.id)) {
      this.#term = undefined;
      return this.#parts.onForeign();
    }
    const isPublished = held !== undefined && held.checkpoint.version >= known.version;
    await this.#take(ledger, { ...own, checkpoint: known }, { next, isPublished, askedMs });
    await this.#preferOlder(ledger, own, terms);
  }

  /** Nodes here are behind those of another replica: for a while, what they confirmed last is enough. */
  async #confirmBehind(ledger: string, own: Term): Promise<void> {
    this.#waitingSinceMs ??= performance.now();
    if (performance.now() - this.#waitingSinceMs > this.#patienceMs) return;
    const askedMs = performance.now();
    const { agreement } = await this.#parts.look(own.checkpoint, false);
    if (!this.#isOf(ledger)) return;
    if (agreement === 'other') return this.#leave(ledger, own, own.checkpoint);
    if (agreement === 'same') this.#confirmedAtMs = askedMs;
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
  async #take(ledger: string, term: Term, { next, isPublished, askedMs }: Taken): Promise<void> {
    const moved = movedOn(term, next);
    this.#term = moved;
    this.#confirmedAtMs = askedMs;
    this.#waitingSinceMs = undefined;
    await this.#parts.registry.publish(ledger, term.id, moved !== term || !isPublished ? moved : undefined);
  }

  /** Replicas that began a term each, for one history, come together at the oldest. */
  async #preferOlder(ledger: string, own: Term, terms: Terms): Promise<void> {
    for (const older of terms.open) {
      if (!isOlder(older, own)) return;
      if (this.#denied.has(older.id) || !(await this.#parts.registry.hasMembers(ledger, older.id))) continue;
      const known = this.#awaited.get(older.id) ?? older.checkpoint;
      const askedMs = performance.now();
      const { agreement } = await this.#parts.look(known, false);
      if (!this.#isOf(ledger)) return;
      this.#note(older.id, known, agreement);
      if (agreement === 'same') return this.#take(ledger, { ...older, checkpoint: known }, asPublished(askedMs));
    }
  }

  /** Finds the term of this process's history among those of other replicas, or begins one. */
  async #join(ledger: string, terms: Terms): Promise<void> {
    const { registry, look } = this.#parts;
    let isUndecided = false;
    let empty: { readonly term: Term; readonly askedMs: number } | undefined;
    for (const term of terms.open) {
      if (this.#denied.has(term.id)) continue;
      const known = this.#awaited.get(term.id) ?? term.checkpoint;
      const askedMs = performance.now();
      const { agreement } = await look(known, false);
      if (!this.#isOf(ledger)) return;
      this.#note(term.id, known, agreement);
      if (agreement === 'mixed') return;
      isUndecided ||= agreement === 'unknown' || agreement === 'pruned';
      if (agreement !== 'same') continue;
      const hasMembers = await registry.hasMembers(ledger, term.id);
      if (hasMembers === undefined || !this.#isOf(ledger)) return;
      const confirmed = { ...term, checkpoint: known };
      if (hasMembers) return this.#take(ledger, confirmed, asPublished(askedMs));
      empty ??= { term: confirmed, askedMs };
    }
    if (empty !== undefined) {
      await this.#begin(ledger, continued(empty.term, newId(), Date.now()), { terms, askedMs: empty.askedMs });
      if (this.#isOf(ledger)) await registry.end(ledger, empty.term.id);
      return;
    }
    // Nodes are behind, or the ledger went back while no replica ran: the roots differ only once nodes get there.
    this.#waitingSinceMs ??= performance.now();
    if (isUndecided && performance.now() - this.#waitingSinceMs < this.#patienceMs) return;
    const askedMs = performance.now();
    const { next } = await look(undefined, true);
    if (next === undefined || !this.#isOf(ledger)) return;
    await this.#begin(ledger, { id: newId(), bornMs: Date.now(), checkpoint: next, before: [] }, { terms, askedMs });
  }

  async #begin(ledger: string, term: Term, { terms, askedMs }: Begun): Promise<void> {
    await this.#take(ledger, term, { next: undefined, isPublished: false, askedMs });
    await this.#parts.registry.tidy(ledger, terms);
    // Another replica may have begun one at the same moment.
    const after = await this.#read(ledger);
    if (after !== undefined && this.#isOf(ledger)) await this.#preferOlder(ledger, term, after);
  }
}

/** Redis has the term, and nothing of it is news. */
function asPublished(askedMs: number): Taken {
  return { next: undefined, isPublished: true, askedMs };
}

interface Taken {
  readonly next: Checkpoint | undefined;
  /** Redis has the term as it was. */
  readonly isPublished: boolean;
  /** When nodes were asked, on the clock of `performance.now()`: an answer may be read as much later as a pause lasts. */
  readonly askedMs: number;
}

interface Begun {
  readonly terms: Terms;
  readonly askedMs: number;
}

/** The end of a term. */
interface End {
  readonly ledger: string;
  /** Redis took it. */
  isRecorded: boolean;
}

/** The term with a newer checkpoint, where there is one. */
function movedOn(term: Term, next: Checkpoint | undefined): Term {
  return next !== undefined && next.version > term.checkpoint.version ? { ...term, checkpoint: next } : term;
}

function isOlder(one: Term, other: Term): boolean {
  return one.bornMs < other.bornMs || (one.bornMs === other.bornMs && one.id < other.id);
}

/** Eight characters that no other term has. */
function newId(): string {
  return randomBytes(termIdBytes).readUIntBE(0, termIdBytes).toString(36).padStart(8, '0');
}
