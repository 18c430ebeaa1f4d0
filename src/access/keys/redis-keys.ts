/**
 * Keys in Redis, polled every two seconds, and read at once when a replica reports a change. While Redis is down, the last
 * keys stay in force.
 */
import { setImmediate } from 'node:timers/promises';
import { type AccessRedis, type RedisClient, runScript, type Script, script } from '../redis.ts';
import { findKey, type KeysContext } from './file-keys.ts';
import { type FieldChanges, type KeysChange, KeysFault, type KeySource, type NewKeyFields } from './key-source.ts';
import type { KeyRecord } from './principals.ts';

const pollMs = 2_000;
/** A larger hash is refused: it is no hash of keys. */
const mostKeys = 100_000;
/** The field of an empty set of keys, which Redis could not distinguish from a lost hash. */
const emptyMark = 'none';
/** Keys parsed between two turns of the event loop: some milliseconds. */
const parsedAtOnce = 500;

const mostReported = 20;
/** Changes of one key by other writers, in a row. */
const mostTries = 5;
const unknownKey = 'Redis has no key of this name';

interface Field {
  readonly text: string;
  readonly record: KeyRecord | undefined;
}

/** The hash cannot be one of keys; the message is for the log. */
class WrongHashError extends Error {}

// Each change is one script: no other writer is in between, and it reaches all replicas or none. It publishes the SHA-256 of
// the changed key. KEYS: the hash of keys, and the hash of their names, which has the SHA-256 of each key that the gateway
// made. A user without the right to publish changes keys, too: replicas read them at their next poll.

/** Answers of the scripts. `lost`: the hash of keys has disappeared, and a new one would revoke all others. */
type KeysScriptAnswer = 'done' | 'exists' | 'full' | 'lost' | 'changed';

/** ARGV: channel, SHA-256, record, name, most keys, 1: keys are known here. */
const additionScript = script(`
if ARGV[6] == '1' and redis.call('HLEN', KEYS[1]) == 0 then return 'lost' end
local taken = redis.call('HGET', KEYS[2], ARGV[4])
if taken and redis.call('HGET', KEYS[1], taken) then return 'exists' end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[5]) then return 'full' end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('HSET', KEYS[2], ARGV[4], ARGV[2])
redis.pcall('PUBLISH', ARGV[1], ARGV[2])
return 'done'`);

/** ARGV: channel, SHA-256, record before, record after. */
const changeScript = script(`
if redis.call('HGET', KEYS[1], ARGV[2]) ~= ARGV[3] then return 'changed' end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[4])
redis.pcall('PUBLISH', ARGV[1], ARGV[2])
return 'done'`);

/** ARGV: channel, SHA-256, name, the field of an empty hash, which a lost one lacks. */
const removalScript = script(`
if redis.call('HLEN', KEYS[1]) == 0 then return 'lost' end
redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('HDEL', KEYS[2], ARGV[3])
if redis.call('HLEN', KEYS[1]) == 0 then redis.call('HSET', KEYS[1], ARGV[4], '') end
redis.pcall('PUBLISH', ARGV[1], ARGV[2])
return 'done'`);

/** The keys of the hash `{keyPrefix}:access:keys`: field = SHA-256, value = the key as JSON. */
export class RedisKeys implements KeySource {
  /** Resolves after the first poll. */
  readonly started: Promise<void>;
  readonly #context: KeysContext;
  readonly #redis: AccessRedis;
  readonly #client: RedisClient;
  readonly #subscription: { disconnect(): void };
  readonly #name: string;
  readonly #names: string;
  readonly #channel: string;
  /** By SHA-256; `undefined` before the first poll. */
  #fields: Map<string, Field> | undefined;
  #poll: Promise<void> | undefined;
  /** Fields that were read alone after all were asked for: they are newer. */
  #newer: Map<string, Field | undefined> | undefined;
  #isAway = false;
  #isClosed = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(redis: AccessRedis, context: KeysContext) {
    this.#redis = redis;
    this.#context = context;
    this.#name = `${redis.keyPrefix}:access:keys`;
    // In the slot of the hash of keys (Redis Cluster specification, hash tags).
    this.#names = `${redis.keyPrefix}:access:names:{${this.#name}}`;
    this.#channel = `${this.#name}:changed`;
    const connected = Promise.withResolvers<void>();
    this.#client = redis.connect(() => connected.resolve());
    this.#client.once('ready', () => connected.resolve());
    this.started = connected.promise.then(() => this.readAll());
    this.#subscription = redis.subscribe(this.#channel, {
      // Messages may have been lost. The other connection may not be ready yet: that is no failure.
      onBegin: () => void connected.promise.then(() => this.readAll()),
      onMessage: (sha256) => void this.readKey(sha256),
    });
  }

  named(name: string): readonly KeyRecord[] {
    return this.#fieldsOf(name).flatMap(([, { record }]) => record ?? []);
  }

  get found(): KeySource['found'] {
    const fields = [...(this.#fields ?? [])];
    const wrong = fields.filter(([, { record }]) => record === undefined);
    return {
      keys: fields.flatMap(([, { record }]) => record ?? []),
      problems: wrong.slice(0, mostReported).map(([name]) => `Redis: the key ${name.slice(0, 8)}... is invalid`),
    };
  }

  async add({ sha256, ...fields }: NewKeyFields): Promise<readonly KeysChange[]> {
    if (this.#fields === undefined) throw notRead();
    const isKnown = this.#fields.size > 0 ? '1' : '0';
    const args = [sha256, JSON.stringify(fields), fields.name, String(mostKeys), isKnown];
    const answer = await this.#run(additionScript, args);
    if (answer === 'exists') throw new KeysFault('exists', `Redis has a key named ${fields.name} already`);
    if (answer === 'full') throw new KeysFault('conflict', `Redis has ${mostKeys} keys, the limit`);
    await this.readKey(sha256);
    return [{ sha256 }];
  }

  async change(name: string, changes: FieldChanges): Promise<readonly KeysChange[]> {
    for (let tries = 0; tries < mostTries; tries += 1) {
      const [[sha256, before] = [], another] = await this.#find(name);
      if (another !== undefined) throw new KeysFault('conflict', `Redis has several keys named ${name}`);
      if (sha256 === undefined || before === undefined) throw new KeysFault('unknown', unknownKey);
      const merged = { ...(JSON.parse(before.text) as object), ...changes };
      const after = JSON.stringify(merged, (_field, value: unknown) => value ?? undefined);
      if (findKey(sha256, after) === undefined) throw new KeysFault('invalid', 'the changed key is invalid');
      const answer = await this.#run(changeScript, [sha256, before.text, after]);
      await this.readKey(sha256);
      if (answer === 'done') return [{ sha256 }];
    }
    throw new KeysFault('unavailable', `other writers change the key ${name}: try again`);
  }

  async remove(name: string): Promise<readonly KeysChange[]> {
    const found = await this.#find(name);
    if (found.length === 0) throw new KeysFault('unknown', unknownKey);
    for (const [sha256] of found) {
      await this.#run(removalScript, [sha256, name, emptyMark]);
      await this.readKey(sha256);
    }
    return found.map(([sha256]) => ({ sha256 }));
  }

  /** Reads one key at once. Never rejects: the next poll has it. */
  async readKey(sha256: string): Promise<void> {
    if (!/^[\da-f]{64}$/.test(sha256)) return;
    const newer = this.#newer;
    const text = await this.#client.hget(this.#name, sha256).catch(() => undefined);
    if (text === undefined || this.#isClosed) return;
    const known = this.#fields?.get(sha256);
    const field = text === null ? undefined : known?.text === text ? known : { text, record: findKey(sha256, text) };
    newer?.set(sha256, field);
    // Before the first poll, it will have the key.
    if (this.#fields === undefined || field === known) return;
    setField(this.#fields, sha256, field);
    const { principals, metrics, journal } = this.#context;
    principals.setKey('redis', sha256, field?.record);
    const isWrong = field !== undefined && !principals.plans.has(field.record?.plan ?? '');
    metrics.reloaded('redis', isWrong ? 'failed' : 'ok');
    journal.record('keys read', { keys: principals.size }, 'a key was read from Redis');
  }

  /** Reads all keys at once, or joins the poll in flight. Never rejects. */
  readAll(): Promise<void> {
    if (this.#poll !== undefined || this.#isClosed) return this.#poll ?? Promise.resolve();
    clearTimeout(this.#timer);
    this.#poll = this.#readAll().finally(() => {
      this.#poll = undefined;
      this.#newer = undefined;
      if (!this.#isClosed) this.#timer = setTimeout(() => void this.readAll(), pollMs).unref();
    });
    return this.#poll;
  }

  reapplyPlans(): void {
    if (this.#fields !== undefined && this.#fields.size > 0) this.#take(this.#fields);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#subscription.disconnect();
    this.#client.disconnect();
  }

  async #readAll(): Promise<void> {
    try {
      const { [emptyMark]: _, ...texts } = await this.#read();
      this.#report(undefined);
      const fields = await this.#parse(texts);
      for (const [sha256, field] of this.#newer ?? []) setField(fields, sha256, field);
      if (fields !== this.#fields && !this.#isClosed) this.#take((this.#fields = fields));
    } catch (error) {
      this.#report(this.#reasonOf(error));
    }
  }

  /** Fields of valid keys of the name, read again where none is known. Rejects with `KeysFault` while no key is known. */
  async #find(name: string): Promise<readonly (readonly [sha256: string, field: Field])[]> {
    const known = this.#fieldsOf(name);
    if (known.length > 0) return known;
    await this.readAll();
    if (this.#isAway || this.#fields === undefined) throw notRead();
    return this.#fieldsOf(name);
  }

  #fieldsOf(name: string): readonly (readonly [sha256: string, field: Field])[] {
    const found: (readonly [string, Field])[] = [];
    for (const entry of this.#fields ?? []) if (entry[1].record?.name === name) found.push(entry);
    return found;
  }

  /** Rejects with `KeysFault`, also when it is not known whether the script ran. */
  async #run(script: Script, args: readonly string[]): Promise<KeysScriptAnswer> {
    let answer: KeysScriptAnswer;
    try {
      const keys = [this.#name, this.#names];
      answer = (await runScript(this.#client, script, keys, [this.#channel, ...args])) as KeysScriptAnswer;
    } catch (error) {
      // The change may have been made.
      void this.readAll();
      throw new KeysFault('unavailable', `Redis did not confirm the change: ${this.#reasonOf(error)}`);
    }
    if (answer === 'lost') throw new KeysFault('unavailable', `${this.#name} has disappeared from Redis: restore it`);
    return answer;
  }

  /** Does not wait: commands fail without a connection, and a silent connection is replaced. */
  async #read(): Promise<Readonly<Record<string, string>>> {
    const count = await this.#client.hlen(this.#name);
    if (count > mostKeys) throw new WrongHashError(`${count} keys exceed the limit of ${mostKeys}`);
    // Redis answers a connection in order.
    this.#newer = new Map();
    const texts = await this.#client.hgetall(this.#name);
    // Evicted, or lost in a restart: an operator leaves `emptyMark` behind.
    if (Object.keys(texts).length === 0 && this.#fields !== undefined && this.#fields.size > 0)
      throw new WrongHashError(`${this.#name} has disappeared`);
    return texts;
  }

  /** Parses changed texts only; the same map when none has changed. */
  async #parse(texts: Readonly<Record<string, string>>): Promise<Map<string, Field>> {
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

function notRead(): KeysFault {
  return new KeysFault('unavailable', 'the keys in Redis cannot be read: try again');
}

function setField(fields: Map<string, Field>, sha256: string, field: Field | undefined): void {
  if (field === undefined) fields.delete(sha256);
  else fields.set(sha256, field);
}
