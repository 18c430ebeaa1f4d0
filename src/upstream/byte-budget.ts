/** A bound on the bytes of node answers in one process, while it reads them and while clients take them. */

/** An answer does not fit into the budget now. Its node is not at fault. */
export class OverBudgetError extends Error {
  override readonly name = 'OverBudgetError';
}

/** An answer is larger than any that is read whole. */
export class TooLargeError extends OverBudgetError {}

/**
 * The largest transaction has 10 MB of changes, several times as much in JSON; larger lists are streamed. All answers
 * together may be four times the largest.
 */
export const answerBounds = { largest: 64 * 1024 * 1024, all: 256 * 1024 * 1024 };

/** The budget of one of `processes` workers on one port; the largest answer fits into each. */
export function createAnswerBudget(processes = 1): ByteBudget {
  const { largest, all } = answerBounds;
  return new ByteBudget({ largest, all: Math.max(largest, Math.floor(all / processes)) });
}

/** Shorter answers, in bytes, are counted and never refused: the number of connections to nodes bounds them. */
const shortBytes = 64 * 1024;

/** The part of a budget that one answer holds. */
export class Share {
  readonly #budget: ByteBudget;
  /** Called when the budget has taken the share back, and closed it. */
  readonly onRevoked: (reason: OverBudgetError) => void;
  /** Bytes. */
  held = 0;
  isRevoked = false;

  constructor(budget: ByteBudget, onRevoked: (reason: OverBudgetError) => void) {
    this.#budget = budget;
    this.onRevoked = onRevoked;
  }

  /** Bound of one answer, in bytes. */
  get largest(): number {
    return this.#budget.largest;
  }

  /** Throws `OverBudgetError` when the bytes are not free. */
  take(bytes: number): void {
    this.#budget.grow(this, bytes);
  }

  /** May be called more than once. */
  close(): void {
    this.#budget.close(this);
  }
}

/** Counts bytes of answers against a bound. */
export class ByteBudget {
  /** Bound of one answer, in bytes. */
  readonly largest: number;
  readonly #all: number;
  #left: number;
  /** The shares that may be revoked, in the order in which they grew long. */
  readonly #long = new Set<Share>();
  /** Frees bytes when the budget is short of them, as far as it can. Default: frees nothing. */
  onShort: (bytes: number) => void = () => undefined;

  /** `largest`: bytes of one answer; `all`: bytes of all answers together. */
  constructor({ largest, all }: { readonly largest: number; readonly all: number }) {
    this.largest = largest;
    this.#all = all;
    this.#left = all;
  }

  get held(): number {
    return this.#all - this.#left;
  }

  /** Free bytes; negative while short answers and `hold` use more than there are. */
  get left(): number {
    return this.#left;
  }

  /**
   * An empty share for one answer that is being read. When answers together exceed the budget, the younger ones give way
   * to the older: `onRevoked` is called, and the share is closed.
   */
  open(onRevoked: (reason: OverBudgetError) => void): Share {
    return new Share(this, onRevoked);
  }

  /** Whether `bytes` are free, after `onShort` has freed what it can. */
  hasRoomFor(bytes: number): boolean {
    if (bytes > this.#left) this.onShort(bytes - this.#left);
    return bytes <= this.#left;
  }

  /** Counts bytes that are in memory already. Returns the function that frees them, to be called once. */
  hold(bytes: number): () => void {
    this.#left -= bytes;
    return () => {
      this.#left += bytes;
    };
  }

  /** See `Share.take`. */
  grow(share: Share, bytes: number): void {
    const held = share.held + bytes;
    if (share.isRevoked) throw tooMany();
    if (held > this.largest) throw new TooLargeError(`the answer is larger than ${this.largest} bytes`);
    if (held > shortBytes) {
      this.#long.add(share);
      if (!this.hasRoomFor(bytes)) this.#revokeYounger(share, bytes);
    }
    share.held = held;
    this.#left -= bytes;
  }

  #revokeYounger(share: Share, bytes: number): void {
    for (const youngest of [...this.#long].reverse()) {
      if (bytes <= this.#left) return;
      if (youngest === share) break;
      youngest.isRevoked = true;
      this.close(youngest);
      youngest.onRevoked(tooMany());
    }
    if (bytes > this.#left) throw tooMany();
  }

  /** See `Share.close`. */
  close(share: Share): void {
    this.#long.delete(share);
    this.#left += share.held;
    share.held = 0;
  }
}

function tooMany(): OverBudgetError {
  return new OverBudgetError('answers in memory exceed the byte budget');
}
