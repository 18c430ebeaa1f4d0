/**
 * Reads that several clients share, each in the turn of its own client. A client joins a read of its own, and one that a
 * node works on. A read that only waits for a place waits in the turn of another client, which may have hundreds ahead
 * of it: then the client begins its own, and the first of them to end answers all.
 */
import { QueueFullError } from '../upstream/queue.ts';

export interface FlightTurn {
  /** The client in whose turn the flight waits. */
  readonly client: string;
  /** Aborts when another flight has the answer. */
  readonly signal: AbortSignal;
  /** To be called once a node works on it. */
  readonly onPlace: () => void;
}

interface Flight<T> {
  readonly client: string;
  hasPlace: boolean;
  readonly stop: AbortController;
  readonly outcome: PromiseWithResolvers<T>;
}

/** Flights of other clients that one request joins, one after another, when those are refused for their crowds. */
const maxJoined = 3;

export class FairFlights<T> {
  /** By key; a client has one of each at most. */
  readonly #flights = new Map<string, Set<Flight<T>>>();

  /** Whether anybody reads `key` now. */
  has(key: string): boolean {
    return this.#flights.has(key);
  }

  /** Resolves as a shared flight or `read` does, and rejects as that does. A client that leaves ends no flight. */
  async run(key: string, client: string, read: (turn: FlightTurn) => Promise<T>): Promise<T> {
    for (let joined = 0; ; joined += 1) {
      const flight = this.#find(key, client, joined < maxJoined) ?? this.#begin(key, client, read);
      try {
        return await flight.outcome.promise;
      } catch (error) {
        const isOfAnother = error instanceof QueueFullError && error.client !== client;
        if (!isOfAnother || flight.client === client) throw error;
      }
    }
  }

  #find(key: string, client: string, mayJoin: boolean): Flight<T> | undefined {
    for (const flight of this.#flights.get(key) ?? []) {
      if (flight.client === client || (mayJoin && flight.hasPlace)) return flight;
    }
    return undefined;
  }

  #begin(key: string, client: string, read: (turn: FlightTurn) => Promise<T>): Flight<T> {
    const flight: Flight<T> = {
      client,
      hasPlace: false,
      stop: new AbortController(),
      outcome: Promise.withResolvers<T>(),
    };
    const flights = this.#flights.get(key) ?? new Set();
    this.#flights.set(key, flights.add(flight));
    const onPlace = (): void => {
      flight.hasPlace = true;
    };
    read({ client, signal: flight.stop.signal, onPlace }).then(
      (value) => {
        this.#remove(key, flight);
        flight.outcome.resolve(value);
        this.#endWaiting(key, value);
      },
      (error: unknown) => {
        this.#remove(key, flight);
        flight.outcome.reject(error);
      },
    );
    return flight;
  }

  /** Flights that still wait for a place need none any more. */
  #endWaiting(key: string, value: T): void {
    for (const flight of this.#flights.get(key) ?? []) {
      if (flight.hasPlace) continue;
      this.#remove(key, flight);
      flight.outcome.resolve(value);
      flight.stop.abort();
    }
  }

  #remove(key: string, flight: Flight<T>): void {
    const flights = this.#flights.get(key);
    flights?.delete(flight);
    if (flights?.size === 0) this.#flights.delete(key);
  }
}
