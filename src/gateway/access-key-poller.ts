/** Keys in Redis: read every two seconds. While they cannot be read, those that were read last stay in force. */
import { setImmediate } from 'node:timers/promises';
import type { KeyRecord } from '../access/keys/key-set.ts';
import type { Principals } from '../access/keys/principals.ts';
import { connectRedis } from '../cache/redis/redis-client.ts';
import type { RedisConfig } from '../config/config.ts';
import { findKey } from '../config/keys-file.ts';
import type { AccessMetrics } from '../metrics/access-metrics.ts';
import type { Journal } from '../proxy/operations/status/events.ts';

/** Parts that keys of every source are given to and reported by. */
export interface KeysContext {
  readonly principals: Principals;
  /** Names of plans, now. */
  readonly plans: () => ReadonlySet<string>;
  readonly metrics: AccessMetrics;
  readonly journal: Journal;
}

const pollMs = 2_000;
/** A larger hash is not read: it holds something else. */
const mostKeys = 100_000;
/** A field that is no key: a hash that holds nothing else says that there are none. */
const emptyMark = 'none';
/** Keys are parsed so many at a time, some milliseconds, with requests in between. */
const parsedAtOnce = 500;

/** A field, and its key, if it is one. */
interface Field {
  readonly text: string;
  readonly record: KeyRecord | undefined;
}

/** The keys of the hash `{keyPrefix}:access:keys`: field = SHA-256, value = the key as JSON. */
export class AccessKeyPoller {
  /** Resolves when they have been read, or could not be. */
  readonly started: Promise<void>;
  readonly #context: KeysContext;
  readonly #client: ReturnType<typeof connectRedis>;
  readonly #name: string;
  /** By hash; `undefined` before the first reading. */
  #fields: ReadonlyMap<string, Field> | undefined;
  #isAway = false;
  #isClosed = false;
  #timer: NodeJS.Timeout | undefined;

  constructor({ target, keyPrefix }: RedisConfig, context: KeysContext) {
    this.#context = context;
    this.#name = `${keyPrefix}:access:keys`;
    const connected = Promise.withResolvers<void>();
    this.#client = connectRedis(target, () => connected.resolve());
    this.#client.once('ready', () => connected.resolve());
    this.started = connected.promise.then(() => this.#poll());
  }

  /** The plans are others. */
  reapplyPlans(): void {
    if (this.#fields !== undefined && this.#fields.size > 0) this.#take(this.#fields);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#client.disconnect();
  }

  async #poll(): Promise<void> {
    try {
      const { [emptyMark]: _, ...texts } = await this.#read();
      this.#report(undefined);
      const fields = await this.#parse(texts);
      if (fields !== this.#fields && !this.#isClosed) this.#take((this.#fields = fields));
    } catch (error) {
      this.#report(error instanceof Error ? error.message : String(error));
    }
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => void this.#poll(), pollMs);
    this.#timer.unref();
  }

  /** Commands fail at once without a connection, and a silent one is replaced: neither waits for long. */
  async #read(): Promise<Readonly<Record<string, string>>> {
    const count = await this.#client.hlen(this.#name);
    if (count > mostKeys) throw new Error(`${count} keys are more than ${mostKeys}`);
    const texts = await this.#client.hgetall(this.#name);
    // Evicted, or lost with a restart: nobody takes out the keys of all in this way.
    if (Object.keys(texts).length === 0 && this.#fields !== undefined && this.#fields.size > 0)
      throw new Error(`there is no ${this.#name} any more`);
    return texts;
  }

  /** The same map where no text has changed; a text that has not is not parsed again. */
  async #parse(texts: Readonly<Record<string, string>>): Promise<ReadonlyMap<string, Field>> {
    const fields = new Map<string, Field>();
    let parsed = 0;
    for (const [sha256, text] of Object.entries(texts)) {
      const known = this.#fields?.get(sha256);
      if (known?.text === text) {
        fields.set(sha256, known);
        continue;
      }
      fields.set(sha256, { text, record: findKey(sha256, text) });
      parsed += 1;
      if (parsed % parsedAtOnce === 0) await setImmediate();
    }
    return parsed === 0 && this.#fields?.size === fields.size ? this.#fields : fields;
  }

  /** Keys of a plan that is not there yet are kept: a later config may have it. */
  #take(fields: ReadonlyMap<string, Field>): void {
    const { principals, plans, metrics, journal } = this.#context;
    const records = [...fields.values()].flatMap(({ record }) => record ?? []);
    principals.setKeys('redis', records);
    const wrong = fields.size - records.filter(({ plan }) => plans().has(plan)).length;
    metrics.reloaded('redis', wrong === 0 ? 'ok' : 'failed');
    if (wrong > 0) {
      const why = { name: this.#name, wrong };
      journal.tell('keys refused', why, 'keys in Redis are not well-formed, or of no plan: they are left out');
    }
    journal.tell('keys read', { keys: principals.size }, 'keys were read from Redis');
  }

  /** Once per change. `reason`: why they cannot be read, `undefined` when they can. */
  #report(reason: string | undefined): void {
    const isAway = reason !== undefined;
    if (isAway === this.#isAway || this.#isClosed) return;
    this.#isAway = isAway;
    const { metrics, journal } = this.#context;
    if (isAway) {
      metrics.reloaded('redis', 'failed');
      journal.tell('keys away', { reason }, 'keys in Redis cannot be read: those that were read before stay in force');
    } else journal.tell('keys read', {}, 'keys in Redis can be read again');
  }
}
