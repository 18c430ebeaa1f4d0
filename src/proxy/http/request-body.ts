/** Reads the bodies of requests, each and all together within a bound. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import { GatewayError } from '../../ledger/errors.ts';
import { BodyPool, type Holding } from './body-pool.ts';
import { isHttp2 } from './request-faults.ts';

/** Bounds of request bodies. */
export interface BodyLimits {
  /** Bound of one body. Default: 8 MiB, as nodes accept (protocol 2.4). */
  readonly maxBytes?: number;
  /** Bound of all bodies whose requests are not answered yet, and of answers made of them. */
  readonly maxHeldBytes?: number;
  /** Processes that share `maxHeldBytes`; one body fits in each. Default 1. */
  readonly processes?: number;
  /** Called for each body that lost its place. */
  readonly onEnded?: () => void;
}

/** A request whose body is read. */
export interface Uploading {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Bodies of one client share what it may hold. */
  readonly client: string;
  /** Looks at the head before the body is asked for. */
  readonly faultOfHead?: FaultOfHead | undefined;
}

/**
 * Takes a body, or what is wrong with it; the promise, if any, is of work that still needs the body. Never rejects.
 * `holding`: absent for a body that is too small to count.
 */
export type WithBody = (body: Buffer | GatewayError, holding?: Holding) => void | Promise<void>;

/** The fault that a request's head shows; `undefined`: none. Throws nothing else. */
export type FaultOfHead = () => GatewayError | undefined;

/** Default of `maxHeldBytes`. */
export const allHeldBytes = 256 * 1024 * 1024;
/** Smaller bodies are not counted: they take no more than what every connection takes for its buffers. */
const uncountedBytes = 16 * 1024;

/** Reads request bodies within their bounds. */
export class Bodies {
  readonly #maxBytes: number;
  readonly #pool: BodyPool;
  readonly #pace = new BodyPace();

  constructor({ maxBytes = longestBody, maxHeldBytes = allHeldBytes, processes = 1, onEnded }: BodyLimits = {}) {
    this.#maxBytes = maxBytes;
    const share = processes === 1 ? maxHeldBytes : Math.max(maxBytes, Math.floor(maxHeldBytes / processes));
    this.#pool = new BodyPool({ maxBytes: share, largestBytes: maxBytes, ...(onEnded && { onEnded }) });
  }

  /** Bytes of bodies, and of answers made of them, that count at the moment. */
  get heldBytes(): number {
    return this.#pool.heldBytes;
  }

  /**
   * Calls `done` once: with the whole body, or with what is wrong with it: 411, 413, what `faultOfHead` finds ahead of the
   * body, or 503 when it lost its place to others (body-pool.ts). Not at all when the client hangs up before its end.
   * The body counts until the response is closed and what `done` began has ended: a submission outlives its client.
   */
  read({ request, response, client, faultOfHead }: Uploading, done: WithBody): void {
    const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
    // Nodes want a length; a chunked body is measured here.
    const announced = length ?? (coding === undefined ? undefined : 0);
    const faultOfLength = faultOfBodyLength(announced === undefined ? undefined : Number(announced), this.#maxBytes);
    const fault = faultOfLength ?? faultOfHead?.();
    if (fault !== undefined) {
      void done(fault);
      return;
    }
    writeContinue(response);
    let pieces = new Pieces();
    let size = 0;
    let holding: Holding | undefined;
    const stop = (): void => {
      // A listener would keep the pieces beside the whole.
      request.off('data', onData).off('end', onEnd);
      pieces = new Pieces();
    };
    const refuse = (error: GatewayError): void => {
      stop();
      holding?.close();
      request.resume();
      void done(error);
    };
    const open = (): Holding => {
      const opened = this.#pool.open(client, () => refuse(tooMany()));
      if (response.destroyed) opened.release();
      else response.once('close', () => opened.release());
      return opened;
    };
    const onData = (chunk: Buffer): void => {
      pieces.add(chunk);
      size += chunk.length;
      if (size > this.#maxBytes) refuse(tooLarge());
      else if (holding !== undefined) holding.arrive(chunk.length);
      else if (size > uncountedBytes) {
        holding = open();
        holding.arrive(size);
      }
    };
    const onEnd = (): void => {
      // A request of HTTP/2 that its client takes back ends as well, with what had come: that is no body.
      if (wasTakenBack(request)) {
        stop();
        return;
      }
      const body = pieces.whole();
      stop();
      holding?.arrived();
      const work = done(body, holding);
      if (work !== undefined) holding?.keepFor(work);
    };
    request.on('data', onData).on('end', onEnd);
    // Reading a refused body takes its time as well.
    request.on('data', (chunk: Buffer) => this.#pace.note(request, chunk.length));
    // Without a listener, a client that hangs up would end the process.
    request.on('error', () => undefined);
  }
}

/** In bytes: nodes accept no longer body (protocol 2.4). */
const longestBody = 8 * 1024 * 1024;

/** 411 or 413. `bytes`: undefined of a request that announces no body; 0 of one that announces no length. */
export function faultOfBodyLength(bytes: number | undefined, maxBytes = longestBody): GatewayError | undefined {
  if (bytes === undefined) return new GatewayError('lengthRequired', 'missing `Content-Length` header');
  return bytes > maxBytes ? tooLarge() : undefined;
}

const isAwaited = Symbol('the client waits for 100 Continue');

type Expecting = ServerResponse & { [isAwaited]?: boolean; _expect_continue?: boolean };

/**
 * Notes that the client sends its body after `100 Continue` alone (RFC 9110 10.1.1), which `Bodies.read` writes. Node
 * ends the connection with an answer before that: the client may send the body or leave it out, so that a next request
 * could be taken for the body. A request without a body has nothing to continue with.
 */
export function awaitContinue(request: IncomingMessage, response: Expecting): void {
  if (announcesBody(request)) response[isAwaited] = true;
  // Node would end the connection with the answer.
  else response._expect_continue = false;
}

function writeContinue(response: Expecting): void {
  if (response[isAwaited] !== true) return;
  response[isAwaited] = false;
  // Behind another answer Node would put the head of this one ahead of the 100, and that ahead of the body.
  if (response.socket === null) response.once('socket', () => response.headersSent || response.writeContinue());
  else response.writeContinue();
}

/** Over HTTP/1.1 such a request has no end. */
function wasTakenBack(request: IncomingMessage): boolean {
  return isHttp2(request) && (request as unknown as Http2ServerRequest).aborted;
}

/** Pieces below this are copied together. */
const smallPiece = 4 * 1024;
const blockBytes = 16 * 1024;

/**
 * The pieces that a body comes in. A client may send it byte by byte, and a piece of one byte takes a hundred: eight
 * megabytes of such would take a gigabyte, so that behind the first one small pieces are copied into blocks.
 */
class Pieces {
  readonly #whole: Buffer[] = [];
  #block: Buffer | undefined;
  #used = 0;

  add(piece: Buffer): void {
    if (piece.length >= smallPiece || (this.#whole.length === 0 && this.#block === undefined)) {
      this.#closeBlock();
      this.#whole.push(isMostOfItsMemory(piece) ? piece : Buffer.concat([piece]));
      return;
    }
    if (this.#block !== undefined && this.#used + piece.length > blockBytes) this.#closeBlock();
    this.#block ??= Buffer.allocUnsafeSlow(blockBytes);
    this.#used += piece.copy(this.#block, this.#used);
  }

  /** One piece is the body as it came. */
  whole(): Buffer {
    this.#closeBlock();
    const [first] = this.#whole;
    return this.#whole.length === 1 && first !== undefined ? first : Buffer.concat(this.#whole);
  }

  #closeBlock(): void {
    if (this.#block !== undefined) this.#whole.push(this.#block.subarray(0, this.#used));
    this.#block = undefined;
    this.#used = 0;
  }
}

/** Over HTTP/2 a piece may be 4 kB of 64 that were read at once, and would keep all of them. */
function isMostOfItsMemory({ length, buffer }: Buffer): boolean {
  return length >= buffer.byteLength / 2;
}

/** Whether a body is announced, were it an empty one. */
export function announcesBody({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
}

/** Bytes of all bodies per turn of the event loop: a few milliseconds of copying. */
const mostPerTurn = 2 * 1024 * 1024;

/** Bounds the bytes of bodies per turn: Node reads up to 2 MiB of each connection in a row, which would delay hits. */
export class BodyPace {
  #left = mostPerTurn;
  #isTurnBegun = false;
  readonly #paused = new Set<IncomingMessage>();

  /** Counts `bytes` of a body; beyond the bound, pauses `request` until the next turn. */
  note(request: IncomingMessage, bytes: number): void {
    this.#left -= bytes;
    if (!this.#isTurnBegun) {
      this.#isTurnBegun = true;
      setImmediate(() => this.#endTurn());
    }
    if (this.#left > 0) return;
    request.pause();
    this.#paused.add(request);
  }

  #endTurn(): void {
    this.#left = mostPerTurn;
    this.#isTurnBegun = false;
    const paused = [...this.#paused];
    this.#paused.clear();
    for (const request of paused) request.resume();
  }
}

function tooLarge(): GatewayError {
  return new GatewayError('payloadTooLarge', 'payload too large');
}

function tooMany(): GatewayError {
  return new GatewayError('unavailable', 'too many request bodies are held at once; try again');
}
