/**
 * The destination of log lines: standard error, without waiting for its reader. A full pipe would block a synchronous
 * write, and a write in Node's thread pool would keep the process from ending. So lines are buffered, written as the
 * stream accepts them, and dropped and counted above a bound.
 */
import type { Writable } from 'node:stream';

/** Most buffered characters: some thousand lines. */
const mostChars = 1024 * 1024;
/** After a loss, buffering resumes below this: a slightly slow reader causes one report. */
const resumeAt = mostChars / 2;
/** Pipes write this much atomically (POSIX: PIPE_BUF), so that lines of processes do not mix. */
const wholeChars = 4096;

/** The log buffer of a process and its stream. */
export class LogOutput {
  readonly #stream: Writable;
  /** Pieces of whole lines, oldest first. */
  #pieces: string[] = [];
  #chars = 0;
  #isWriting = false;
  #isBroken = false;
  #dropped = 0;
  /** Dropped since the last buffered line. */
  #lost = 0;
  #whenEmpty: (() => void) | undefined;
  /** Called when buffering resumes after `lost` dropped lines. */
  onResumed: (lost: number) => void = () => undefined;

  constructor(stream: Writable) {
    this.#stream = stream;
    // A closed pipe ends the log, not the gateway.
    stream.on('error', () => {
      this.#isBroken = true;
      this.#clear();
      this.#whenEmpty?.();
    });
  }

  get dropped(): number {
    return this.#dropped;
  }

  /** Buffers a line, its newline included, or drops it. */
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

  /** Resolves when the buffer is empty, or after `withinMs`. */
  async flush(withinMs: number): Promise<void> {
    if (!this.#isWriting) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#whenEmpty = resolve;
    const timer = setTimeout(resolve, withinMs);
    await promise;
    clearTimeout(timer);
  }

  /** Writes the buffer at once: for a process that exits. */
  end(): void {
    if (this.#pieces.length > 0) this.#stream.write(this.#pieces.join(''));
    this.#clear();
  }

  #clear(): void {
    this.#pieces = [];
    this.#chars = 0;
  }

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
