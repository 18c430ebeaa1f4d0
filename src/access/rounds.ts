/** Reports at a time. */
const atOnce = 32;

/** Calls `run` before the next reads from sockets, once however often the result is called until then. */
export function onceATurn(run: () => void): () => void {
  let isPlanned = false;
  return () => {
    if (isPlanned) return;
    isPlanned = true;
    setImmediate(() => {
      isPlanned = false;
      run();
    });
  };
}

/** The items in pieces of `size`. */
export function piecesOf<Item>(items: readonly Item[], size: number): readonly (readonly Item[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, at) => items.slice(at * size, (at + 1) * size));
}

/** Reports in the background, in rounds at an interval, one round at a time. */
export class Rounds<Item> {
  readonly #items: () => readonly Item[];
  readonly #report: (item: Item) => Promise<boolean>;
  readonly #timer: NodeJS.Timeout;
  /** Runs a round before the next reads from sockets. */
  readonly plan = onceATurn(() => void this.run());
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

  /** Ends with a round for what came during one in flight. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.run();
    await this.run();
  }

  async #round(): Promise<boolean> {
    for (const items of piecesOf(this.#items(), atOnce)) {
      const reports = items.map((item) => this.#report(item));
      // The other side is away: the rest would fail, too.
      if ((await Promise.all(reports)).includes(false)) return false;
    }
    return true;
  }
}
