/**
 * Interleaves request bodies with other work. The event loop reads up to 2 MiB of each readable connection in a row, so
 * that many large bodies would delay every hit.
 */
import type { IncomingMessage } from 'node:http';

/** Bytes of all bodies per turn of the event loop: a few milliseconds of copying. */
const mostPerTurn = 2 * 1024 * 1024;

/** Bounds the bytes of bodies that one turn of the event loop reads. */
export class BodyPace {
  #left = mostPerTurn;
  #isTurnBegun = false;
  readonly #paused = new Set<IncomingMessage>();

  /** Counts `bytes` of a body; beyond the bound, pauses `request` until the next turn. */
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
