/**
 * Modules at head, compiled for the encoder. A module is read again when it is older than a bound, so that an upgrade
 * is noticed within it; unchanged bytes are not compiled again.
 */
import { LRUCache } from 'lru-cache';
import { ownBytes, type CachedResponse } from '../../cache/entry.ts';
import { compileModule, type CompiledModule } from '../../encode/abi.ts';
import type { LoadModule } from '../../encode/load-layout.ts';
import type { Address } from '../../ledger/address.ts';
import { GatewayError } from '../../ledger/errors.ts';
import { FairFlights, type FlightTurn } from './fair-flights.ts';
import { moduleRead } from './parse-read.ts';
import type { Reader } from '../reads/reader.ts';

export interface ModuleSourceOptions {
  /**
   * An upgraded module is noticed within this time; half-way through it is read again in the background.
   * Default 1000.
   */
  readonly maxAgeMs?: number;
  /** Monotonic, in milliseconds. */
  readonly now?: () => number;
}

/** Compiled modules may take this much memory, where a module takes about three times its answer (6 to 60 kB). */
export const moduleBytes = 96 * 1024 * 1024;
/** The fleet's own deadline is shorter; this only keeps a read from being endless. */
const maxWaitMs = 30_000;

interface LoadedModule {
  readonly body: Buffer;
  /** Kept as the promise that is handed out, so that a module at hand costs no new one. `undefined`: there is none. */
  readonly module: Promise<CompiledModule | undefined>;
  readonly readAtMs: number;
  /** Its place among all reads, in the order in which they began: 1 is the first. */
  readonly order: number;
}

export class ModuleSource {
  readonly #reader: Reader;
  readonly #maxAgeMs: number;
  readonly #now: () => number;
  readonly #loaded = new LRUCache<string, LoadedModule>({
    maxSize: moduleBytes,
    sizeCalculation: ({ body }) => 1_000 + 3 * body.length,
  });
  readonly #reads = new FairFlights<LoadedModule>();
  #readsBegun = 0;

  constructor(reader: Reader, options: ModuleSourceOptions = {}) {
    const { maxAgeMs = 1_000, now = () => performance.now() } = options;
    this.#reader = reader;
    this.#maxAgeMs = maxAgeMs;
    this.#now = now;
  }

  /**
   * `LoadModule` for one request of `client` that begins now: fresh is what was read since. Rejects with `GatewayError`
   * when no node gives an answer.
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

  /** `LoadModule` for ABIs at `version`. Rejects with `GatewayError` when no node gives an answer. */
  loaderAt(version: bigint, client: string): LoadModule {
    return async (address, name) => {
      const read = moduleRead({ address, name }, { target: `?ledger_version=${version}`, accept: undefined });
      const caller = { signal: AbortSignal.timeout(maxWaitMs), client };
      const { entry } = this.#reader.find(read) ?? (await this.#reader.load(read, caller));
      return compile(entry);
    };
  }

  /** A module of a ledger that went back, or of the chain before, is never used again. */
  #keyOf(address: Address, name: string): string {
    return `${this.#reader.generation} ${address}::${name}`;
  }

  #load(key: string, read: () => Promise<LoadedModule>): Promise<CompiledModule | undefined> {
    const loaded = this.#loaded.get(key);
    const ageMs = loaded === undefined ? Infinity : this.#now() - loaded.readAtMs;
    if (loaded === undefined || ageMs >= this.#maxAgeMs) return read().then(({ module }) => module);
    // The next request may wait for it, and then its failure counts; this one has what it needs.
    if (ageMs > this.#maxAgeMs / 2 && !this.#reads.has(key)) read().catch(() => undefined);
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
    const before = this.#loaded.peek(key);
    const module = before?.body.equals(body) === true ? before.module : Promise.resolve(compile(entry));
    const loaded = { body, module, readAtMs, order };
    // Clients read at the same time: what was asked for later is newer.
    if (before === undefined || before.order < order) this.#loaded.set(key, loaded);
    return loaded;
  }
}

/** Throws unless the answer says what the module is, or, in a node's own words, that there is none. */
function compile({ status, body }: CachedResponse): CompiledModule | undefined {
  if (status === 200) return compileModule(body.toString());
  if (status === 404 && body.includes('"module_not_found"')) return undefined;
  throw new GatewayError('unavailable', 'the module cannot be read now');
}
