/** One connection to a node, which is asked one question after another on it. */
import { connect, type Socket } from 'node:net';
import { setPatientTimeout } from '../../ledger/patient-timeout.ts';
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
  /** It was gone before the question was sent, which another connection may be asked. */
  readonly onUnsent: (question: Question) => void;
}

/** What all connections of the process read into, one after the other: what is kept of it is copied. */
const readInto = Buffer.allocUnsafeSlow(64 * 1024);

export class NodeConnection implements Line, AnswerSink, Sending {
  /** Since when nothing has been sent or heard on it, in ms of `performance.now()`. */
  idleSinceMs = 0;
  /** For how long the node keeps it while nothing is asked, where it says so. */
  keptMs: number | undefined;
  readonly #parts: ConnectionParts;
  readonly #reader: AnswerReader;
  readonly #socket: Socket;
  readonly #connecting: NodeJS.Timeout;
  #question: Question | undefined;
  /** The question is to be sent at the end of the turn; until then, whatever is heard is no answer to it. */
  #isUnsent = false;
  /** Before that it is listened for news of the node, once more. */
  #isDoubtful = false;
  #isConnected = false;
  /** It has given an answer before. */
  #isUsed = false;
  #isGone = false;

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
    this.#reader = new AnswerReader(parts.heads, this);
    const { host, port, connectTimeoutMs } = parts;
    const onread = { buffer: readInto, callback: (count: number) => this.#read(count) };
    const socket = connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay, onread });
    this.#socket = socket;
    const onTime = (): void => {
      if (!this.#isConnected) this.drop(tooLong(connectTimeoutMs));
    };
    this.#connecting = setPatientTimeout(onTime, connectTimeoutMs);
    socket.once('connect', () => this.#connected());
    socket.on('end', () => this.#ended());
    socket.on('error', (error) => this.drop(error));
    socket.on('close', () => this.drop(new LostConnectionError('the node closed the connection')));
  }

  /** Asks at the end of the turn. To be called while it is free. */
  ask(question: Question): void {
    this.#question = question;
    this.#isUnsent = true;
    this.#isDoubtful = this.#isUsed && performance.now() - this.idleSinceMs > quietMs;
    this.#parts.turnEnd.add(this);
  }

  flush(): void {
    const question = this.#question;
    if (this.#isGone || question === undefined || !this.#isUnsent) return;
    if (this.#isDoubtful) {
      // What has come since the turn began is read before the end of the next one.
      this.#isDoubtful = false;
      this.#parts.turnEnd.add(this);
      return;
    }
    this.#isUnsent = false;
    if (question.begin(this)) this.#send(question);
    else {
      this.#question = undefined;
      this.#parts.onFree(this);
    }
  }

  #send({ text, body, isHead }: Question): void {
    this.#reader.begin(isHead);
    if (body === undefined) {
      this.#socket.write(text, 'latin1');
      return;
    }
    this.#socket.cork();
    this.#socket.write(text, 'latin1');
    this.#socket.write(body);
    this.#socket.uncork();
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
    // Of a node that ends new connections as well the next one would say nothing else.
    const isForAnother = this.#isUnsent && this.#isUsed;
    if (!isForAnother) question?.fail(reason);
    this.#parts.onGone(this, this.#isConnected ? undefined : reason);
    if (isForAnother && question !== undefined) this.#parts.onUnsent(question);
  }

  onHead({ status, headers, isKept, keptMs }: AnswerHead): void {
    // To no question: the node was tired of waiting for one, and said so while it was on its way (RFC 9110 15.5.9).
    if (status === 408 && !isKept && this.#isUsed) throw new LostConnectionError('the node waited for too long');
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
    this.#isUsed = true;
    this.idleSinceMs = performance.now();
    this.#parts.onFree(this);
  }

  #connected(): void {
    clearTimeout(this.#connecting);
    this.#isConnected = true;
    this.idleSinceMs = performance.now();
    this.#parts.onConnected(this);
  }

  #read(count: number): boolean {
    if (this.#isUnsent) {
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

/** Nodes close connections that nothing comes on for some time; hardly one does so earlier. */
const quietMs = 250;
/** Before a connection that nothing has come on is asked whether it still is one. */
const keepAliveInitialDelay = 60_000;

function tooLong(ms: number): Error {
  return Object.assign(new Error(`no connection within ${ms} ms`), { code: 'ETIMEDOUT' });
}
