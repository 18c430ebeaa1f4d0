/**
 * The history of the ledger that this process is on, and the names in Redis that it may use for it. A history is known by
 * the accumulator root of a committed transaction, which nodes report again and again (docs/redis.md has the argument).
 * Without a recent confirmation by nodes there is no name, and Redis is not used: this fails closed, because a wrong
 * name means a wrong answer, and reads go to nodes instead.
 */
import { Membership, type MembershipParts } from './history-membership.ts';
import type { HistoryRegistry } from './history-registry.ts';
import type { Term, Terms } from './history-terms.ts';

export interface HistoryParts extends Pick<MembershipParts, 'readRoots' | 'onReplaced' | 'onForeign'> {
  readonly registry: HistoryRegistry;
  /** Chain id and first transaction; `undefined` while they are not known. */
  readonly ledger: () => string | undefined;
  /** The fleet's: when it goes up, nothing of before counts. */
  readonly generation: () => number;
  /** Milliseconds between two checks. */
  readonly intervalMs: number;
  /** See `MembershipParts.patienceMs`. Default 30,000. */
  readonly patienceMs?: number;
  /** Redis is used for so long, in ms, after nodes confirmed the history. Default 10,000: as long as a rollback takes to be seen. */
  readonly trustedMs?: number;
}

const usualTrustedMs = 10_000;
const usualPatienceMs = 30_000;
/** Pause after the first check without a result, in ms; it grows by as much with each. */
const retryMs = 1_100;
/** Terms that one process ended and remembers. */
const mostEnded = 16;

export class History {
  readonly #parts: HistoryParts;
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void> | undefined;
  #isClosed = false;
  #membership: Membership | undefined;
  /** The last term of a generation before, and its ledger. */
  #left: { readonly id: string; readonly ledger: string } | undefined;
  /** Terms that this process ended, by name: also those whose end Redis did not take, or lost. */
  readonly #ended = new Map<string, End>();
  /** Checks without a result, one after another: nodes that report no root must not be asked more often than others. */
  #fruitless = 0;

  constructor(parts: HistoryParts) {
    this.#parts = parts;
  }

  /** The term whose name this process may use in Redis now; `undefined`: it must not use Redis. */
  get term(): Term | undefined {
    const membership = this.#membership;
    if (membership?.term === undefined) return undefined;
    if (!membership.isCurrent) {
      this.#renew();
      void this.check();
      return undefined;
    }
    return performance.now() - membership.confirmedAtMs <= this.#trustMs ? membership.term : undefined;
  }

  /** The ledger has gone back: no replica may use the term of before again, whichever root nodes report. */
  rolledBack(): void {
    this.#renew();
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
    this.#renew();
    if (this.#membership === undefined) return;
    for (const [id, end] of this.#ended) end.isRecorded ||= await this.#parts.registry.end(end.ledger, id);
    await this.#membership.check();
  }

  /** Begins a membership where ledger or generation are others than before. */
  #renew(): void {
    if (this.#membership?.isCurrent === true) return;
    const { term, ledger: before } = this.#membership ?? {};
    if (term !== undefined && before !== undefined) this.#left = { id: term.id, ledger: before };
    this.#membership = undefined;
    const [generation, ledger] = [this.#parts.generation(), this.#parts.ledger()];
    if (ledger === undefined) return;
    this.#fruitless = 0;
    this.#membership = new Membership({
      ...this.#parts,
      ledger,
      read: () => this.#read(ledger),
      isCurrent: () => generation === this.#parts.generation() && ledger === this.#parts.ledger(),
      patienceMs: this.#parts.patienceMs ?? usualPatienceMs,
    });
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
}

/** The end of a term. */
interface End {
  readonly ledger: string;
  /** Redis took it. */
  isRecorded: boolean;
}
