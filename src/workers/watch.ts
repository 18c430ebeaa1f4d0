/**
 * Finds workers that hang: a process that lives and does nothing any more (it is stopped, or in a loop without an end)
 * keeps its connections, and the clients behind them, until it is ended.
 */
import type { Member } from './forked.ts';

export interface WatchParts {
  /** Those that are to give signs of life. */
  readonly members: () => readonly Member[];
  /** Called once for a worker that has given none for `silentMs`. */
  readonly onHung: (member: Member, silentMs: number) => void;
  /** Default 10,000: more than any garbage collection or list of a large memory takes. */
  readonly silentMs?: number;
  /** Default 1,000. */
  readonly everyMs?: number;
}

interface Signs {
  /** A question is out: the next waits for its answer, so that nothing piles up before a worker that is stuck. */
  isAsked: boolean;
  silentMs: number;
}

export class Watch {
  readonly #parts: WatchParts;
  readonly #silentMs: number;
  readonly #everyMs: number;
  readonly #signs = new WeakMap<Member, Signs>();
  readonly #timer: NodeJS.Timeout;
  #lastMs = performance.now();

  constructor(parts: WatchParts) {
    this.#parts = parts;
    const { silentMs = 10_000, everyMs = 1_000 } = parts;
    this.#silentMs = silentMs;
    this.#everyMs = everyMs;
    this.#timer = setInterval(() => this.#look(), everyMs);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const nowMs = performance.now();
    const passedMs = nowMs - this.#lastMs;
    this.#lastMs = nowMs;
    // Who is late himself, because the whole machine stood still or is overloaded, can blame nobody for this time, and
    // has not read yet what the workers said.
    const countedMs = passedMs > 2 * this.#everyMs ? 0 : passedMs;
    for (const member of this.#parts.members()) this.#lookAt(member, countedMs);
  }

  #lookAt(member: Member, countedMs: number): void {
    const signs = this.#signsOf(member);
    if (!signs.isAsked) return this.#ask(member, signs);
    signs.silentMs += countedMs;
    if (signs.silentMs < this.#silentMs) return;
    // Its end is told by the process; until then there is nothing more to be done.
    signs.silentMs = -Infinity;
    this.#parts.onHung(member, this.#silentMs);
  }

  #ask({ channel }: Member, signs: Signs): void {
    signs.isAsked = true;
    signs.silentMs = 0;
    const onEnd = (): void => {
      signs.isAsked = false;
    };
    channel.call('alive', undefined, this.#silentMs * 10).then(onEnd, onEnd);
  }

  #signsOf(member: Member): Signs {
    const known = this.#signs.get(member);
    if (known !== undefined) return known;
    const signs = { isAsked: false, silentMs: 0 };
    this.#signs.set(member, signs);
    return signs;
  }
}
