/** Bounds of single waits. */
import { setPatientTimeout } from '../ledger/patient-timeout.ts';
import { Stop, type StopSignal } from '../ledger/stop.ts';

/** A signal that follows `parent` and aborts by itself after `ms`. */
export class Bound {
  readonly #stop = new Stop();
  readonly #parent: StopSignal;
  readonly #timer: NodeJS.Timeout;
  readonly #follow = (): void => this.#stop.abort(this.#parent.reason);
  /** The time is up. */
  isOver = false;
  #isReleased = false;
  #isGivenUp = false;

  constructor(parent: StopSignal, ms: number) {
    this.#parent = parent;
    this.#timer = setPatientTimeout(() => this.#timeOut(ms), ms);
    if (parent.aborted) this.#follow();
    else parent.addEventListener('abort', this.#follow);
  }

  get signal(): StopSignal {
    return this.#stop;
  }

  /** Whether nobody wants what is waited for any more: it was given up, or whoever wanted it has gone. */
  get isAbandoned(): boolean {
    return this.#isGivenUp || this.#parent.aborted;
  }

  /** Ends the wait as one that nobody wants any more. */
  giveUp(reason: Error): void {
    this.#isGivenUp = true;
    this.#stop.abort(reason);
  }

  /** Stops the clock; the parent is still followed, so that a streamed body ends with its client. */
  release(): void {
    this.#isReleased = true;
    clearTimeout(this.#timer);
  }

  #timeOut(ms: number): void {
    if (this.#isReleased) return;
    this.isOver = true;
    this.#stop.abort(new Error(`no answer within ${Math.round(ms)} ms`));
  }

  /** Ends everything: a parent that outlives many requests must not gather their listeners. */
  end(): void {
    this.release();
    this.#parent.removeEventListener('abort', this.#follow);
  }
}
