/**
 * The destination of log lines: standard error, without waiting for its reader. A pipe that nobody empties would stop a
 * process that writes synchronously, and a write in Node's thread pool would keep it from ending. So lines are gathered
 * here, written as the stream takes them, and dropped and counted when there are too many.
 */
import type { Writable } from 'node:stream';

/** Most characters that are gathered: some thousand lines. */
const mostChars = 1024 * 1024;
/** After a loss lines are taken again once so much is free: a reader that is a little too slow is reported once. */
const resumeAt = mostChars / 2;
/** A pipe takes so much whole, so that lines of several processes are not mixed (POSIX: PIPE_BUF). */
const wholeChars = 4096;

/** One for a process and its stream. */
export class LogOutput {
  readonly #stream: Writable;
  /** Whole lines each, oldest first. */
  #pieces: string[] = [];
  #chars = 0;
  #isWriting = false;
  #isBroken = false;
  #dropped = 0;
  /** Dropped since lines were last taken. */
  #lost = 0;
  #whenEmpty: (() => void) | undefined;
  /** Lines are taken again after so many were dropped. */
  onResumed: (lost: number) => void = () => undefined;

  constructor(stream: Writable) {
    this.#stream = stream;
    // A reader that closes the pipe ends the log, and not the gateway.
    stream.on('error', () => {
      this.#isBroken = true;
      this.#clear();
      this.#whenEmpty?.();
    });
  }

  /** Lines that were dropped so far. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Takes a line, its end included. */
  write(line: string): void {
    const lost = this.#lost;
    if (this.#isBroken || this.#chars + line.length > (lost > 0 ? resumeAt : mostChars)) {
      this.#dropped += 1;
      this.#lost += 1;
      return;
    }
    this.#lost = 0;
    const last = this.#pieces.at(-1) ?? '';
    if (last === '' || last.length + line.length > wholeChars) this.#pieces.push(line);
    else this.#pieces[this.#pieces.length - 1] = last + line;
    this.#chars += line.length;
    if (!this.#isWriting) {
      this.#isWriting = true;
      setImmediate(this.#next);
    }
    if (lost > 0) this.onResumed(lost);
  }

  /** Resolves when everything is written, or after `withinMs`. */
  async flush(withinMs: number): Promise<void> {
    if (!this.#isWriting) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#whenEmpty = resolve;
    const timer = setTimeout(resolve, withinMs);
    await promise;
    clearTimeout(timer);
  }

  /** Hands over all that is left, at once: for a process that ends in the middle of something. */
  end(): void {
    if (this.#pieces.length > 0) this.#stream.write(this.#pieces.join(''));
    this.#clear();
  }

  #clear(): void {
    this.#pieces = [];
    this.#chars = 0;
  }

  /** One piece after the other. */
  readonly #next = (): void => {
    const piece = this.#pieces.shift();
    this.#isWriting = piece !== undefined;
    if (piece === undefined) {
      this.#whenEmpty?.();
      return;
    }
    this.#chars -= piece.length;
    this.#stream.write(piece, this.#next);
  };
}
