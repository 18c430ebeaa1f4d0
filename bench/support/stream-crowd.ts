/** Many readers of streams of transactions, each of which compares all that it gets with the node's bytes. */
import { request, type ClientRequest, type IncomingMessage } from 'node:http';

/** A ledger as the readers know it. */
export interface Expected {
  /** The whole frame of a transaction. */
  frameOf(version: number): Buffer;
  /** When it was committed, in ms of `performance.now()`. */
  committedMs(version: number): number | undefined;
}

/** Faults that readers have found, and what they have got. */
export interface CrowdFigures {
  events: number;
  /** Reconnections. */
  resumed: number;
  /** Bytes that differ from those of the next version: gaps and doubles, too. */
  wrong: number;
  rollbacks: number;
  /** From the commit to the reader, of each hundredth event. */
  readonly delaysMs: number[];
}

/** One reader: connects, reads, and resumes behind its last event. */
class Reader {
  /** The next version. */
  version: number;
  readonly #url: string;
  readonly #expected: Expected;
  readonly #figures: CrowdFigures;
  #request: ClientRequest | undefined;
  #offset = 0;
  /** Within a comment or a time of retry. */
  #isBeside = false;
  #last = 0;
  #isClosed = false;
  #isFirst = true;

  constructor(url: string, version: number, expected: Expected, figures: CrowdFigures) {
    this.#url = url;
    this.version = version;
    this.#expected = expected;
    this.#figures = figures;
  }

  connect(): void {
    const headers = { accept: 'text/event-stream', 'last-event-id': String(this.version - 1) };
    this.#offset = 0;
    this.#isBeside = false;
    const again = (): void => {
      if (this.#isClosed || this.#request !== sent) return;
      this.#request = undefined;
      setTimeout(() => this.connect(), 1_000 + Math.random() * 2_000);
    };
    const sent = request(this.#url, { agent: false, headers }, (response: IncomingMessage) => {
      if (response.statusCode === 200 && !this.#isFirst) this.#figures.resumed += 1;
      this.#isFirst = false;
      response.on('data', (chunk: Buffer) => response.statusCode === 200 && this.#take(chunk));
      response.on('error', again).on('close', again);
    });
    sent.on('error', again).end();
    this.#request = sent;
  }

  close(): void {
    this.#isClosed = true;
    this.#request?.destroy();
  }

  #take(chunk: Buffer): void {
    for (let at = 0; at < chunk.length;) {
      if (this.#isBeside || (this.#offset === 0 && isBeside(chunk[at]))) at = this.#skip(chunk, at);
      else at = this.#compare(chunk, at);
    }
  }

  /** Skips to the end of the block, which may come with the next chunk. */
  #skip(chunk: Buffer, from: number): number {
    this.#isBeside = true;
    for (let at = from; at < chunk.length; at += 1) {
      const byte = chunk[at] as number;
      const isEnd = byte === lineFeed && this.#last === lineFeed;
      this.#last = byte;
      if (!isEnd) continue;
      this.#isBeside = false;
      this.#last = 0;
      return at + 1;
    }
    return chunk.length;
  }

  #compare(chunk: Buffer, at: number): number {
    const frame = this.#expected.frameOf(this.version);
    const count = Math.min(frame.length - this.#offset, chunk.length - at);
    if (chunk.compare(frame, this.#offset, this.#offset + count, at, at + count) !== 0) {
      const text = chunk.toString('latin1', at, at + 60);
      if (text.includes('event: rollback')) this.#figures.rollbacks += 1;
      this.#figures.wrong += 1;
      process.stderr.write(`at ${this.version}+${this.#offset}: ${JSON.stringify(text)}\n`);
      // It would find the same fault in each frame behind.
      this.close();
      return chunk.length;
    }
    this.#offset += count;
    if (this.#offset === frame.length) {
      this.#offset = 0;
      this.#figures.events += 1;
      if (this.#figures.events % 100 === 0) {
        const committedMs = this.#expected.committedMs(this.version);
        if (committedMs !== undefined) this.#figures.delaysMs.push(performance.now() - committedMs);
      }
      this.version += 1;
    }
    return at + count;
  }
}

const lineFeed = 0x0a;

/** Comments begin with a colon, times of retry with an r, and events with an i. */
function isBeside(byte: number | undefined): boolean {
  return byte === 0x3a || byte === 0x72;
}

/** Readers of one URL. */
export class StreamCrowd {
  readonly figures: CrowdFigures = { events: 0, resumed: 0, wrong: 0, rollbacks: 0, delaysMs: [] };
  readonly #readers: readonly Reader[];

  constructor(url: string, count: number, version: number, expected: Expected) {
    this.#readers = Array.from({ length: count }, () => new Reader(url, version, expected, this.figures));
  }

  connect(): void {
    for (const reader of this.#readers) reader.connect();
  }

  /** The version of the reader that is most behind. */
  get least(): number {
    return Math.min(...this.#readers.map(({ version }) => version));
  }

  close(): void {
    for (const reader of this.#readers) reader.close();
  }
}
