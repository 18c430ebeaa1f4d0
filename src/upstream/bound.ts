/** Bounds of single waits. */

/** An AbortSignal that follows `parent` and ends by itself after `ms`. */
export class Bound {
  readonly #controller = new AbortController();
  readonly #parent: AbortSignal;
  readonly #timer: NodeJS.Timeout;
  readonly #follow = (): void => this.#controller.abort(this.#parent.reason);
  isOver = false;

  constructor(parent: AbortSignal, ms: number) {
    this.#parent = parent;
    this.#timer = setTimeout(() => {
      this.isOver = true;
      this.#controller.abort(new Error(`no answer within ${Math.round(ms)} ms`));
    }, ms);
    if (parent.aborted) this.#follow();
    else parent.addEventListener('abort', this.#follow);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Stops the clock; the parent is still followed, so that a streamed body ends with its client. */
  release(): void {
    clearTimeout(this.#timer);
  }

  /** Ends everything: a parent that outlives many requests must not gather their listeners. */
  end(): void {
    this.release();
    this.#parent.removeEventListener('abort', this.#follow);
  }
}
