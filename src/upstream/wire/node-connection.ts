/** One connection to a node, which is asked one question after another on it. */
import { connect, type Socket } from 'node:net';
import type { AnswerHead, AnswerHeads } from './answer-head.ts';
import { AnswerReader, type AnswerSink } from './answer-reader.ts';
import { LostConnectionError } from './bad-answer.ts';
import type { Line, Question } from './question.ts';
import type { Sending, TurnEnd } from './turn-end.ts';

export interface ConnectionParts {
  readonly host: string;
  readonly port: number;
  readonly connectTimeoutMs: number;
  readonly heads: AnswerHeads;
  readonly turnEnd: TurnEnd;
  readonly onConnected: (connection: NodeConnection) => void;
  /** Its answer has come to its end, and it can be asked again. */
  readonly onFree: (connection: NodeConnection) => void;
  /** It is gone; `error`: why, where it never was connected. */
  readonly onGone: (connection: NodeConnection, error: Error | undefined) => void;
}

/** What all connections of the process read into, one after the other: what is kept of it is copied. */
const readInto = Buffer.allocUnsafeSlow(64 * 1024);

export class NodeConnection implements Line, AnswerSink, Sending {
  /** Since when nothing is asked on it, in ms of `performance.now()`. */
  idleSinceMs = 0;
  /** For how long the node keeps it while nothing is asked, where it says so. */
  keptMs: number | undefined;
  readonly #parts: ConnectionParts;
  readonly #reader: AnswerReader;
  readonly #socket: Socket;
  readonly #connecting: NodeJS.Timeout;
  #question: Question | undefined;
  /** To be sent at the end of the turn. */
  #text = '';
  #isConnected = false;
  #isGone = false;

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
    this.#reader = new AnswerReader(parts.heads, this);
    const { host, port, connectTimeoutMs } = parts;
    const onread = { buffer: readInto, callback: (count: number) => this.#read(count) };
    const socket = connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay, onread });
    this.#socket = socket;
    this.#connecting = setTimeout(() => this.drop(tooLong(connectTimeoutMs)), connectTimeoutMs);
    socket.once('connect', () => this.#connected());
    socket.on('end', () => this.#ended());
    socket.on('error', (error) => this.drop(error));
    socket.on('close', () => this.drop(new LostConnectionError('the node closed the connection')));
  }

  /** Asks; false where nobody wants the answer any more. To be called while it is free. */
  ask(question: Question): boolean {
    if (!question.begin(this)) return false;
    this.#question = question;
    this.#reader.begin(question.isHead);
    const { text, body } = question;
    if (body === undefined) {
      this.#text = text;
      this.#parts.turnEnd.add(this);
      return true;
    }
    this.#socket.cork();
    this.#socket.write(text, 'latin1');
    this.#socket.write(body);
    this.#socket.uncork();
    return true;
  }

  flush(): void {
    const text = this.#text;
    this.#text = '';
    // What was given up meanwhile is not sent.
    if (!this.#isGone && text !== '') this.#socket.write(text, 'latin1');
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  drop(reason: Error): void {
    if (this.#isGone) return;
    this.#isGone = true;
    clearTimeout(this.#connecting);
    this.#reader.stop();
    this.#socket.destroy();
    const question = this.#question;
    this.#question = undefined;
    question?.fail(reason);
    this.#parts.onGone(this, this.#isConnected ? undefined : reason);
  }

  onHead({ status, headers, keptMs }: AnswerHead): void {
    this.keptMs = keptMs;
    this.#question?.head(status, headers as Record<string, string | string[]>);
  }

  onData(bytes: Buffer): void {
    this.#question?.data(bytes);
  }

  onEnd(isKept: boolean): void {
    const question = this.#question;
    this.#question = undefined;
    question?.end();
    if (this.#isGone) return;
    // A request that the node answered without taking all of it leaves bytes on the way.
    if (!isKept || this.#socket.writableLength > 0) {
      this.drop(new LostConnectionError('the answer was the last'));
      return;
    }
    if (question?.paused === true) this.#socket.resume();
    this.#parts.onFree(this);
  }

  #connected(): void {
    clearTimeout(this.#connecting);
    this.#isConnected = true;
    this.#parts.onConnected(this);
  }

  #read(count: number): boolean {
    if (this.#text !== '') {
      // It is no answer to what was not sent yet: the node says farewell.
      this.drop(new LostConnectionError('the node spoke before it was asked'));
      return true;
    }
    try {
      this.#reader.take(readInto.subarray(0, count));
    } catch (error) {
      this.drop(error as Error);
    }
    return true;
  }

  #ended(): void {
    const isWhole = this.#reader.close();
    this.drop(new LostConnectionError(isWhole ? 'the node has closed it' : 'the node ended it within its answer'));
  }
}

/** Before a connection that nothing has come on is asked whether it still is one. */
const keepAliveInitialDelay = 60_000;

function tooLong(ms: number): Error {
  return Object.assign(new Error(`no connection within ${ms} ms`), { code: 'ETIMEDOUT' });
}
