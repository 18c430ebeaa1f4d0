/**
 * Requests over a limit that wait for their turn: a line per tenant, first come first served, bounded in length and in
 * time. A wait that cannot end well is not begun: who learns at once that it is refused can do something about it.
 */
import type { Taken } from './counter.ts';

export interface TurnsOptions {
  /** Longest line of one tenant. Default 256. */
  readonly maxInLine?: number;
  /** In all lines together. Default 4,096. */
  readonly maxWaiting?: number;
}

export interface Request {
  readonly waitMs: number;
  /** Leaves the line. */
  readonly signal: AbortSignal;
  /** Asks whether there is room now. */
  readonly attempt: () => Taken | Promise<Taken>;
}

interface Waiter extends Request {
  readonly untilMs: number;
  readonly end: (taken: Taken) => void;
  hasLeft: boolean;
}

interface Line {
  readonly waiters: Waiter[];
  /** Why the first one waits. */
  last: Taken;
  /** When there may be room. */
  tryAtMs: number;
  wake: () => void;
}

/** Where nobody knows when there is room: requests under way may end at another replica. */
const pollMs = 25;

export class Turns {
  readonly #maxInLine: number;
  readonly #maxWaiting: number;
  readonly #lines = new Map<string, Line>();
  #waiting = 0;

  constructor({ maxInLine = 256, maxWaiting = 4_096 }: TurnsOptions = {}) {
    this.#maxInLine = maxInLine;
    this.#maxWaiting = maxWaiting;
  }

  /** Requests that wait now. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Whether somebody waits: nobody overtakes. */
  hasLine(subject: string): boolean {
    return this.#lines.has(subject);
  }

  /** Waits behind those who wait already; to be used only where there are any. */
  join(subject: string, request: Request): Taken | Promise<Taken> {
    const line = this.#lines.get(subject);
    return line === undefined ? request.attempt() : this.#wait(line, request);
  }

  /** Begins a line with a request that was refused with `last`, if that is worth it. */
  begin(subject: string, last: Taken, request: Request): Taken | Promise<Taken> {
    const known = this.#lines.get(subject);
    if (known !== undefined) return this.#wait(known, request);
    if (isHopeless(last, request.waitMs)) return last;
    const line: Line = { waiters: [], last, tryAtMs: tryAtMsOf(last), wake: () => undefined };
    const turn = this.#wait(line, request);
    if (line.waiters.length > 0) {
      this.#lines.set(subject, line);
      void this.#serve(subject, line);
    }
    return turn;
  }

  /** A request of this tenant has ended: there may be room. */
  wake(subject: string): void {
    const line = this.#lines.get(subject);
    if (line === undefined || freeInMsOf(line.last) > 0) return;
    // After the end is on its way to those who count.
    setImmediate(() => line.wake());
  }

  /** Ends all waits. */
  close(): void {
    for (const line of this.#lines.values()) {
      this.#refuse(line, line.waiters);
      line.wake();
    }
  }

  #wait(line: Line, request: Request): Taken | Promise<Taken> {
    const isFull = line.waiters.length >= this.#maxInLine || this.#waiting >= this.#maxWaiting;
    if (isFull || request.signal.aborted) return line.last;
    return new Promise<Taken>((resolve) => {
      const onAbort = (): void => this.#leave(line, waiter, line.last);
      const waiter: Waiter = {
        ...request,
        untilMs: performance.now() + request.waitMs,
        hasLeft: false,
        end: (taken) => {
          request.signal.removeEventListener('abort', onAbort);
          resolve(taken);
        },
      };
      request.signal.addEventListener('abort', onAbort, { once: true });
      line.waiters.push(waiter);
      this.#waiting += 1;
    });
  }

  #leave(line: Line, waiter: Waiter, taken: Taken): void {
    if (waiter.hasLeft) return;
    waiter.hasLeft = true;
    line.waiters.splice(line.waiters.indexOf(waiter), 1);
    this.#waiting -= 1;
    waiter.end(taken);
  }

  #refuse(line: Line, waiters: readonly Waiter[]): void {
    for (const waiter of waiters.slice()) this.#leave(line, waiter, line.last);
  }

  /** Until nobody is in the line any more. It is gone in the same step: who joined it a moment later would wait for ever. */
  async #serve(subject: string, line: Line): Promise<void> {
    for (let first = line.waiters[0]; first !== undefined; first = line.waiters[0]) {
      await this.#pause(line, first);
      if (!first.hasLeft) await this.#try(line, first);
    }
    this.#lines.delete(subject);
  }

  async #try(line: Line, first: Waiter): Promise<void> {
    const taken = await first.attempt();
    const isAdmitted = taken.kind === 'counted' && taken.count.isAdmitted;
    // Who hung up meanwhile has no use for its place.
    if (first.hasLeft && isAdmitted) taken.settle(0);
    if (isAdmitted || taken.kind === 'unavailable') {
      this.#leave(line, first, taken);
      // There may be room for more than one.
      line.tryAtMs = 0;
      return;
    }
    line.last = taken;
    line.tryAtMs = tryAtMsOf(taken);
    const nowMs = performance.now();
    this.#refuse(
      line,
      line.waiters.filter(({ untilMs }) => isHopeless(taken, untilMs - nowMs)),
    );
  }

  /** Until there may be room, or the first in the line has waited long enough. */
  #pause(line: Line, { untilMs, signal }: Waiter): Promise<void> {
    const pauseMs = Math.ceil(Math.min(line.tryAtMs, untilMs) - performance.now());
    if (pauseMs <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', end);
        line.wake = () => undefined;
        resolve();
      };
      const timer = setTimeout(end, pauseMs);
      signal.addEventListener('abort', end, { once: true });
      line.wake = end;
    });
  }
}

/** 0 where it is not known. */
function freeInMsOf(taken: Taken): number {
  return taken.kind === 'counted' && !taken.count.isAdmitted ? taken.count.freeInMs : 0;
}

function tryAtMsOf(taken: Taken): number {
  const freeInMs = freeInMsOf(taken);
  return performance.now() + (freeInMs === 0 ? pollMs : freeInMs);
}

/** Room is known not to come before `leftMs` have passed. */
function isHopeless(taken: Taken, leftMs: number): boolean {
  return leftMs <= 0 || freeInMsOf(taken) > leftMs;
}
