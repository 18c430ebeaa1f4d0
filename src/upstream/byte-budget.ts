/** A bound on the bytes of node answers that one process holds: while they are read, and while clients take them. */

/** An answer does not fit into the budget now. It reports nothing about the node that sent it. */
export class OverBudgetError extends Error {
  override readonly name = 'OverBudgetError';
}

/**
 * Bounds of answers to clients, in bytes. One answer may be as large as the largest transaction: 10 MB of changes, which
 * JSON makes several times as large (larger lists are streamed). All together may be four of these.
 */
export const answerBounds = { largest: 64 * 1024 * 1024, all: 256 * 1024 * 1024 };

/** The budget of one of `processes` that serve one port together; the largest answer fits into each. */
export function createAnswerBudget(processes = 1): ByteBudget {
  const { largest, all } = answerBounds;
  return new ByteBudget({ largest, all: Math.max(largest, Math.floor(all / processes)) });
}

/** Shorter answers are counted and never refused: the number of connections to nodes bounds them, in bytes. */
const shortBytes = 64 * 1024;

/** The bytes that one answer has taken of a budget. */
export interface Share {
  /** Bound of one answer, in bytes. */
  readonly largest: number;
  /** Takes so many bytes more. Throws `OverBudgetError` when they are not free. */
  take(bytes: number): void;
  /** Gives everything back; may be called more than once. */
  close(): void;
}

/** `onRevoked`: the answer is given up, so that an older one can be read to its end. */
interface OpenShare {
  held: number;
  isRevoked: boolean;
  readonly onRevoked: (reason: OverBudgetError) => void;
}

export class ByteBudget {
  readonly #largest: number;
  readonly #all: number;
  #left: number;
  /** The shares that may be revoked, in the order in which they grew long. */
  readonly #long = new Set<OpenShare>();
  /** Frees bytes when the budget is short of them, as far as it can. Default: frees nothing. */
  onShort: (bytes: number) => void = () => undefined;

  /** `largest`: bytes of one answer; `all`: bytes of all answers together. */
  constructor({ largest, all }: { readonly largest: number; readonly all: number }) {
    this.#largest = largest;
    this.#all = all;
    this.#left = all;
  }

  /** Bytes that are taken. */
  get held(): number {
    return this.#all - this.#left;
  }

  /** Bytes that are free; negative while short answers and `hold` have taken more. */
  get left(): number {
    return this.#left;
  }

  /**
   * An empty share for one answer that is being read. Where answers together grow beyond the budget, the older ones go on
   * and the younger ones are given up: `onRevoked` is called, and the share is closed.
   */
  open(onRevoked: (reason: OverBudgetError) => void): Share {
    const share: OpenShare = { held: 0, isRevoked: false, onRevoked };
    return {
      largest: this.#largest,
      take: (bytes) => this.#take(share, bytes),
      close: () => this.#close(share),
    };
  }

  /** Whether `bytes` are free, after `onShort` has freed what it can. */
  hasRoomFor(bytes: number): boolean {
    if (bytes > this.#left) this.onShort(bytes - this.#left);
    return bytes <= this.#left;
  }

  /** Counts bytes that are in memory already. Returns the function that gives them back, to be called once. */
  hold(bytes: number): () => void {
    this.#left -= bytes;
    return () => {
      this.#left += bytes;
    };
  }

  #take(share: OpenShare, bytes: number): void {
    const held = share.held + bytes;
    if (share.isRevoked) throw tooMany();
    if (held > this.#largest) throw new OverBudgetError(`the answer is larger than ${this.#largest} bytes`);
    if (held > shortBytes) {
      this.#long.add(share);
      if (!this.hasRoomFor(bytes)) this.#revokeYounger(share, bytes);
    }
    share.held = held;
    this.#left -= bytes;
  }

  #revokeYounger(share: OpenShare, bytes: number): void {
    for (const youngest of [...this.#long].reverse()) {
      if (bytes <= this.#left) return;
      if (youngest === share) break;
      youngest.isRevoked = true;
      this.#close(youngest);
      youngest.onRevoked(tooMany());
    }
    if (bytes > this.#left) throw tooMany();
  }

  #close(share: OpenShare): void {
    this.#long.delete(share);
    this.#left += share.held;
    share.held = 0;
  }
}

function tooMany(): OverBudgetError {
  return new OverBudgetError('too many bytes of answers are held at once');
}
