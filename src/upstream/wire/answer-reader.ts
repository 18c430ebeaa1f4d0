/** Reads one answer after another from the bytes of a connection, however they are cut (RFC 9112 6 and 7). */
import { isField, type AnswerHead, type AnswerHeads } from './answer-head.ts';
import { BadAnswerError } from './bad-answer.ts';

/** What is read. Each may stop the reader. */
export interface AnswerSink {
  onHead(head: AnswerHead): void;
  /** A part of the body. The bytes are only good until it returns. */
  onData(bytes: Buffer): void;
  /** The answer has come to its end. `isKept`: the connection can be used again, and nothing is left on it. */
  onEnd(isKept: boolean): void;
}

type State =
  'stopped' | 'idle' | 'head' | 'counted' | 'chunk size' | 'chunk' | 'chunk end' | 'trailer' | 'to the close';

/** As much as Node's own parser takes of a head; and of the line that begins a chunk, or of all trailers. */
const longestHead = 16 * 1024;
const longestLine = 1024;
const mostInterim = 16;
const endOfHead = '\r\n\r\n';
const endOfLine = '\r\n';
/** A length of eight hexadecimal digits is 4 GB, which no chunk has. Extensions in their plainest form: none are known. */
const chunkLine = /^([\da-f]{1,8})(?:;[\w-]+(?:=(?:[\w-]+|"[\w -]*"))?)*$/i;

export class AnswerReader {
  readonly #heads: AnswerHeads;
  readonly #sink: AnswerSink;
  #state: State = 'idle';
  #isHeadAlone = false;
  #isKept = false;
  #interim = 0;
  /** Bytes of the body, or of the chunk, that are still to come. */
  #left = 0;
  #trailerBytes = 0;
  /** What came of a head or a line that is not there to its end. */
  #rest: Buffer | undefined;

  /** `heads`: what the connections of a node share. */
  constructor(heads: AnswerHeads, sink: AnswerSink) {
    this.#heads = heads;
    this.#sink = sink;
  }

  /** A request is sent. `isHeadAlone`: its answer has no body, whatever it says. */
  begin(isHeadAlone: boolean): void {
    this.#state = 'head';
    this.#isHeadAlone = isHeadAlone;
    this.#interim = 0;
  }

  /** Nothing that comes is read any more. */
  stop(): void {
    this.#state = 'stopped';
  }

  /** Takes what has come. Throws `BadAnswerError`; then the connection is of no use any more. */
  take(chunk: Buffer): void {
    const rest = this.#rest;
    const bytes = rest === undefined ? chunk : Buffer.concat([rest, chunk]);
    this.#rest = undefined;
    for (let at = 0; at < bytes.length;) {
      const next = this.#step(bytes, at);
      if (next === undefined) {
        // The chunk is the connection's, which reads the next into the same place.
        this.#rest = Buffer.from(bytes.subarray(at));
        return;
      }
      at = next;
    }
  }

  /** The connection has ended. Returns false where that is not the end of an answer. */
  close(): boolean {
    if (this.#state !== 'to the close') return this.#state === 'idle' || this.#state === 'stopped';
    this.#state = 'stopped';
    this.#sink.onEnd(false);
    return true;
  }

  /** Reads what begins at `at`; returns where it went on to, `undefined` where more is needed. */
  #step(bytes: Buffer, at: number): number | undefined {
    switch (this.#state) {
      case 'head':
        return this.#head(bytes, at);
      case 'counted':
        return this.#body(bytes, at, 'idle');
      case 'chunk':
        return this.#body(bytes, at, 'chunk end');
      case 'to the close':
        this.#sink.onData(at === 0 ? bytes : bytes.subarray(at));
        return bytes.length;
      case 'chunk size':
        return this.#chunkSize(bytes, at);
      case 'chunk end':
        return this.#chunkEnd(bytes, at);
      case 'trailer':
        return this.#trailer(bytes, at);
      case 'stopped':
        return bytes.length;
      case 'idle':
        throw new BadAnswerError('bytes that nobody asked for');
    }
  }

  #head(bytes: Buffer, at: number): number | undefined {
    const end = bytes.indexOf(endOfHead, at, 'latin1');
    if ((end === -1 ? bytes.length : end) - at > longestHead) throw new BadAnswerError('its head is too long');
    if (end === -1) return undefined;
    const head = this.#heads.read(bytes.toString('latin1', at, end));
    const next = end + endOfHead.length;
    if (head.status < 200) {
      this.#interim += 1;
      if (head.status === 101 || this.#interim > mostInterim) throw new BadAnswerError('an interim answer too many');
      return next;
    }
    this.#isKept = head.isKept;
    const hasNone = this.#isHeadAlone || head.status === 204 || head.status === 304;
    const { framing } = head;
    this.#left = framing.kind === 'counted' ? framing.bytes : 0;
    this.#state = hasNone ? 'idle' : stateOf[framing.kind];
    this.#sink.onHead(head);
    if (this.#state === 'idle' || (this.#state === 'counted' && this.#left === 0)) this.#end(bytes, next);
    return next;
  }

  #body(bytes: Buffer, at: number, after: 'idle' | 'chunk end'): number {
    const end = Math.min(bytes.length, at + this.#left);
    this.#left -= end - at;
    this.#sink.onData(at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end));
    if (this.#left > 0 || this.#state === 'stopped') return end;
    if (after === 'idle') this.#end(bytes, end);
    else this.#state = after;
    return end;
  }

  #chunkSize(bytes: Buffer, at: number): number | undefined {
    const end = lineEnd(bytes, at);
    if (end === undefined) return undefined;
    const [, digits] = chunkLine.exec(bytes.toString('latin1', at, end)) ?? [];
    if (digits === undefined) throw new BadAnswerError('a chunk without a length');
    this.#left = Number.parseInt(digits, 16);
    this.#state = this.#left === 0 ? 'trailer' : 'chunk';
    this.#trailerBytes = 0;
    return end + endOfLine.length;
  }

  #chunkEnd(bytes: Buffer, at: number): number | undefined {
    if (bytes.length - at < endOfLine.length) {
      if (bytes[at] !== 13) throw new BadAnswerError('a chunk that is longer than it says');
      return undefined;
    }
    if (bytes[at] !== 13 || bytes[at + 1] !== 10) throw new BadAnswerError('a chunk that is longer than it says');
    this.#state = 'chunk size';
    return at + endOfLine.length;
  }

  /** What comes behind the last chunk is given to nobody. */
  #trailer(bytes: Buffer, at: number): number | undefined {
    const end = lineEnd(bytes, at);
    if (end === undefined) return undefined;
    const next = end + endOfLine.length;
    this.#trailerBytes += next - at;
    if (this.#trailerBytes > longestHead) throw new BadAnswerError('its trailers are too long');
    if (end === at) this.#end(bytes, next);
    else if (!isField(bytes.toString('latin1', at, end))) throw new BadAnswerError('a line behind it is no trailer');
    return next;
  }

  /** `next`: where the answer ended. */
  #end(bytes: Buffer, next: number): void {
    this.#state = 'idle';
    // What is left would be taken for the answer to the next request.
    this.#sink.onEnd(this.#isKept && next === bytes.length);
  }
}

const stateOf = { chunked: 'chunk size', counted: 'counted', close: 'to the close' } as const;

function lineEnd(bytes: Buffer, at: number): number | undefined {
  const end = bytes.indexOf(endOfLine, at, 'latin1');
  if ((end === -1 ? bytes.length : end) - at > longestLine) throw new BadAnswerError('a line of it is too long');
  return end === -1 ? undefined : end;
}
