/**
 * Bodies are read in turn with everything else. The event loop reads up to 2 MiB of each connection that has it before
 * it reads the next, so that a crowd of large bodies would hold up every hit beside them.
 */
import type { IncomingMessage } from 'node:http';

/** Of all bodies in one turn of the event loop: a few milliseconds of copying. */
const mostPerTurn = 2 * 1024 * 1024;

export class BodyPace {
  #left = mostPerTurn;
  #isTurnBegun = false;
  readonly #paused = new Set<IncomingMessage>();

  /** So much of a body was read in this turn: the rest of it may have to wait for the next. */
  note(request: IncomingMessage, bytes: number): void {
    this.#left -= bytes;
    if (!this.#isTurnBegun) {
      this.#isTurnBegun = true;
      setImmediate(() => this.#endTurn());
    }
    if (this.#left > 0) return;
    request.pause();
    this.#paused.add(request);
  }

  #endTurn(): void {
    this.#left = mostPerTurn;
    this.#isTurnBegun = false;
    const paused = [...this.#paused];
    this.#paused.clear();
    for (const request of paused) request.resume();
  }
}
