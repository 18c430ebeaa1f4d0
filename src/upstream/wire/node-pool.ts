/** The connections to one node that speaks plain HTTP: as many as are needed at once, never more than it may have. */
import { performance } from 'node:perf_hooks';
import type { Dispatcher } from 'undici';
import type { WireRequest } from '../exchange.ts';
import { AnswerHeads } from './answer-head.ts';
import { NodeConnection, type ConnectionParts } from './node-connection.ts';
import { Question } from './question.ts';
import { RequestTexts } from './request-text.ts';
import { TurnEnd } from './turn-end.ts';

export interface NodePoolOptions {
  readonly connections: number;
  readonly connectTimeoutMs: number;
  /** For how long an idle connection is kept, where the node does not say for how long it does. */
  readonly keepAliveMs: number;
  /** Taken off what the node says. */
  readonly keepAliveMarginMs: number;
}

/** How often it is looked for connections that have been idle for too long. */
const sweepMs = 1_000;

export class NodePool {
  readonly #options: NodePoolOptions;
  readonly #parts: ConnectionParts;
  readonly #texts: RequestTexts;
  readonly #open = new Set<NodeConnection>();
  /** Those that nothing is asked on, the one used last at the end. */
  #idle: NodeConnection[] = [];
  /** Questions without a connection, in their order. Whoever asks has bounds on how many that can be. */
  readonly #waiting = new Set<Question>();
  #connecting = 0;
  readonly #sweeper: NodeJS.Timeout;
  #isClosed = false;

  constructor(url: URL, options: NodePoolOptions) {
    this.#options = options;
    this.#texts = new RequestTexts(url.host);
    this.#parts = {
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: Number(url.port || 80),
      connectTimeoutMs: options.connectTimeoutMs,
      heads: new AnswerHeads(),
      turnEnd: new TurnEnd(),
      onConnected: (connection) => {
        this.#connecting -= 1;
        this.#free(connection);
      },
      onFree: (connection) => this.#free(connection),
      onGone: (connection, error) => this.#gone(connection, error),
      onUnsent: (question) => {
        if (!question.isOver) this.#place(question);
      },
    };
    this.#sweeper = setInterval(() => this.#sweep(), sweepMs).unref();
  }

  /**
   * `path`: from the root of the node. Throws `TypeError` for a request that cannot be sent. By what it returns the
   * question can be given up while it waits for a connection, too.
   */
  dispatch(request: WireRequest, handler: Dispatcher.DispatchHandler): Dispatcher.DispatchController {
    const { method, body } = request;
    const text = this.#texts.of({ ...request, bytes: body?.length });
    const question = new Question(text, body, method === 'HEAD', handler);
    this.#place(question);
    return question;
  }

  /** Ends what it is asked at once. */
  destroy(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#sweeper);
    for (const question of this.#waiting) question.fail(closed());
    for (const connection of this.#open) connection.drop(closed());
    return Promise.resolve();
  }

  #place(question: Question): void {
    if (this.#isClosed) {
      question.fail(closed());
      return;
    }
    const connection = this.#takeIdle();
    if (connection !== undefined) {
      connection.ask(question);
      return;
    }
    question.waitIn(this.#waiting);
    this.#grow();
  }

  #takeIdle(): NodeConnection | undefined {
    const nowMs = performance.now();
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined || !this.#isOld(connection, nowMs)) return connection;
      connection.drop(unused());
    }
  }

  /** As many connections as questions wait, within the bound. */
  #grow(): void {
    const { connections } = this.#options;
    while (!this.#isClosed && this.#connecting < this.#waiting.size && this.#open.size < connections) {
      this.#connecting += 1;
      this.#open.add(new NodeConnection(this.#parts));
    }
  }

  #free(connection: NodeConnection): void {
    const [question] = this.#waiting;
    if (question === undefined) {
      this.#idle.push(connection);
      return;
    }
    question.leaveQueue();
    connection.ask(question);
  }

  #gone(connection: NodeConnection, error: Error | undefined): void {
    this.#open.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at !== -1) this.#idle.splice(at, 1);
    if (error !== undefined) {
      this.#connecting -= 1;
      // It was made for one that waits, which is told why it was not to be had.
      const [question] = this.#waiting;
      question?.fail(error);
    }
    this.#grow();
  }

  #sweep(): void {
    const nowMs = performance.now();
    for (const connection of this.#idle.filter((one) => this.#isOld(one, nowMs))) connection.drop(unused());
  }

  #isOld({ keptMs, idleSinceMs }: NodeConnection, nowMs: number): boolean {
    const { keepAliveMs, keepAliveMarginMs } = this.#options;
    return nowMs - idleSinceMs >= (keptMs === undefined ? keepAliveMs : keptMs - keepAliveMarginMs);
  }
}

function closed(): Error {
  return new Error('the connections to the node are closed');
}

function unused(): Error {
  return new Error('the connection was not used for long');
}
