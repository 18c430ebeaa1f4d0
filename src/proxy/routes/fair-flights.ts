/**
 * Single flight of reads in which each client has its own turn. A client joins its own flight, or one that a node works
 * on. A flight that only waits for a place waits in the turn of another client, which may have hundreds ahead of it:
 * then the client begins its own, and the first of them to end answers all.
 */
import { retryOwnFlight } from '../../upstream/dispatch/queue.ts';

/** The turn in which a flight is read. */
export interface FlightTurn {
  /** The client in whose turn the flight waits. */
  readonly client: string;
  /** Aborts when another flight has the answer. */
  readonly signal: AbortSignal;
  /** To be called once a node works on it. */
  readonly onPlace: () => void;
}

interface ClientFlight<T> {
  readonly client: string;
  hasPlace: boolean;
  readonly stop: AbortController;
  readonly outcome: PromiseWithResolvers<T>;
}

/** Flights of other clients that one request joins, one after another, when their clients exceed the queue. */
const maxJoined = 3;

/** Flights in progress, by key. */
export class FairFlights<T> {
  /** A client has one flight of each key at most. */
  readonly #flights = new Map<string, Set<ClientFlight<T>>>();

  /** Whether a read of `key` is in flight. */
  has(key: string): boolean {
    return this.#flights.has(key);
  }

  /** Resolves as a shared flight or `read` does, and rejects as that does. A client that leaves ends no flight. */
  async run(key: string, client: string, read: (turn: FlightTurn) => Promise<T>): Promise<T> {
    for (let joined = 0; ; joined += 1) {
      const shared = [...(this.#flights.get(key) ?? [])].find(
        (flight) => flight.client === client || (flight.hasPlace && joined < maxJoined),
      );
      try {
        return await (shared ?? this.#begin(key, client, read)).outcome.promise;
      } catch (error) {
        if (!retryOwnFlight(error, client)) throw error;
      }
    }
  }

  #begin(key: string, client: string, read: (turn: FlightTurn) => Promise<T>): ClientFlight<T> {
    const stop = new AbortController();
    const flight: ClientFlight<T> = { client, hasPlace: false, stop, outcome: Promise.withResolvers<T>() };
    const flights = this.#flights.get(key) ?? new Set();
    this.#flights.set(key, flights.add(flight));
    const onPlace = (): void => {
      flight.hasPlace = true;
    };
    const remove = (ended: ClientFlight<T>): void => {
      flights.delete(ended);
      if (flights.size === 0 && this.#flights.get(key) === flights) this.#flights.delete(key);
    };
    read({ client, signal: stop.signal, onPlace }).then(
      (value) => {
        // Flights that still wait for a place need none any more.
        for (const ended of [flight, ...[...flights].filter(({ hasPlace }) => !hasPlace)]) {
          remove(ended);
          ended.outcome.resolve(value);
          if (ended !== flight) ended.stop.abort();
        }
      },
      (error: unknown) => {
        remove(flight);
        flight.outcome.reject(error);
      },
    );
    return flight;
  }
}
