import { Membership, type HistoryParts } from './membership.ts';
import type { Term, Terms } from './terms.ts';

const usualTrustedMs = 10_000;
/** Pause in ms after the first check without a result; each further one adds as much. */
const retryMs = 1_100;
/** Terms at most in `#ended`. */
const mostEnded = 16;

/**
 * The ledger's history that this process is on, and the term whose name it may use in a tier that outlives it: Redis,
 * or the store. An accumulator root that nodes report again and again identifies the history (docs/redis.md has the
 * argument). It fails closed: without a recent confirmation by nodes the tier is not used, because a wrong name means a
 * wrong answer.
 */
export class History {
  readonly #parts: HistoryParts;
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void> | undefined;
  #isClosed = false;
  #membership: Membership | undefined;
  /** The last term of an earlier generation, and its ledger. */
  #left: { readonly id: string; readonly ledger: string } | undefined;
  /** Terms that this process ended, by name, also where Redis did not store the end, or lost it. */
  readonly #ended = new Map<string, End>();
  /** Consecutive checks without a result: they lengthen the pause, for nodes that report no root. */
  #fruitless = 0;

  constructor(parts: HistoryParts) {
    this.#parts = parts;
  }

  /** The term in use now; `undefined`: this process must not use the tier. */
  get term(): Term | undefined {
    const membership = this.#membership;
    if (membership?.term === undefined) return undefined;
    if (!membership.isCurrent) {
      this.#renew();
      void this.check();
      return undefined;
    }
    // In an outage no node replaces the history: the confirmation holds until one answers.
    const untilMs = this.#parts.outageFromMs() ?? performance.now();
    return untilMs - membership.confirmedAtMs <= this.#trustMs ? membership.term : undefined;
  }

  /** Ends the earlier term for every replica after a rollback, whichever root nodes report. */
  rolledBack(): void {
    this.#renew();
    if (this.#left !== undefined) this.#ended.set(this.#left.id, { ledger: this.#left.ledger, isRecorded: false });
    const [oldest] = this.#ended.keys();
    if (this.#ended.size > mostEnded && oldest !== undefined) this.#ended.delete(oldest);
    this.#left = undefined;
    void this.check();
  }

  /** Compares the history with nodes and other replicas now. Never rejects. */
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
    this.#timer = setTimeout(() => void this.check(), pauseMs).unref();
  }

  async #check(): Promise<void> {
    this.#renew();
    // Another membership, or none, may be the present one after the first wait: this one notices that itself.
    const membership = this.#membership;
    if (membership === undefined) return;
    for (const [id, end] of this.#ended) end.isRecorded ||= await this.#parts.registry.end(end.ledger, id);
    await membership.check();
  }

  /** Begins a membership when ledger or generation have changed. */
  #renew(): void {
    if (this.#membership?.isCurrent === true) return;
    const { term, ledger: before } = this.#membership ?? {};
    if (term !== undefined && before !== undefined) this.#left = { id: term.id, ledger: before };
    this.#membership = undefined;
    const ledger = this.#parts.ledger();
    if (ledger === undefined) return;
    this.#fruitless = 0;
    this.#membership = new Membership(this.#parts, ledger, () => this.#read(ledger));
  }

  /** The kept terms, without those that this process ended: a returning member may have published one again. */
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

interface End {
  readonly ledger: string;
  /** Redis stored it. */
  isRecorded: boolean;
}
