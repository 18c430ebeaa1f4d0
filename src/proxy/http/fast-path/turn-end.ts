/**
 * Puts sends off until all that has come in this turn of the event loop is dealt with. One send after another finds the
 * kernel's code and data at hand, and whoever is woken by the first is awake for the others; what goes to one socket
 * goes in one piece. Nothing waits longer than the turn takes.
 */
export interface Flushable {
  /** Sends what was gathered, if anything is. */
  flush(): void;
}

export class TurnEnd {
  #sending: Flushable[] = [];
  readonly #flush = (): void => {
    const sending = this.#sending;
    this.#sending = [];
    for (const one of sending) one.flush();
  };

  /** Has it flushed at the end of this turn. To be called once for all that it gathers. */
  add(one: Flushable): void {
    if (this.#sending.length === 0) setImmediate(this.#flush);
    this.#sending.push(one);
  }
}
