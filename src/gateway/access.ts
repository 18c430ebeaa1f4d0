/** Builds who may ask and how much: keys from file and Redis, and their limits. */
import { setImmediate } from 'node:timers/promises';
import { KeyPoll } from '../access/key-poll.ts';
import type { KeyRecord } from '../access/key-set.ts';
import type { Plan } from '../access/principal.ts';
import { Principals, type AccessRules, type KeySource } from '../access/principals.ts';
import type { Limits } from '../access/ticket.ts';
import type { Usage } from '../access/usage.ts';
import { connectRedis } from '../cache/redis-client.ts';
import type { AccessConfig, PlanConfig, RedisConfig } from '../config/config.ts';
import { findKey, keysFileWarnings, parseKeysFile, type FileKey } from '../config/keys-file.ts';
import { ConfigError } from '../config/problem.ts';
import { digestOf, FileWatch, readText } from '../config/text-file.ts';
import { createAccessMetrics, type AccessMetrics } from '../metrics/access-metrics.ts';
import type { Journal } from '../status/events.ts';
import { createLimits, type LimitsParts } from './limits.ts';
import type { PeerWorkers } from './peer-workers.ts';
import type { StatusSource } from './status.ts';

export interface AccessContext extends Omit<LimitsParts, 'desk' | 'plans' | 'journal'> {
  readonly status: StatusSource;
  /** Who counts requests. Default: as the config says. */
  readonly limits: Limits | undefined;
  /** The other workers of this gateway. */
  readonly peers: Pick<PeerWorkers, 'desk' | 'lastKeys' | 'publishKeys'> | undefined;
}

export interface AccessParts {
  readonly principals: Principals;
  readonly limits: Limits;
  readonly usage: Usage;
  readonly metrics: AccessMetrics;
  /** Resolves when keys in Redis have been read, or could not be. */
  readonly started: Promise<void>;
  /** Throws ConfigError where keys of the file, which would be refused from then on, are of plans that are gone. */
  check(config: AccessConfig): void;
  /** Takes plans, costs, addresses and the header; where keys are needs a restart. Throws as `check` does. */
  update(config: AccessConfig): void;
  close(): Promise<void>;
}

/** Reads the file of keys at once. Throws ConfigError when that cannot be done, and no other process has read it before. */
export function buildAccess(config: AccessConfig, context: AccessContext): AccessParts {
  const { redis, registry, status, peers } = context;
  const { journal } = status;
  const rules = rulesOf(config);
  let plans: ReadonlySet<string> = new Set(rules.plans.keys());
  const built = createLimits(config, { ...context, desk: peers?.desk, journal, plans: () => plans });
  const { file } = config.keys;
  const store = config.keys.redis ? redis : undefined;
  const sources: KeySource[] = [...(file === undefined ? [] : ['file' as const]), ...(store ? ['redis' as const] : [])];
  const principals = new Principals(rules, sources);
  const metrics = createAccessMetrics(registry, () => ({ keys: principals.size, plans }));
  const keys = { principals, plans: () => plans, metrics, journal, peers };
  const watched = file === undefined ? undefined : watchKeys(file, keys);
  const polled = store === undefined ? undefined : pollKeys(store, keys);
  return {
    principals,
    limits: context.limits ?? built.limits,
    usage: built.usage,
    metrics,
    started: Promise.all([polled?.started, built.started]).then(() => undefined),
    check(next) {
      watched?.check(new Set(Object.keys(next.plans)));
    },
    update(next) {
      const changed = rulesOf(next);
      const known = new Set(changed.plans.keys());
      watched?.check(known);
      plans = known;
      principals.setRules(changed);
      watched?.again();
      polled?.again();
      built.update(next);
    },
    async close() {
      watched?.close();
      polled?.close();
      context.limits?.close();
      await built.close();
    },
  };
}

interface KeysContext {
  readonly principals: Principals;
  /** Names of plans, now. */
  readonly plans: () => ReadonlySet<string>;
  readonly metrics: AccessMetrics;
  readonly journal: Journal;
  readonly peers: AccessContext['peers'];
}

/** The keys of a text of the file. */
interface FileKeys {
  readonly text: string;
  readonly keys: readonly FileKey[];
}

/** A file that is wrong, or gone, changes nothing: keys that were in force stay so. */
function watchKeys(file: string, { principals, plans, metrics, journal, peers }: KeysContext) {
  let inForce: FileKeys | undefined;
  /** Throws ConfigError. The text in force is not parsed again: no request is answered meanwhile. */
  const parse = (text: string, known = plans()): FileKeys => {
    const isFit = inForce?.text === text && inForce.keys.every(({ plan }) => known.has(plan));
    return inForce !== undefined && isFit ? inForce : { text, keys: parseKeysFile(text, file, known) };
  };
  /** Of the file as it is now; `undefined` where it cannot be used with these plans. */
  const findFit = (known = plans()): FileKeys | undefined => {
    try {
      return parse(readText(file), known);
    } catch (error) {
      if (error instanceof ConfigError) return undefined;
      throw error;
    }
  };
  const putInForce = (next: FileKeys): void => {
    principals.setKeys('file', next.keys);
    inForce = next;
    peers?.publishKeys(next.text);
  };
  const take = (next: FileKeys): void => {
    putInForce(next);
    metrics.reloaded('file', 'ok');
    const [warning] = keysFileWarnings(file, next.keys);
    journal.tell('keys read', { file, keys: principals.size, warning }, 'the file of keys was read again');
  };
  const keep = (problems: readonly string[]): void => {
    metrics.reloaded('file', 'failed');
    const why = { file, problems };
    journal.tell('keys refused', why, 'the file of keys cannot be used: the keys that were read before stay in force');
  };
  const read = (): void => {
    try {
      take(parse(readText(file)));
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      keep(error.message.split('\n'));
    }
  };
  // A worker in the place of another takes the keys that the others have while the file is wrong or gone.
  const digest = digestOf(file);
  const fit = findFit();
  putInForce(fit ?? parse(peers?.lastKeys ?? readText(file)));
  const watched = new FileWatch([file], {
    // A file that cannot be used is reported as a change.
    digest: fit && digest,
    onChange: read,
    onMissing: read,
  });
  return {
    /** Throws ConfigError where neither the file as it is now nor the text in force can be used with these plans. */
    check(known: ReadonlySet<string>): void {
      if (findFit(known) === undefined) parse(inForce?.text ?? '', known);
    },
    /** The plans are others: a file that named one which was not there yet is no longer wrong. */
    again(): void {
      const next = findFit();
      if (next !== undefined && next !== inForce) take(next);
    },
    close: () => watched.close(),
  };
}

/** More are not read: somebody has put something else there. */
const mostKeysInRedis = 100_000;
/** A field that is no key: a hash that holds nothing else says that there are none. */
const emptyMark = 'none';

/** A field, and the key that it is, if it is one. */
interface Found {
  readonly text: string;
  readonly record: KeyRecord | undefined;
}

function pollKeys({ target, keyPrefix }: RedisConfig, { principals, plans, metrics, journal }: KeysContext) {
  const connected = Promise.withResolvers<void>();
  const client = connectRedis(target, () => connected.resolve());
  client.once('ready', () => connected.resolve());
  const name = `${keyPrefix}:access:keys`;
  let isKnown = false;
  /** By hash. */
  let found: ReadonlyMap<string, Found> = new Map();
  // Commands fail at once without a connection, and a silent one is replaced: neither waits for long.
  const read = async (): Promise<Readonly<Record<string, string>>> => {
    const count = await client.hlen(name);
    if (count > mostKeysInRedis) throw new Error(`${count} keys are more than ${mostKeysInRedis}`);
    const fields = await client.hgetall(name);
    // Evicted, or lost with a restart: nobody takes out the keys of all in this way.
    if (isKnown && Object.keys(fields).length === 0) throw new Error(`there is no ${name} any more`);
    return fields;
  };
  /** Those of a plan that is not there yet are kept: a later config may have it. */
  const take = (): void => {
    const records = [...found.values()].flatMap(({ record }) => record ?? []);
    principals.setKeys('redis', records);
    const wrong = found.size - records.filter(({ plan }) => plans().has(plan)).length;
    metrics.reloaded('redis', wrong === 0 ? 'ok' : 'failed');
    if (wrong > 0) {
      const why = { name, wrong };
      journal.tell('keys refused', why, 'keys in Redis are not well-formed, or of no plan: they are left out');
    }
    journal.tell('keys read', { keys: principals.size }, 'keys were read from Redis');
  };
  const poll = new KeyPoll(
    { read },
    {
      onKeys: async ({ [emptyMark]: _, ...fields }) => {
        found = await findAll(fields, found);
        isKnown = found.size > 0;
        take();
      },
      onTrouble: (isOn, reason) => {
        if (isOn) {
          metrics.reloaded('redis', 'failed');
          const why = { reason };
          journal.tell('keys away', why, 'keys in Redis cannot be read: those that were read before stay in force');
        } else journal.tell('keys read', {}, 'keys in Redis can be read again');
      },
    },
  );
  return {
    started: connected.promise.then(() => poll.start()),
    /** The plans are others. */
    again: () => {
      if (found.size > 0) take();
    },
    close: () => {
      poll.close();
      client.disconnect();
    },
  };
}

/** Those whose text is the same as before are not parsed again, and requests are answered in between. */
async function findAll(
  fields: Readonly<Record<string, string>>,
  before: ReadonlyMap<string, Found>,
): Promise<ReadonlyMap<string, Found>> {
  const found = new Map<string, Found>();
  let parsed = 0;
  for (const [sha256, text] of Object.entries(fields)) {
    const known = before.get(sha256);
    if (known?.text === text) {
      found.set(sha256, known);
      continue;
    }
    found.set(sha256, { text, record: findKey(sha256, text) });
    parsed += 1;
    if (parsed % parsedAtOnce === 0) await setImmediate();
  }
  return found;
}

/** Some milliseconds. */
const parsedAtOnce = 500;

/** What the config says, in the words of `access/`. */
export function rulesOf({ header, plans: given, anonymous, trustedProxies }: AccessConfig): AccessRules {
  const plans = new Map(Object.entries(given).map(([name, plan]) => [name, planOf(name, plan)]));
  return { header, plans, anonymous: anonymous === undefined ? undefined : plans.get(anonymous), trustedProxies };
}

function planOf(name: string, { operations, origins, ...bounds }: PlanConfig): Plan {
  return { name, ...bounds, operations: new Set(operations), origins: origins && new Set(origins) };
}
