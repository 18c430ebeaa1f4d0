import { randomBytes } from 'node:crypto';
import { continued, type Checkpoint, type CheckpointReport, type Term, type Terms } from './terms.ts';

/** Keeps the terms of each ledger (chain id and first transaction) for all processes of a tier. No method rejects. */
export interface TermRegistry {
  /** `undefined`: no answer now. */
  read(ledger: string): Promise<Terms | undefined>;
  /** Whether another process is a member of the term; `undefined`: no answer now. */
  hasMembers(ledger: string, id: string): Promise<boolean | undefined>;
  /** Records this process as a member of the term, and `term` itself where it changed. Resolves to whether it is kept. */
  publish(ledger: string, id: string, term?: Term): Promise<boolean>;
  /** Ends a term for every process. Resolves to whether that is kept. */
  end(ledger: string, id: string): Promise<boolean>;
  /** Bounds the number of terms. */
  tidy(ledger: string, terms: Terms): Promise<void>;
}

/** Parts of a `History` and its memberships. */
export interface HistoryParts {
  readonly registry: TermRegistry;
  /** Chain id and first transaction; `undefined` while they are not known. */
  readonly ledger: () => string | undefined;
  /** The fleet's generation: when it rises, earlier confirmations do not count. */
  readonly generation: () => number;
  /** Start of an outage, on the clock of `performance.now()`; `undefined`: a node answers. */
  readonly outageFromMs: () => number | undefined;
  /** Reads every node's root at `known`; `wantsNext`: before that, one node's root at its head. */
  readonly readRoots: (known: Checkpoint | undefined, wantsNext: boolean) => Promise<CheckpointReport>;
  /** All nodes report a new root at `version`: the ledger's history was replaced. */
  readonly onReplaced: (version: bigint) => void;
  /** A replica that uses the same name is on another history: answers from Redis may belong to it. */
  readonly onForeign: () => void;
  /** Milliseconds between two checks. */
  readonly intervalMs: number;
  /**
   * Ms of waiting for nodes to reach a checkpoint above every head, before a term begins beside it. Default 30,000.
   */
  readonly patienceMs?: number;
  /** Ms for which nodes' confirmation allows the use of Redis. Default 10,000: a rollback is noticed within that. */
  readonly trustedMs?: number;
}

/** A term with the checkpoint that nodes compared. */
interface TermComparison extends Partial<CheckpointReport> {
  readonly term: Term;
  /** Time of the request to nodes, on the clock of `performance.now()`: a pause of the process may delay the answer. */
  readonly askedMs: number;
}

const termIdBytes = 5;
const usualPatienceMs = 30_000;

/** The membership of this process in a term: it confirms the term with nodes, joins a replica's, or begins one. */
export class Membership {
  /** Chain id and first transaction. */
  readonly ledger: string;
  readonly #parts: HistoryParts;
  readonly #generation: number;
  readonly #read: () => Promise<Terms | undefined>;
  #term: Term | undefined;
  #confirmedAtMs = -Infinity;
  /** Terms whose root nodes contradicted. */
  readonly #denied = new Set<string>();
  /** Checkpoints that nodes here have not reached, by the term's name. */
  readonly #awaited = new Map<string, Checkpoint>();
  #waitingSinceMs: number | undefined;

  /** `read` reads the kept terms; `undefined`: no answer now. */
  constructor(parts: HistoryParts, ledger: string, read: () => Promise<Terms | undefined>) {
    this.#parts = parts;
    this.ledger = ledger;
    this.#generation = parts.generation();
    this.#read = read;
  }

  /** Whether ledger and generation are unchanged; otherwise no result of a step counts. */
  get isCurrent(): boolean {
    return this.#generation === this.#parts.generation() && this.ledger === this.#parts.ledger();
  }

  get term(): Term | undefined {
    return this.#term;
  }

  /** Time of the nodes' last confirmation, on the clock of `performance.now()`. */
  get confirmedAtMs(): number {
    return this.#confirmedAtMs;
  }

  /** Compares the term with nodes and with the kept terms; with nodes also while Redis is away. */
  async check(): Promise<void> {
    const terms = await this.#read();
    if (!this.isCurrent) return;
    for (const id of this.#awaited.keys())
      if (terms?.open.some((term) => term.id === id) === false) this.#awaited.delete(id);
    if (this.#term !== undefined) await this.#confirm(this.#term, terms);
    if (terms !== undefined && this.#term === undefined && this.isCurrent) await this.#join(terms);
  }

  /**
   * Compares a term's checkpoint with nodes; `undefined`: the membership ended meanwhile. A checkpoint above the nodes
   * is compared until they reach it, although the term's own moves on.
   */
  async #compare(term: Term, wantsNext = false): Promise<(TermComparison & CheckpointReport) | undefined> {
    const checkpoint = this.#awaited.get(term.id) ?? term.checkpoint;
    const askedMs = performance.now();
    const { agreement, next } = await this.#parts.readRoots(checkpoint, wantsNext);
    if (!this.isCurrent) return undefined;
    if (agreement === 'unknown') this.#awaited.set(term.id, checkpoint);
    else this.#awaited.delete(term.id);
    if (agreement === 'other') this.#denied.add(term.id);
    return { agreement, next, askedMs, term: { ...term, checkpoint } };
  }

  /** Confirms this process's term and advances its checkpoint. */
  async #confirm(own: Term, terms: Terms | undefined): Promise<void> {
    const held = terms?.open.find(({ id }) => id === own.id);
    const isAhead = held !== undefined && held.checkpoint.version > own.checkpoint.version;
    const newest = isAhead ? held.checkpoint : own.checkpoint;
    const compared = await this.#compare({ ...own, checkpoint: newest }, !isAhead);
    if (compared === undefined) return;
    const { agreement, next, term } = compared;
    const known = term.checkpoint;
    if (agreement === 'other') return this.#leave(own, known);
    if (agreement === 'mixed') this.#confirmedAtMs = -Infinity;
    // No node can confirm the term any more, unless another member advances its checkpoint.
    if (agreement === 'pruned' && known === newest && terms !== undefined) this.#term = undefined;
    if (agreement === 'unknown' && known !== own.checkpoint) return this.#confirmBehind(own);
    if (agreement !== 'same') return;
    this.#confirmedAtMs = compared.askedMs;
    // In a cluster the terms' server may be away alone. The checkpoint advances all the same, or nodes would prune it.
    if (terms === undefined) {
      this.#term = movedOn(term, next);
      return;
    }
    if (terms.ended.has(own.id)) {
      this.#term = undefined;
      return this.#parts.onForeign();
    }
    await this.#take(compared, held !== undefined && held.checkpoint.version >= known.version);
    await this.#preferOlder(own, terms);
  }

  /** Nodes here are behind another replica's: for `patienceMs` the last checkpoint that they confirmed is enough. */
  async #confirmBehind(own: Term): Promise<void> {
    if (this.#hasWaitedLong()) return;
    const askedMs = performance.now();
    const { agreement } = await this.#parts.readRoots(own.checkpoint, false);
    if (!this.isCurrent) return;
    if (agreement === 'other') return this.#leave(own, own.checkpoint);
    if (agreement === 'same') this.#confirmedAtMs = askedMs;
  }

  /** Nodes contradict the term's checkpoint: the term is of another history, or the ledger's history was replaced. */
  async #leave(own: Term, known: Checkpoint): Promise<void> {
    this.#denied.add(own.id);
    this.#term = undefined;
    const agreement =
      known === own.checkpoint ? 'other' : (await this.#parts.readRoots(own.checkpoint, false)).agreement;
    if (!this.isCurrent) return;
    if (agreement === 'other') this.#parts.onReplaced(own.checkpoint.version);
    else this.#parts.onForeign();
  }

  /** Adopts the term. `isPublished`: Redis has it with this checkpoint. */
  async #take({ term, next, askedMs }: TermComparison, isPublished: boolean): Promise<void> {
    const moved = movedOn(term, next);
    this.#term = moved;
    this.#confirmedAtMs = askedMs;
    this.#waitingSinceMs = undefined;
    await this.#parts.registry.publish(this.ledger, term.id, moved !== term || !isPublished ? moved : undefined);
  }

  /** Replicas that each began a term for one history converge on the oldest. */
  async #preferOlder(own: Term, terms: Terms): Promise<void> {
    for (const older of terms.open) {
      if (!isOlder(older, own)) return;
      if (this.#denied.has(older.id) || !(await this.#parts.registry.hasMembers(this.ledger, older.id))) continue;
      const compared = await this.#compare(older);
      if (compared === undefined) return;
      if (compared.agreement === 'same') return this.#take(compared, true);
    }
  }

  /** Joins another replica's term of the same history, or begins one. */
  async #join(terms: Terms): Promise<void> {
    const { registry, readRoots } = this.#parts;
    let isUndecided = false;
    let empty: TermComparison | undefined;
    for (const term of terms.open) {
      if (this.#denied.has(term.id)) continue;
      const compared = await this.#compare(term);
      if (compared === undefined || compared.agreement === 'mixed') return;
      isUndecided ||= compared.agreement === 'unknown' || compared.agreement === 'pruned';
      if (compared.agreement !== 'same') continue;
      const hasMembers = await registry.hasMembers(this.ledger, term.id);
      if (hasMembers === undefined || !this.isCurrent) return;
      if (hasMembers) return this.#take(compared, true);
      empty ??= compared;
    }
    if (empty !== undefined) {
      const { term, askedMs } = empty;
      await this.#begin({ term: continued(term, newId(), Date.now()), askedMs }, terms);
      if (this.isCurrent) await registry.end(this.ledger, term.id);
      return;
    }
    // Nodes are behind, or the ledger rolled back while no replica ran: roots differ only from the checkpoint on.
    if (!this.#hasWaitedLong() && isUndecided) return;
    const askedMs = performance.now();
    const { next } = await readRoots(undefined, true);
    if (next === undefined || !this.isCurrent) return;
    await this.#begin({ term: { id: newId(), bornMs: Date.now(), checkpoint: next, before: [] }, askedMs }, terms);
  }

  async #begin(begun: TermComparison, terms: Terms): Promise<void> {
    await this.#take(begun, false);
    await this.#parts.registry.tidy(this.ledger, terms);
    // Another replica may have begun one at the same moment.
    const after = await this.#read();
    if (after !== undefined && this.isCurrent) await this.#preferOlder(begun.term, after);
  }

  /** Whether `patienceMs` have passed since the first call. */
  #hasWaitedLong(): boolean {
    this.#waitingSinceMs ??= performance.now();
    return performance.now() - this.#waitingSinceMs >= (this.#parts.patienceMs ?? usualPatienceMs);
  }
}

/** The term with a newer checkpoint, where there is one. */
function movedOn(term: Term, next: Checkpoint | undefined): Term {
  return next !== undefined && next.version > term.checkpoint.version ? { ...term, checkpoint: next } : term;
}

function isOlder(one: Term, other: Term): boolean {
  return one.bornMs < other.bornMs || (one.bornMs === other.bornMs && one.id < other.id);
}

/** Eight random characters. */
function newId(): string {
  return randomBytes(termIdBytes).readUIntBE(0, termIdBytes).toString(36).padStart(8, '0');
}
