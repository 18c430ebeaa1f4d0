/** Keys in Redis, polled every two seconds. While Redis is down, the last keys stay in force. */
import { setImmediate } from 'node:timers/promises';
import type { AccessRedis, KeysClient } from '../redis.ts';
import { findKey, type KeysContext } from './file-keys.ts';
import type { KeyRecord } from './principals.ts';

const pollMs = 2_000;
/** A larger hash is refused: it is no hash of keys. */
const mostKeys = 100_000;
/** The field of an empty set of keys, which Redis could not distinguish from a lost hash. */
const emptyMark = 'none';
/** Keys parsed between two turns of the event loop: some milliseconds. */
const parsedAtOnce = 500;

/** A field; `record` is `undefined` for an invalid key. */
interface Field {
  readonly text: string;
  readonly record: KeyRecord | undefined;
}

/** The hash cannot be one of keys; the message is for the log. */
class WrongHashError extends Error {}

/** The keys of the hash `{keyPrefix}:access:keys`: field = SHA-256, value = the key as JSON. */
export class RedisKeys {
  /** Resolves after the first poll. */
  readonly started: Promise<void>;
  readonly #context: KeysContext;
  readonly #redis: AccessRedis;
  readonly #client: KeysClient;
  readonly #name: string;
  /** By SHA-256; `undefined` before the first poll. */
  #fields: ReadonlyMap<string, Field> | undefined;
  #isAway = false;
  #isClosed = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(redis: AccessRedis, context: KeysContext) {
    this.#redis = redis;
    this.#context = context;
    this.#name = `${redis.keyPrefix}:access:keys`;
    const connected = Promise.withResolvers<void>();
    this.#client = redis.connect(() => connected.resolve());
    this.#client.once('ready', () => connected.resolve());
    this.started = connected.promise.then(() => this.#poll());
  }

  /** Checks the keys against new plans. */
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
      this.#report(this.#reasonOf(error));
    }
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => void this.#poll(), pollMs).unref();
  }

  /** Does not wait: commands fail without a connection, and a silent connection is replaced. */
  async #read(): Promise<Readonly<Record<string, string>>> {
    const count = await this.#client.hlen(this.#name);
    if (count > mostKeys) throw new WrongHashError(`${count} keys exceed the limit of ${mostKeys}`);
    const texts = await this.#client.hgetall(this.#name);
    // Evicted, or lost in a restart: an operator leaves `emptyMark` behind.
    if (Object.keys(texts).length === 0 && this.#fields !== undefined && this.#fields.size > 0)
      throw new WrongHashError(`${this.#name} has disappeared`);
    return texts;
  }

  /** Parses changed texts only; the same map when none has changed. */
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

  /** Keeps keys of unknown plans: a later config may add the plan. */
  #take(fields: ReadonlyMap<string, Field>): void {
    const { principals, metrics, journal } = this.#context;
    const records = [...fields.values()].flatMap(({ record }) => record ?? []);
    principals.setKeys('redis', records);
    const wrong = fields.size - records.filter(({ plan }) => principals.plans.has(plan)).length;
    metrics.reloaded('redis', wrong === 0 ? 'ok' : 'failed');
    if (wrong > 0) {
      const why = { name: this.#name, wrong };
      journal.record('keys refused', why, 'keys in Redis are invalid or have no plan: these keys are refused');
    }
    journal.record('keys read', { keys: principals.size }, 'keys reloaded from Redis');
  }

  #reasonOf(error: unknown): string {
    if (error instanceof WrongHashError) return error.message;
    if (!(error instanceof Error)) return String(error);
    return this.#redis.reasonOf(error);
  }

  /** Logs changes of the state. `reason`: of a failed poll, otherwise `undefined`. */
  #report(reason: string | undefined): void {
    const isAway = reason !== undefined;
    if (isAway === this.#isAway || this.#isClosed) return;
    this.#isAway = isAway;
    const { metrics, journal } = this.#context;
    if (isAway) {
      metrics.reloaded('redis', 'failed');
      journal.record('keys away', { reason }, 'keys in Redis are unreadable: the keys in force stay');
    } else journal.record('keys read', {}, 'keys in Redis are readable again');
  }
}
