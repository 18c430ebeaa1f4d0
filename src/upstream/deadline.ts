/** The deadline of one wait. */
import { setPatientTimeout } from '../ledger/patient-timeout.ts';
import { CancelToken, type StopSignal } from '../ledger/stop.ts';

/** Aborts with `parent`, by itself after `ms`, or when it is given up. `end` must be called. */
export class Deadline extends CancelToken {
  readonly #parent: StopSignal;
  readonly #timer: NodeJS.Timeout;
  readonly #follow = (): void => this.abort(this.#parent.reason);
  /** The time is up. */
  isOver = false;
  #isReleased = false;
  #isGivenUp = false;

  constructor(parent: StopSignal, ms: number) {
    super();
    this.#parent = parent;
    this.#timer = setPatientTimeout(() => this.#timeOut(ms), ms);
    if (parent.aborted) this.#follow();
    else parent.addEventListener('abort', this.#follow);
  }

  /** Whether the wait was given up, or its parent aborted: the outcome is of no use any more. */
  get isAbandoned(): boolean {
    return this.#isGivenUp || this.#parent.aborted;
  }

  /** Ends a wait whose outcome is of no use any more. */
  giveUp(reason: Error): void {
    this.#isGivenUp = true;
    this.abort(reason);
  }

  /** Stops the clock; the parent is still followed, so that a streamed body ends with its client. */
  release(): void {
    this.#isReleased = true;
    clearTimeout(this.#timer);
  }

  /** Ends everything: a parent that outlives many requests must not gather their listeners. */
  end(): void {
    this.release();
    this.#parent.removeEventListener('abort', this.#follow);
  }

  #timeOut(ms: number): void {
    // Clearing the timer does not stop an action that is due (`setPatientTimeout`).
    if (this.#isReleased) return;
    this.isOver = true;
    this.abort(new Error(`no answer within ${Math.round(ms)} ms`));
  }
}
