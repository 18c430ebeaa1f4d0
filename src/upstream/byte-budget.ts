/** How much of answers may be gathered in memory at once, by all who share the budget. */

/** An answer is larger than can be gathered now: that says nothing of the node that gives it. */
export class OverBudgetError extends Error {
  override readonly name = 'OverBudgetError';
}

export class ByteBudget {
  readonly #largest: number;
  #left: number;

  /** `largest`: bytes of one answer; `all`: bytes of all that are being gathered. */
  constructor({ largest, all }: { readonly largest: number; readonly all: number }) {
    this.#largest = largest;
    this.#left = all;
  }

  get left(): number {
    return this.#left;
  }

  /** A share for one answer, empty. */
  open(): Share {
    let held = 0;
    return {
      take: (bytes) => {
        if (held + bytes > this.#largest) throw new OverBudgetError(`the answer is larger than ${this.#largest} bytes`);
        if (bytes > this.#left) throw new OverBudgetError('too much is being read from nodes at once');
        held += bytes;
        this.#left -= bytes;
      },
      close: () => {
        this.#left += held;
        held = 0;
      },
    };
  }
}

/** What one answer has taken of a budget. */
export interface Share {
  /** Takes so many bytes more. Throws `OverBudgetError` when they are not there. */
  take(bytes: number): void;
  /** Gives everything back; may be called more than once. */
  close(): void;
}
