/** Reads request bodies, under a bound for each and one for all. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import { GatewayError } from '../../ledger/index.ts';
import { BodyPool, Pieces, type BodyReservation } from './body-pool.ts';
import { isHttp2 } from './request-faults.ts';

/** Bounds of request bodies. */
export interface BodyLimits {
  /** Bytes of one body. Default: 8 MiB, as nodes accept (protocol 2.4). */
  readonly maxBytes?: number;
  /** Bytes of all bodies in flight, and of answers made of them. */
  readonly maxHeldBytes?: number;
  /** Processes that share `maxHeldBytes`; each has room for one body. Default 1. */
  readonly processes?: number;
  /** Called for each body that the pool ended. */
  readonly onEnded?: () => void;
}

/** A request with its body to be read. */
interface Upload {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Fair-share key of the body pool. */
  readonly client: string;
  /** Checks the head before the body is requested. */
  readonly faultOfHead?: FaultOfHead | undefined;
}

/**
 * Receives a body, or its fault. Returns a promise if further work needs the body; never rejects. `reservation`: absent
 * for a body too small to count.
 */
type BodyHandler = (body: Buffer | GatewayError, reservation?: BodyReservation) => void | Promise<void>;

/** Returns the fault of a request's head, `undefined` without one. Throws nothing else. */
type FaultOfHead = () => GatewayError | undefined;

/** Default of `maxHeldBytes`. */
export const allHeldBytes = 256 * 1024 * 1024;
/** In bytes; smaller bodies are uncounted: they take no more than the buffers of any connection. */
export const uncountedBytes = 16 * 1024;

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

  /** Bytes reserved for bodies, and answers made of them. */
  get heldBytes(): number {
    return this.#pool.heldBytes;
  }

  /**
   * Reserves memory for a body of `client` that is read elsewhere. The pool calls `onEnded` with the fault when it ends
   * the body and frees the reservation.
   */
  reserve(client: string, onEnded: (fault: GatewayError) => void): BodyReservation {
    return this.#pool.open(client, () =>
      onEnded(
        new GatewayError('unavailable', 'too many request bodies are held at once; try again', { reason: 'bodies' }),
      ),
    );
  }

  /**
   * Calls `done` once, with the whole body or a fault: 411, 413, the fault of `faultOfHead`, or 503 for a body that the
   * pool ended. After a hang-up in mid-body, never. The reservation lasts until the response closes and the promise of
   * `done` resolves: a submission outlives its client.
   */
  read(upload: Upload, done: BodyHandler): void {
    const { request, response, faultOfHead } = upload;
    const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
    // Nodes require a length; a chunked body is measured while it arrives.
    const announced = length ?? (coding === undefined ? undefined : 0);
    const faultOfLength = faultOfBodyLength(announced === undefined ? undefined : Number(announced), this.#maxBytes);
    const fault = faultOfLength ?? faultOfHead?.();
    if (fault !== undefined) {
      void done(fault);
      return;
    }
    // Without a listener, a hang-up would end the process.
    request.on('error', () => undefined);
    afterContinue(response, () => this.#receive(upload, done));
  }

  #receive({ request, response, client }: Upload, done: BodyHandler): void {
    let pieces = new Pieces();
    let size = 0;
    let reservation: BodyReservation | undefined;
    const stop = (): void => {
      // A listener would keep the pieces in memory beside the whole.
      request.off('data', onData).off('end', onEnd);
      pieces = new Pieces();
    };
    const refuse = (error: GatewayError): void => {
      stop();
      reservation?.close();
      request.resume();
      void done(error);
    };
    const open = (): BodyReservation => {
      const opened = this.reserve(client, refuse);
      if (response.destroyed) opened.release();
      else response.once('close', () => opened.release());
      return opened;
    };
    const onData = (chunk: Buffer): void => {
      pieces.add(chunk);
      size += chunk.length;
      if (size > this.#maxBytes) refuse(tooLarge());
      else if (reservation !== undefined) reservation.arrive(chunk.length);
      else if (size > uncountedBytes) {
        reservation = open();
        reservation.arrive(size);
      }
    };
    const onEnd = (): void => {
      // The client got 408 for its late body, which must not take effect.
      if (response.headersSent || request.socket.writableEnded) {
        stop();
        return;
      }
      // A reset HTTP/2 request emits 'end' with a partial body; an aborted HTTP/1.1 request never emits it.
      if (isHttp2(request) && (request as unknown as Http2ServerRequest).aborted) {
        stop();
        return;
      }
      const body = pieces.whole();
      stop();
      reservation?.arrived();
      const work = done(body, reservation);
      if (work !== undefined) reservation?.holdFor(work);
    };
    request.on('data', onData).on('end', onEnd);
    // Refused bodies are read too, and take time.
    request.on('data', (chunk: Buffer) => this.#pace.note(request, chunk.length));
  }
}

/** In bytes, as nodes accept (protocol 2.4). */
const longestBody = 8 * 1024 * 1024;

/** Returns 411 or 413. `bytes`: undefined for a request without a body, 0 for one without a length. */
export function faultOfBodyLength(bytes: number | undefined, maxBytes = longestBody): GatewayError | undefined {
  if (bytes === undefined) return new GatewayError('lengthRequired', 'missing `Content-Length` header');
  return bytes > maxBytes ? tooLarge() : undefined;
}

const isAwaited = Symbol('the client waits for 100 Continue');

type Expecting = ServerResponse & { [isAwaited]?: boolean; _expect_continue?: boolean };

/**
 * Marks a client that awaits `100 Continue` (RFC 9110 10.1.1), which `Bodies.read` writes. An answer without the 100
 * makes Node close the connection: the client may or may not send the body, which a reader could take for a request. A
 * request without a body awaits nothing.
 */
export function awaitContinue(request: IncomingMessage, response: Expecting): void {
  if (announcesBody(request)) response[isAwaited] = true;
  // Otherwise Node would close the connection after the answer.
  else response._expect_continue = false;
}

/** Calls `receive` once the client that awaits `100 Continue` has it. */
function afterContinue(response: Expecting, receive: () => void): void {
  if (response[isAwaited] !== true) return receive();
  response[isAwaited] = false;
  const proceed = (): void => {
    response.writeContinue();
    receive();
  };
  // Behind another answer the body waits, too: an answer to it ahead of the 100 would close the connection.
  if (response.socket === null) response.once('socket', proceed);
  else proceed();
  return undefined;
}

/** Whether a body is announced, be it empty. */
export function announcesBody({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
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
