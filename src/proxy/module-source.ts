/**
 * Modules at head, compiled for the encoder. A module is read again when it is older than a bound, so that an upgrade
 * is noticed within it; unchanged bytes are not compiled again.
 */
import { performance } from 'node:perf_hooks';
import { LRUCache } from 'lru-cache';
import { Coalescer } from '../cache/coalesce.ts';
import type { CacheKey } from '../cache/key.ts';
import { compileModule, type CompiledModule } from '../encode/abi.ts';
import type { LoadModule } from '../encode/load-layout.ts';
import type { Address } from '../ledger/address.ts';
import { GatewayError } from '../ledger/errors.ts';
import { moduleRead } from './module.ts';
import type { Reader } from './read.ts';

/** An upgraded module is noticed within this time; half-way through it is read again in the background. */
const maxAgeMs = 1_000;
/** Bound of compiled modules; real ones are at most about 60 kB, of which half is ABI. */
const maxModules = 2_000;

interface Held {
  readonly body: Buffer;
  readonly compiled: CompiledModule | undefined;
  readonly readAtMs: number;
}

export class ModuleSource {
  readonly #reader: Reader;
  readonly #held = new LRUCache<string, Held>({ max: maxModules });
  readonly #reads = new Coalescer<Held>();

  constructor(reader: Reader) {
    this.#reader = reader;
  }

  /** `LoadModule` for the encoder. Rejects with `GatewayError` when no node gives an answer. */
  readonly load: LoadModule = (address, name, options) => {
    const key = `${address}::${name}`;
    const held = options?.fresh === true ? undefined : this.#held.get(key);
    const ageMs = held === undefined ? Infinity : performance.now() - held.readAtMs;
    if (held === undefined || ageMs > maxAgeMs) return this.#read(key, address, name).then(({ compiled }) => compiled);
    // The next request may wait for it and hear of a failure; this one has what it needs.
    if (ageMs > maxAgeMs / 2) void this.#read(key, address, name).catch(() => undefined);
    return Promise.resolve(held.compiled);
  };

  async #read(key: string, address: Address, name: string): Promise<Held> {
    const flight = await this.#reads.run(key as CacheKey, AbortSignal.timeout(maxWaitMs), async (signal) => {
      const startedMs = performance.now();
      const read = moduleRead({ address, name }, { target: '', accept: undefined });
      const { entry } = await this.#reader.ask(read, signal);
      if (entry.status !== 200 && entry.status !== 404) {
        throw new GatewayError('unavailable', 'the module cannot be read now');
      }
      const before = this.#held.get(key);
      const compiled = before?.body.equals(entry.body) === true ? before.compiled : compile(entry.status, entry.body);
      const held = { body: entry.body, compiled, readAtMs: startedMs };
      this.#held.set(key, held);
      return held;
    });
    return flight.value;
  }
}

function compile(status: number, body: Buffer): CompiledModule | undefined {
  return status === 404 ? undefined : compileModule(body.toString());
}

/** The fleet's own deadline is shorter; this only keeps a wait from being endless. */
const maxWaitMs = 30_000;
