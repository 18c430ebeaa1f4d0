/**
 * Where log lines go: standard error, without ever waiting for whoever reads it. A pipe that nobody empties would stop a
 * process that writes synchronously; a write in Node's thread pool would keep it from ending. So lines are gathered
 * here, given to the stream as it takes them, and lost when there are too many.
 */
import type { Writable } from 'node:stream';

/** What is gathered, in characters: some thousand lines. */
const mostChars = 1024 * 1024;
/** Of what is lost nothing more is lost once so much is free: a reader that is a little too slow is told of once. */
const resumeAt = mostChars / 2;
/** A pipe takes so much whole, so that lines of several processes are not mixed (POSIX: PIPE_BUF). */
const wholeChars = 4096;

export class LogOutput {
  readonly #stream: Writable;
  #lines: string[] = [];
  #chars = 0;
  #isScheduled = false;
  #isWriting = false;
  #isBroken = false;
  #dropped = 0;
  /** Lost since lines were last taken. */
  #lost = 0;
  #whenEmpty: (() => void) | undefined;
  /** Lines are taken again after so many were lost. */
  onResumed: (lost: number) => void = () => undefined;

  constructor(stream: Writable) {
    this.#stream = stream;
    // Somebody who closes the pipe has read enough; a gateway goes on serving all the same.
    stream.on('error', () => {
      this.#isBroken = true;
      this.#lines = [];
      this.#chars = 0;
      this.#tellEmpty();
    });
  }

  /** Lines that were lost so far. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Takes a line, its end included. */
  write(line: string): void {
    if (this.#isBroken || !this.#hasRoom(line.length)) {
      this.#dropped += 1;
      this.#lost += 1;
      return;
    }
    const lost = this.#lost;
    this.#lost = 0;
    this.#lines.push(line);
    this.#chars += line.length;
    if (!this.#isScheduled && !this.#isWriting) {
      this.#isScheduled = true;
      setImmediate(this.#next);
    }
    if (lost > 0) this.onResumed(lost);
  }

  /** Resolves when everything is written, or after `withinMs`. */
  async flush(withinMs: number): Promise<void> {
    if (this.#isEmpty) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#whenEmpty = resolve;
    const timer = setTimeout(resolve, withinMs);
    await promise;
    clearTimeout(timer);
  }

  /** Hands over what is left, at once: for a process that ends in the middle of something. */
  end(): void {
    if (this.#lines.length > 0) this.#stream.write(this.#lines.join(''));
    this.#lines = [];
    this.#chars = 0;
  }

  #hasRoom(chars: number): boolean {
    return this.#chars + chars <= (this.#lost > 0 ? resumeAt : mostChars);
  }

  get #isEmpty(): boolean {
    return this.#lines.length === 0 && !this.#isWriting;
  }

  /** One piece after the other. */
  readonly #next = (): void => {
    this.#isScheduled = false;
    this.#isWriting = false;
    const piece = this.#takePiece();
    if (piece === '') return this.#tellEmpty();
    this.#isWriting = true;
    this.#stream.write(piece, this.#next);
  };

  #takePiece(): string {
    let count = 0;
    let chars = 0;
    for (const line of this.#lines) {
      if (count > 0 && chars + line.length > wholeChars) break;
      chars += line.length;
      count += 1;
    }
    this.#chars -= chars;
    return this.#lines.splice(0, count).join('');
  }

  #tellEmpty(): void {
    this.#whenEmpty?.();
    this.#whenEmpty = undefined;
  }
}
