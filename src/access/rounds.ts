/** Reports at a time. */
const atOnce = 32;

/** Reports in the background, in rounds at an interval, one round at a time. */
export class Rounds<Item> {
  readonly #items: () => readonly Item[];
  readonly #report: (item: Item) => Promise<boolean>;
  readonly #timer: NodeJS.Timeout;
  #isPlanned = false;
  #running: Promise<boolean> | undefined;

  /** `items`: of a round. `report`: never rejects; false where it was not confirmed. */
  constructor(everyMs: number, items: () => readonly Item[], report: (item: Item) => Promise<boolean>) {
    this.#items = items;
    this.#report = report;
    this.#timer = setInterval(() => void this.run(), everyMs).unref();
  }

  /** Runs a round, or joins the one in flight; whether all of it was confirmed. */
  run(): Promise<boolean> {
    this.#running ??= this.#round().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Runs a round before the next reads from sockets. */
  plan(): void {
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    setImmediate(() => {
      this.#isPlanned = false;
      void this.run();
    });
  }

  /** Ends with a round for what came during one in flight. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.run();
    await this.run();
  }

  async #round(): Promise<boolean> {
    const items = this.#items();
    for (let first = 0; first < items.length; first += atOnce) {
      const reports = items.slice(first, first + atOnce).map((item) => this.#report(item));
      // The other side is away: the rest would fail, too.
      if ((await Promise.all(reports)).includes(false)) return false;
    }
    return true;
  }
}
