/**
 * Memory for request bodies and the answers made of them, under one bound and shared among clients.
 *
 * A client holds at most as much as is free, or one body, so that no address takes everything. When memory is short,
 * the pool ends the slowest arriving body of the heaviest clients, since a stalled body costs its sender nothing. A
 * complete body is never ended: a node may have it.
 */

/** Bounds and callbacks of a pool, in bytes. */
export interface BodyPoolOptions {
  /** Bound of all reservations. */
  readonly maxBytes: number;
  /** Bound of one body, and the least that a client may hold. */
  readonly largestBytes: number;
  /** Monotonic, in milliseconds. */
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
  readonly #now: () => number;
  /** Clients with a reservation. */
  readonly #clients = new Map<string, Client>();
  #heldBytes = 0;

  constructor(options: BodyPoolOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
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
    const reservation: BodyReservation = new BodyReservation({
      now: this.#now,
      take: (bytes) => this.#take(known, bytes),
      arrived: () => known.arriving.delete(reservation),
      closed: (bytes) => this.#giveBack(known, reservation, bytes),
      ended: () => {
        this.#options.onEnded?.();
        onEnded();
      },
    });
    known.arriving.add(reservation);
    return reservation;
  }

  #take(client: Client, bytes: number): void {
    client.bytes += bytes;
    this.#heldBytes += bytes;
    this.#relieve(client);
  }

  #giveBack(client: Client, reservation: BodyReservation, bytes: number): void {
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
    const nowMs = this.#now();
    let slowest: BodyReservation | undefined;
    let slowness = -1;
    for (const { arriving } of clients) {
      let compared = 0;
      for (const reservation of arriving) {
        const its = reservation.slowness(nowMs);
        if (its > slowness) [slowest, slowness] = [reservation, its];
        compared += 1;
        if (compared === mostCompared) break;
      }
    }
    slowest?.end();
    return slowest !== undefined;
  }
}

interface ReservationOwner {
  readonly now: () => number;
  take(bytes: number): void;
  arrived(): void;
  closed(bytes: number): void;
  ended(): void;
}

/** Progress is measured over the current span and the previous one. */
const spanMs = 1_000;

/** Memory of one request: its body, and the answer made of it. */
export class BodyReservation {
  readonly #owner: ReservationOwner;
  #bytes = 0;
  #isClosed = false;
  /** The response, and work that needs the body. */
  #users = 1;
  #spanSinceMs: number;
  #cameInSpan = 0;
  #cameBefore = 0;

  constructor(owner: ReservationOwner) {
    this.#owner = owner;
    this.#spanSinceMs = owner.now();
  }

  /** Adds bytes of the body, which may end the reservation. */
  arrive(bytes: number): void {
    this.noteArrival(bytes);
    this.add(bytes);
  }

  /** Records the arrival of bytes that are reserved already. */
  noteArrival(bytes: number): void {
    this.#turn(this.#owner.now());
    this.#cameInSpan += bytes;
  }

  /** Adds memory for bytes that have not arrived, or for an answer; may end the reservation. */
  add(bytes: number): void {
    if (this.#isClosed) return;
    this.#bytes += bytes;
    this.#owner.take(bytes);
  }

  /** Exempts the complete body from `end`. */
  arrived(): void {
    this.#owner.arrived();
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
    this.#owner.ended();
  }

  /** Frees the memory; idempotent. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#owner.closed(this.#bytes);
  }

  /** Bytes held per byte received lately. */
  slowness(nowMs: number): number {
    this.#turn(nowMs);
    return this.#bytes / (1 + this.#cameInSpan + this.#cameBefore);
  }

  #turn(nowMs: number): void {
    const sinceMs = nowMs - this.#spanSinceMs;
    if (sinceMs < spanMs) return;
    this.#cameBefore = sinceMs < 2 * spanMs ? this.#cameInSpan : 0;
    this.#cameInSpan = 0;
    this.#spanSinceMs = nowMs;
  }
}
