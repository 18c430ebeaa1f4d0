/** Compiled modules at head. A module is read again after a bounded age; only changed bytes are compiled again. */
import { LRUCache } from 'lru-cache';
import { type CachedResponse, ownBytes } from '../../cache/index.ts';
import { compileModule, type LoadModule } from '../../encode/index.ts';
import { type Address, bodyTurns, GatewayError } from '../../ledger/index.ts';
import { moduleRead } from './parse-read.ts';
import type { Reads } from '../reads/index.ts';

/** An upgrade is noticed within this time. Half-way through, a background read begins. */
const maxAgeMs = 1_000;
/** Bound of compiled modules in bytes; a module takes about three times its answer, 6 to 60 kB. */
export const moduleBytes = 96 * 1024 * 1024;
/** Bound of a read; the fleet's own deadline is shorter. */
const maxWaitMs = 30_000;

type CompiledModule = ReturnType<typeof compileModule>;

interface LoadedModule {
  readonly body: Buffer;
  /** A promise, so that a hit allocates none. `undefined`: the ledger has no such module. */
  readonly module: Promise<CompiledModule | undefined>;
  readonly readAtMs: number;
  /** Sequence number of its read, from 1, in the order in which reads began. */
  readonly order: number;
}

/** Reads, compiles and caches modules for the encoder. */
export class ModuleSource {
  readonly #reader: Reads['reader'];
  readonly #now: () => number;
  readonly #loaded = new LRUCache<string, LoadedModule>({
    maxSize: moduleBytes,
    sizeCalculation: ({ body }) => 1_000 + 3 * body.length,
  });
  readonly #reads = new FairFlights<LoadedModule>();
  #readsBegun = 0;

  /** `now`: monotonic, in milliseconds. */
  constructor(reader: Reads['reader'], now: () => number) {
    this.#reader = reader;
    this.#now = now;
  }

  /**
   * `LoadModule` for one request of `client` that begins now. A `fresh` module was read after that. Rejects with
   * `GatewayError` 503 when no node answers.
   */
  loaderOfRequest(client: string): LoadModule {
    const begun = this.#readsBegun;
    return (address, name, options) => {
      const key = this.#keyOf(address, name);
      const read = (): Promise<LoadedModule> =>
        this.#reads.run(key, client, (turn) => this.#read(key, address, name, turn));
      if (options?.fresh !== true) return this.#load(key, read);
      const loaded = this.#loaded.get(key);
      if (loaded !== undefined && loaded.order > begun) return loaded.module;
      return read().then(({ module }) => module);
    };
  }

  /** `LoadModule` for ABIs at `version`. Rejects with `GatewayError` 503 when no node answers. */
  loaderAt(version: bigint, client: string): LoadModule {
    return async (address, name) => {
      const read = moduleRead({ address, name }, { target: `?ledger_version=${version}`, accept: undefined });
      const caller = { signal: AbortSignal.timeout(maxWaitMs), client };
      const { entry } = this.#reader.find(read) ?? (await this.#reader.load(read, caller));
      return bodyTurns.run(client, () => compile(entry));
    };
  }

  /** The generation keeps a module of an earlier ledger out. */
  #keyOf(address: Address, name: string): string {
    return `${this.#reader.generation} ${address}::${name}`;
  }

  #load(key: string, read: () => Promise<LoadedModule>): Promise<CompiledModule | undefined> {
    const loaded = this.#loaded.get(key);
    const ageMs = loaded === undefined ? Infinity : this.#now() - loaded.readAtMs;
    if (loaded === undefined || ageMs >= maxAgeMs) return read().then(({ module }) => module);
    // This request has its module: a failure of the read counts for a request that waits for it.
    if (ageMs > maxAgeMs / 2 && !this.#reads.has(key)) read().catch(() => undefined);
    return loaded.module;
  }

  async #read(key: string, address: Address, name: string, turn: FlightTurn): Promise<LoadedModule> {
    const readAtMs = this.#now();
    this.#readsBegun += 1;
    const order = this.#readsBegun;
    const read = moduleRead({ address, name }, { target: '', accept: undefined });
    const signal = AbortSignal.any([turn.signal, AbortSignal.timeout(maxWaitMs)]);
    const { entry } = await this.#reader.ask(read, { ...turn, signal });
    const body = ownBytes(entry.body);
    const equal = this.#loaded.peek(key);
    // Ahead of the next look: reads of other clients may end meanwhile.
    const module =
      equal?.body.equals(body) === true
        ? equal.module
        : Promise.resolve(await bodyTurns.run(turn.client, () => compile(entry)));
    const before = this.#loaded.peek(key);
    const loaded = { body, module, readAtMs, order };
    // Reads of several clients may end out of order: the one that began later is newer.
    if (before === undefined || before.order < order) this.#loaded.set(key, loaded);
    return loaded;
  }
}

/** The module, or `undefined` for a node's own `module_not_found`. Throws `GatewayError` 503 for any other answer. */
function compile({ status, body }: CachedResponse): CompiledModule | undefined {
  if (status === 200) return compileModule(body.toString());
  if (status === 404 && body.includes('"module_not_found"')) return undefined;
  throw new GatewayError('unavailable', 'the module cannot be read now', { reason: 'module unread' });
}

/** Flights of other clients that one caller joins in turn. */
const mostJoined = 3;

interface FlightTurn {
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
class FairFlights<T> {
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
        const refused = error instanceof GatewayError ? error.client : undefined;
        if (refused === undefined || refused === client) throw error;
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
