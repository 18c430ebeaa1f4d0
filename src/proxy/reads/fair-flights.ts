/**
 * Single flights with a queue turn for each client. The queue for nodes bounds each client by itself, so a flight may fail
 * because its leader's client exceeded its bound: a follower of another client then begins its own.
 */
import { QueueFullError } from '../../upstream/index.ts';

/** Flights of other clients that one caller joins in turn. */
const mostJoined = 3;

/**
 * Resolves or rejects as `join`, which joins a coalesced load. After a load whose leader's client exceeded its queue limit,
 * `join` runs again: the first follower to retry leads.
 */
export async function joinFlights<T>(client: string, join: () => Promise<T>): Promise<T> {
  for (let joined = 1; ; joined += 1) {
    try {
      return await join();
    } catch (error) {
      if (!retryOwnFlight(error, client) || joined === mostJoined) throw error;
    }
  }
}

/** The queue turn of a flight. */
export interface FlightTurn {
  /** Fair-queueing key of the client that began the flight. */
  readonly client: string;
  /** Aborts when another flight has the answer. */
  readonly signal: AbortSignal;
  /** The read calls it once a node works on it. */
  readonly onPlace: () => void;
}

interface ClientFlight<T> {
  readonly client: string;
  hasPlace: boolean;
  readonly stop: AbortController;
  readonly outcome: PromiseWithResolvers<T>;
}

/**
 * Flights in progress by key; `T` is the value that they resolve with. A client joins its own flight, or one that a node
 * works on. Hundreds of requests may be ahead of another client's queued flight: beside it the client begins its own
 * flight, and the first to end answers all.
 */
export class FairFlights<T> {
  /** By key; each client has at most one flight of a key. */
  readonly #flights = new Map<string, Set<ClientFlight<T>>>();

  has(key: string): boolean {
    return this.#flights.has(key);
  }

  /** Resolves or rejects as `read`, or a shared flight of `key`, does. Flights outlive their clients. */
  async run(key: string, client: string, read: (turn: FlightTurn) => Promise<T>): Promise<T> {
    for (let joined = 0; ; joined += 1) {
      const shared = [...(this.#flights.get(key) ?? [])].find(
        (flight) => flight.client === client || (flight.hasPlace && joined < mostJoined),
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
        // Queued flights of the key end with this one.
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

/** Whether a coalesced follower of `client` retries: its leader failed because another client exceeded the queue. */
function retryOwnFlight(error: unknown, client: string): boolean {
  return error instanceof QueueFullError && error.client !== client;
}
