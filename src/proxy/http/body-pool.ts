/**
 * Memory for bodies of requests and for answers made of them: bounded together, and shared among clients.
 *
 * A client holds at most as much as is left free, or one body, so that no address takes everything. Where memory is
 * short, the slowest arriving body of the clients that hold the most is ended: a body that stands still costs its
 * sender nothing, and everybody else the pool. A body that is whole is never ended, since a node may have it.
 */

export interface BodyPoolOptions {
  /** Of everything that is held. */
  readonly maxBytes: number;
  /** Of one body. A client may hold this much, however little is free. */
  readonly largestBytes: number;
  /** Monotonic, in milliseconds. */
  readonly now?: () => number;
  /** Called for each body that is ended. */
  readonly onEnded?: () => void;
}

/** Bodies and answers of one client. */
interface Client {
  readonly name: string;
  bytes: number;
  /** In the order in which they began. */
  readonly arriving: Set<BodyReservation>;
}

/** Of a client's arriving bodies so many are compared, the oldest: a slow one is among them. */
const mostCompared = 64;

export class BodyPool {
  readonly #options: BodyPoolOptions;
  readonly #now: () => number;
  /** Those that hold anything. */
  readonly #clients = new Map<string, Client>();
  #heldBytes = 0;

  constructor(options: BodyPoolOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** A body of `client` begins to arrive. `onEnded` is called when it loses its place; everything is given back then. */
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

  /** Ends arriving bodies until the client is within its share and everything fits, or none is left to end. */
  #relieve(client: Client): void {
    const { maxBytes, largestBytes } = this.#options;
    while (client.bytes > Math.max(largestBytes, maxBytes - this.#heldBytes)) if (!this.#endSlowest([client])) break;
    while (this.#heldBytes > maxBytes) if (!this.#endSlowest(this.#heaviest())) break;
  }

  /** Clients with arriving bodies that hold the most. One body more or less makes no difference between them. */
  #heaviest(): readonly Client[] {
    const clients = [...this.#clients.values()].filter(({ arriving }) => arriving.size > 0);
    const most = clients.reduce((before, { bytes }) => Math.max(before, bytes), 0);
    return clients.filter(({ bytes }) => bytes > most - this.#options.largestBytes);
  }

  /** Returns whether there was one. */
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

/** Progress is taken over this span, and the one before it. */
const spanMs = 1_000;

/** What one request holds: its body, and the answer that is made of it. */
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

  /** So much more of the body has come. The reservation may be ended by it. */
  arrive(bytes: number): void {
    this.#turn(this.#owner.now());
    this.#cameInSpan += bytes;
    this.#take(bytes);
  }

  /** The body is whole: it is not ended any more. */
  arrived(): void {
    this.#owner.arrived();
  }

  /** An answer of so many bytes was made, and is being written. */
  addAnswer(bytes: number): void {
    this.#take(bytes);
  }

  /** Everything counts until `work` has ended as well. `work` never rejects. To be called before the reservation is closed. */
  holdFor(work: Promise<unknown>): void {
    this.#users += 1;
    void work.then(() => this.release());
  }

  /** The response is closed, or work has ended; the last of them gives everything back. */
  release(): void {
    this.#users -= 1;
    if (this.#users === 0) this.close();
  }

  /** Loses its place: gives everything back and reports that. */
  end(): void {
    this.close();
    this.#owner.ended();
  }

  /** Gives everything back at once. May be called more than once. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#owner.closed(this.#bytes);
  }

  /** Bytes held for each byte that has come lately. */
  slowness(nowMs: number): number {
    this.#turn(nowMs);
    return this.#bytes / (1 + this.#cameInSpan + this.#cameBefore);
  }

  #take(bytes: number): void {
    if (this.#isClosed) return;
    this.#bytes += bytes;
    this.#owner.take(bytes);
  }

  #turn(nowMs: number): void {
    const sinceMs = nowMs - this.#spanSinceMs;
    if (sinceMs < spanMs) return;
    this.#cameBefore = sinceMs < 2 * spanMs ? this.#cameInSpan : 0;
    this.#cameInSpan = 0;
    this.#spanSinceMs = nowMs;
  }
}
