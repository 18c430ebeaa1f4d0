/**
 * Request bodies, and the answers made of them: under a bound for each and one for all, shared among clients.
 *
 * A client holds at most as much as is free, or one body, so that no address takes everything. When memory is short, the
 * slowest arriving body of the heaviest clients is ended, since a stalled body costs its sender nothing. A complete body
 * is never ended: a node may have it.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import { clientOf } from '../../access/index.ts';
import { GatewayError, Spans } from '../../ledger/index.ts';
import { isHttp2 } from './request-faults.ts';
import { TurnShares } from './server/turn-shares.ts';

/** Bounds of request bodies, and what they share with other input. */
export interface BodyLimits {
  /** Bytes of one body, and the least that a client may hold. Default: 8 MiB, as nodes accept (protocol 2.4). */
  readonly maxBytes?: number;
  /** Bytes of all bodies in flight, and of answers made of them. */
  readonly maxHeldBytes?: number;
  /** Processes that share `maxHeldBytes`; each has room for one body. Default 1. */
  readonly processes?: number;
  /** Called for each body that was ended for lack of memory. */
  readonly onEnded?: () => void;
  /** Shares of a turn, of which arriving bytes take their part. Default: shares of bodies alone. */
  readonly turns?: TurnShares;
  /** Monotonic, in milliseconds. */
  readonly now?: () => number;
}

interface Upload {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Fair-share key of the bound for all. */
  readonly client: string;
  /** Checks the head before the body is requested; `undefined` without a fault. Throws nothing else. */
  readonly faultOfHead?: () => GatewayError | undefined;
}

/**
 * Receives a body, or its fault. Returns a promise if further work needs the body; never rejects. `reservation`: absent
 * for a body too small to count.
 */
type BodyHandler = (body: Buffer | GatewayError, reservation?: BodyReservation) => void | Promise<void>;

/** Reservations of one client. */
interface Client {
  readonly name: string;
  bytes: number;
  /** In order of their beginning. */
  readonly arriving: Set<BodyReservation>;
}

/** Default of `maxHeldBytes`. */
export const allHeldBytes = 256 * 1024 * 1024;
/** In bytes; smaller bodies are uncounted: they take no more than the buffers of any connection. */
export const uncountedBytes = 16 * 1024;
/** Arriving bodies of a client that are compared, oldest first: a slow one is among them. */
const mostCompared = 64;
/** Bytes of a body that take a millisecond: Node reads up to 2 MiB of each connection in a row, which would delay hits. */
const bytesPerMs = 1024 * 1024;

/** The request bodies of one process. */
export class Bodies {
  readonly #largestBytes: number;
  readonly #maxBytes: number;
  readonly #onEnded: () => void;
  readonly #turns: TurnShares;
  readonly now: () => number;
  /** Clients with a reservation. */
  readonly #clients = new Map<string, Client>();
  #heldBytes = 0;

  constructor({
    maxBytes = longestBody,
    maxHeldBytes = allHeldBytes,
    processes = 1,
    onEnded = () => undefined,
    turns = new TurnShares(),
    now = () => performance.now(),
  }: BodyLimits = {}) {
    this.#largestBytes = maxBytes;
    this.#maxBytes = processes === 1 ? maxHeldBytes : Math.max(maxBytes, Math.floor(maxHeldBytes / processes));
    this.#onEnded = onEnded;
    this.#turns = turns;
    this.now = now;
  }

  /** Bytes reserved for bodies, and answers made of them. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Reserves memory for a body of `client`. `onEnded`: called with the fault when the body is ended for lack of memory. */
  reserve(client: string, onEnded: (fault: GatewayError) => void): BodyReservation {
    const known = this.#clients.get(client) ?? { name: client, bytes: 0, arriving: new Set() };
    this.#clients.set(client, known);
    const reservation = new BodyReservation(this, known, onEnded);
    known.arriving.add(reservation);
    return reservation;
  }

  /**
   * Calls `done` once, with the whole body or a fault: 411, 413, the fault of `faultOfHead`, or 503 for a body that was
   * ended. After a hang-up in mid-body, never. The reservation lasts until the response closes and the promise of `done`
   * resolves: a submission outlives its client.
   */
  read(upload: Upload, done: BodyHandler): void {
    const { request, response, faultOfHead } = upload;
    const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
    // Nodes require a length; a chunked body is measured while it arrives.
    const announced = length === undefined && coding === undefined ? undefined : Number(length ?? 0);
    const fault = faultOfBodyLength(announced, this.#largestBytes) ?? faultOfHead?.();
    if (fault !== undefined) {
      void done(fault);
      return;
    }
    // Without a listener, a hang-up would end the process.
    request.on('error', () => undefined);
    afterContinue(response, () => this.#receive(upload, done));
  }

  #receive({ request, response, client }: Upload, done: BodyHandler): void {
    const refuse = (error: GatewayError): void => {
      body.drop();
      request.resume();
      void done(error);
    };
    const body = new ArrivingBody(() => {
      const reservation = this.reserve(client, refuse);
      if (response.destroyed) reservation.release();
      else response.once('close', () => reservation.release());
      return reservation;
    });
    request.on('data', (chunk: Buffer) => {
      if (!body.isDropped && body.length + chunk.length > this.#largestBytes) refuse(tooLarge());
      else body.add(chunk);
      // Refused bodies are read too, and take time.
      this.#pace(request, chunk.length);
    });
    request.once('end', () => {
      if (body.isDropped) return;
      // The client got 408 for its late body, which must not take effect. A reset HTTP/2 request emits 'end' with a
      // partial body; an aborted HTTP/1.1 request never emits it.
      const isLate = response.headersSent || request.socket.writableEnded;
      if (isLate || (isHttp2(request) && (request as unknown as Http2ServerRequest).aborted)) {
        body.drop();
        return;
      }
      const work = done(body.whole(), body.reservation);
      if (work !== undefined) body.reservation?.holdFor(work);
    });
  }

  /** Above its client's share of the turn, `request` waits for a later one. */
  #pace(request: IncomingMessage, bytes: number): void {
    const client = clientOf(request.socket);
    if (this.#turns.charge(client, bytes / bytesPerMs)) return;
    request.pause();
    const work = (): false => {
      request.resume();
      return false;
    };
    this.#turns.defer({ client, work });
  }

  /** Counts bytes of a reservation, and ends bodies to make room for them. */
  take(client: Client, bytes: number): void {
    client.bytes += bytes;
    this.#heldBytes += bytes;
    this.#relieve(client);
  }

  /** Frees the bytes of a reservation that closes. */
  giveBack(client: Client, reservation: BodyReservation, bytes: number): void {
    client.arriving.delete(reservation);
    client.bytes -= bytes;
    this.#heldBytes -= bytes;
    if (client.bytes === 0 && client.arriving.size === 0) this.#clients.delete(client.name);
  }

  /** Ends arriving bodies until the client is within its share and all are within their bound, or none arrives. */
  #relieve(client: Client): void {
    const [most, least] = [this.#maxBytes, this.#largestBytes];
    while (client.bytes > Math.max(least, most - this.#heldBytes)) if (!this.#endSlowest([client])) break;
    while (this.#heldBytes > most) if (!this.#endSlowest(this.#heaviest())) break;
  }

  /** The clients with arriving bodies that hold the most; a difference of one body counts as equal. */
  #heaviest(): readonly Client[] {
    const clients = [...this.#clients.values()].filter(({ arriving }) => arriving.size > 0);
    const most = clients.reduce((before, { bytes }) => Math.max(before, bytes), 0);
    return clients.filter(({ bytes }) => bytes > most - this.#largestBytes);
  }

  /** False: no body is arriving. */
  #endSlowest(clients: readonly Client[]): boolean {
    let slowest: BodyReservation | undefined;
    let slowness = -1;
    for (const { arriving } of clients) {
      let compared = 0;
      for (const reservation of arriving) {
        const its = reservation.slowness();
        if (its > slowness) [slowest, slowness] = [reservation, its];
        compared += 1;
        if (compared === mostCompared) break;
      }
    }
    if (slowest === undefined) return false;
    this.#onEnded();
    slowest.end();
    return true;
  }
}

/** Progress is measured over the current span and the previous one. */
const spanMs = 1_000;

/** Memory of one request: its body, and the answer made of it. */
export class BodyReservation {
  readonly #bodies: Bodies;
  readonly #client: Client;
  readonly #onEnded: (fault: GatewayError) => void;
  #bytes = 0;
  #isClosed = false;
  /** The response, and work that needs the body. */
  #users = 1;
  readonly #came = new Spans(spanMs);

  constructor(bodies: Bodies, client: Client, onEnded: (fault: GatewayError) => void) {
    this.#bodies = bodies;
    this.#client = client;
    this.#onEnded = onEnded;
  }

  /** Adds bytes of the body, which may end the reservation. */
  arrive(bytes: number): void {
    this.#came.at(this.#bodies.now()).add(0, bytes);
    this.add(bytes);
  }

  /** Adds memory for an answer; may end bodies that arrive. */
  add(bytes: number): void {
    if (this.#isClosed) return;
    this.#bytes += bytes;
    this.#bodies.take(this.#client, bytes);
  }

  /** Exempts the complete body from `end`. */
  arrived(): void {
    this.#client.arriving.delete(this);
  }

  /** Keeps the reservation until `work` ends. `work` never rejects. Call it before the close. */
  holdFor(work: Promise<unknown>): void {
    this.#users += 1;
    void work.then(() => this.release());
  }

  /** Called by each user at its end; the last call frees the reservation. */
  release(): void {
    this.#users -= 1;
    if (this.#users === 0) this.close();
  }

  /** Ends the body: frees the memory and reports it. */
  end(): void {
    this.close();
    this.#onEnded(
      new GatewayError('unavailable', 'too many request bodies are held at once; try again', { reason: 'bodies' }),
    );
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#bodies.giveBack(this.#client, this, this.#bytes);
  }

  /** Bytes held per byte received lately. */
  slowness(): number {
    return this.#bytes / (1 + this.#came.at(this.#bodies.now()).sum());
  }
}

/** A body while it arrives: its pieces, and its reservation once it is large enough to count. */
export class ArrivingBody {
  readonly #reserve: () => BodyReservation | undefined;
  /** Absent: the body is dropped, or taken. */
  #pieces: Pieces | undefined = new Pieces();
  reservation: BodyReservation | undefined;

  /** `reserve`: called once, for a body that counts. */
  constructor(reserve: () => BodyReservation | undefined) {
    this.#reserve = reserve;
  }

  get length(): number {
    return this.#pieces?.length ?? 0;
  }

  /** Its bytes, and those to come, are dropped. */
  get isDropped(): boolean {
    return this.#pieces === undefined;
  }

  /** Takes a piece, for which another body may be ended, or this one. False: `reserve` gave no memory for it. */
  add(piece: Buffer): boolean {
    if (this.#pieces === undefined) return true;
    this.#pieces.add(piece);
    if (this.reservation !== undefined) this.reservation.arrive(piece.length);
    else if (this.length > uncountedBytes) {
      this.reservation = this.#reserve();
      this.reservation?.arrive(this.length);
      return this.reservation !== undefined;
    }
    return true;
  }

  whole(): Buffer {
    const whole = this.#pieces?.whole() ?? nothing;
    this.#pieces = undefined;
    this.reservation?.arrived();
    return whole;
  }

  drop(): void {
    this.#pieces = undefined;
    this.reservation?.close();
  }
}

const nothing = Buffer.alloc(0);

/** Smaller pieces are copied into blocks. */
const smallPiece = 4 * 1024;
const blockBytes = 16 * 1024;

/**
 * Collects received pieces. A piece of one byte takes a hundred bytes of memory, and 8 MiB of them a gigabyte; so, after
 * the first, small pieces are copied into blocks.
 */
export class Pieces {
  readonly #whole: Buffer[] = [];
  #block: Buffer | undefined;
  #used = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Keeps a large piece itself, whose bytes must not change. */
  add(piece: Buffer): void {
    this.#length += piece.length;
    if (piece.length >= smallPiece || (this.#whole.length === 0 && this.#block === undefined)) {
      this.#closeBlock();
      this.#whole.push(isMostOfItsMemory(piece) ? piece : Buffer.concat([piece]));
      return;
    }
    if (this.#block !== undefined && this.#used + piece.length > blockBytes) this.#closeBlock();
    this.#block ??= Buffer.allocUnsafeSlow(blockBytes);
    this.#used += piece.copy(this.#block, this.#used);
  }

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

/** An HTTP/2 piece may be 4 kB of a 64 kB read, and would keep all of it in memory. */
function isMostOfItsMemory({ length, buffer }: Buffer): boolean {
  return length >= buffer.byteLength / 2;
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

function tooLarge(): GatewayError {
  return new GatewayError('payloadTooLarge', 'payload too large');
}
