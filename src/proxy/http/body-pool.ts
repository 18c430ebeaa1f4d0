/**
 * Memory for request bodies, collected from pieces, and the answers made of them: under one bound, shared among clients.
 *
 * A client holds at most as much as is free, or one body, so that no address takes everything. When memory is short,
 * the pool ends the slowest arriving body of the heaviest clients, since a stalled body costs its sender nothing. A
 * complete body is never ended: a node may have it.
 */
import { Spans } from '../../ledger/index.ts';

/** In bytes. */
interface BodyPoolOptions {
  /** Bound of all reservations. */
  readonly maxBytes: number;
  /** Bound of one body, and the least that a client may hold. */
  readonly largestBytes: number;
  readonly now?: () => number;
  /** Called for each ended body. */
  readonly onEnded?: () => void;
}

/** Reservations of one client. */
interface Client {
  readonly name: string;
  bytes: number;
  /** In order of their beginning. */
  readonly arriving: Set<BodyReservation>;
}

/** Arriving bodies of a client that are compared, oldest first: a slow one is among them. */
const mostCompared = 64;

/** The body memory of one process. */
export class BodyPool {
  readonly #options: BodyPoolOptions;
  /** Monotonic, in milliseconds. */
  readonly now: () => number;
  /** Clients with a reservation. */
  readonly #clients = new Map<string, Client>();
  #heldBytes = 0;

  constructor(options: BodyPoolOptions) {
    this.#options = options;
    this.now = options.now ?? (() => performance.now());
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /**
   * Reserves memory for a body of `client`. The pool calls `onEnded` when it ends the body and frees the reservation.
   */
  open(client: string, onEnded: () => void): BodyReservation {
    const known = this.#clients.get(client) ?? { name: client, bytes: 0, arriving: new Set() };
    this.#clients.set(client, known);
    const reservation = new BodyReservation(this, known, onEnded);
    known.arriving.add(reservation);
    return reservation;
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

  /** Ends arriving bodies until the client is within its share and the pool within its bound, or none arrives. */
  #relieve(client: Client): void {
    const { maxBytes, largestBytes } = this.#options;
    while (client.bytes > Math.max(largestBytes, maxBytes - this.#heldBytes)) if (!this.#endSlowest([client])) break;
    while (this.#heldBytes > maxBytes) if (!this.#endSlowest(this.#heaviest())) break;
  }

  /** The clients with arriving bodies that hold the most; a difference of one body counts as equal. */
  #heaviest(): readonly Client[] {
    const clients = [...this.#clients.values()].filter(({ arriving }) => arriving.size > 0);
    const most = clients.reduce((before, { bytes }) => Math.max(before, bytes), 0);
    return clients.filter(({ bytes }) => bytes > most - this.#options.largestBytes);
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
    this.#options.onEnded?.();
    slowest.end();
    return true;
  }
}

/** Progress is measured over the current span and the previous one. */
const spanMs = 1_000;

/** Memory of one request: its body, and the answer made of it. */
export class BodyReservation {
  readonly #pool: BodyPool;
  readonly #client: Client;
  readonly #onEnded: () => void;
  #bytes = 0;
  #isClosed = false;
  /** The response, and work that needs the body. */
  #users = 1;
  readonly #came = new Spans(spanMs);

  constructor(pool: BodyPool, client: Client, onEnded: () => void) {
    this.#pool = pool;
    this.#client = client;
    this.#onEnded = onEnded;
  }

  /** Adds bytes of the body, which may end the reservation. */
  arrive(bytes: number): void {
    this.noteArrival(bytes);
    this.add(bytes);
  }

  /** Records the arrival of bytes that are reserved already. */
  noteArrival(bytes: number): void {
    this.#came.at(this.#pool.now()).add(0, bytes);
  }

  /** Adds memory for bytes that have not arrived, or for an answer; may end the reservation. */
  add(bytes: number): void {
    if (this.#isClosed) return;
    this.#bytes += bytes;
    this.#pool.take(this.#client, bytes);
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
    this.#onEnded();
  }

  /** Frees the memory; idempotent. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#pool.giveBack(this.#client, this, this.#bytes);
  }

  /** Bytes held per byte received lately. */
  slowness(): number {
    return this.#bytes / (1 + this.#came.at(this.#pool.now()).sum());
  }
}

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

  /** Bytes so far. */
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

  /** A single piece is returned without a copy. */
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
