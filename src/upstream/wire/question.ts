/** One request that a node is asked, and what is done with its answer: steered as undici's requests are. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';

type Handler = Dispatcher.DispatchHandler;

/** The connection that a question is asked on. */
export interface Line {
  pause(): void;
  resume(): void;
  /** Ends the connection, and with it the question. */
  drop(reason: Error): void;
}

export class Question implements Dispatcher.DispatchController {
  /** Of the request, with the empty line. */
  readonly text: string;
  readonly body: Buffer | undefined;
  /** The answer has no body. */
  readonly isHead: boolean;
  aborted = false;
  reason: Error | null = null;
  readonly #handler: Handler;
  #line: Line | undefined;
  /** Where it waits for a connection. */
  #queue: Set<Question> | undefined;
  #isPaused = false;
  /** It has been answered, has failed or was given up. */
  #isOver = false;

  constructor(text: string, body: Buffer | undefined, isHead: boolean, handler: Handler) {
    this.text = text;
    this.body = body;
    this.isHead = isHead;
    this.#handler = handler;
  }

  /** It waits for its turn, until it has a connection or is given up. */
  waitIn(queue: Set<Question>): void {
    queue.add(this);
    this.#queue = queue;
  }

  /** It has a connection, or will have another one if that is lost before it is sent. */
  leaveQueue(): void {
    this.#queue?.delete(this);
    this.#queue = undefined;
  }

  /** It is sent now. Returns whether it is still to be asked. */
  begin(line: Line): boolean {
    if (this.#isOver) return false;
    // Whoever gives up now has no connection yet that would be lost by it.
    this.#handler.onRequestStart?.(this, null);
    if (this.#isOver) return false;
    this.#line = line;
    return true;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  head(status: number, headers: IncomingHttpHeaders): void {
    this.#handler.onResponseStart?.(this, status, headers);
  }

  data(bytes: Buffer): void {
    this.#handler.onResponseData?.(this, bytes);
  }

  end(): void {
    this.#isOver = true;
    try {
      this.#handler.onResponseEnd?.(this, {});
    } catch (error) {
      // Whoever waits for it hears of it: nobody else is asked on the connection any more.
      this.#handler.onResponseError?.(this, error as Error);
    }
  }

  fail(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.leaveQueue();
    this.#handler.onResponseError?.(this, error);
  }

  /** Nobody wants the answer any more. Without effect once it has come to its end. */
  abort(reason: Error): void {
    if (this.#isOver) return;
    this.aborted = true;
    this.reason = reason;
    const line = this.#line;
    // Before anybody else is told that the connection is gone.
    this.fail(reason);
    line?.drop(reason);
  }

  get paused(): boolean {
    return this.#isPaused;
  }

  pause(): void {
    if (this.#isOver) return;
    this.#isPaused = true;
    this.#line?.pause();
  }

  resume(): void {
    if (this.#isOver) return;
    this.#isPaused = false;
    this.#line?.resume();
  }
}
