/** Builds who may ask and how much: keys from file and Redis, and their limits. */
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { KeyPoll } from '../access/key-poll.ts';
import type { Plan } from '../access/principal.ts';
import { Principals, type AccessRules, type KeySource } from '../access/principals.ts';
import type { Desk } from '../access/limits-remote.ts';
import type { Limits } from '../access/ticket.ts';
import type { Usage } from '../access/usage.ts';
import { connectRedis } from '../cache/redis-client.ts';
import type { AccessConfig, PlanConfig, RedisConfig } from '../config/config.ts';
import { findKey, parseKeysFile } from '../config/keys-file.ts';
import { ConfigError } from '../config/problem.ts';
import { readText } from '../config/read-text.ts';
import { createAccessMetrics, type AccessMetrics } from '../metrics/access-metrics.ts';
import { createLimits } from './limits.ts';
import { WatchedFile } from './watched-file.ts';

export interface AccessContext {
  readonly redis: RedisConfig | undefined;
  readonly registry: Registry;
  readonly log: Logger;
  /** Default: as the config says. */
  readonly limits: Limits | undefined;
  readonly processes: number;
  readonly desk: Desk | undefined;
}

export interface AccessParts {
  readonly principals: Principals;
  readonly limits: Limits;
  readonly usage: Usage;
  readonly metrics: AccessMetrics;
  /** Resolves when keys in Redis have been read, or could not be. */
  readonly started: Promise<void>;
  /** Takes plans, costs, addresses and the header; where keys are needs a restart. */
  update(config: AccessConfig): void;
  close(): Promise<void>;
}

/** Reads the file of keys at once. Throws ConfigError when that cannot be done. */
export function buildAccess(config: AccessConfig, context: AccessContext): AccessParts {
  const { redis, registry, log } = context;
  const rules = rulesOf(config);
  let plans: ReadonlySet<string> = new Set(rules.plans.keys());
  const built = createLimits(config, { ...context, plans: () => plans });
  const { file } = config.keys;
  const store = config.keys.redis ? redis : undefined;
  const sources: KeySource[] = [...(file === undefined ? [] : ['file' as const]), ...(store ? ['redis' as const] : [])];
  const principals = new Principals(rules, sources);
  const metrics = createAccessMetrics(registry, () => ({ keys: principals.size, plans }));
  const keys = { principals, plans: () => plans, metrics, log };
  const watched = file === undefined ? undefined : watchKeys(file, keys);
  const polled = store === undefined ? undefined : pollKeys(store, keys);
  return {
    principals,
    limits: context.limits ?? built.limits,
    usage: built.usage,
    metrics,
    started: Promise.all([polled?.started, built.started]).then(() => undefined),
    update(next) {
      const changed = rulesOf(next);
      plans = new Set(changed.plans.keys());
      principals.setRules(changed);
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
  readonly log: Logger;
}

/** A file that is wrong, or gone, changes nothing: who could ask before still can. */
function watchKeys(file: string, { principals, plans, metrics, log }: KeysContext): WatchedFile {
  const text = readText(file);
  principals.setKeys('file', parseKeysFile(text, file, plans()));
  const keep = (problems: readonly string[]): void => {
    metrics.reloaded('file', 'failed');
    log.error({ file, problems }, 'the file of keys cannot be used: the keys that were read before stay in force');
  };
  return new WatchedFile(file, text, {
    onText: (changed) => {
      try {
        principals.setKeys('file', parseKeysFile(changed, file, plans()));
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        keep(error.message.split('\n'));
        return;
      }
      metrics.reloaded('file', 'ok');
      log.info({ file, keys: principals.size }, 'the file of keys was read again');
    },
    onFailure: (reason) => keep([reason]),
  });
}

/** More are not read: somebody has put something else there. */
const mostKeysInRedis = 100_000;
/** A field that is no key: a hash that holds nothing else says that there are none. */
const emptyMark = 'none';

function pollKeys({ target, keyPrefix }: RedisConfig, { principals, plans, metrics, log }: KeysContext) {
  const connected = Promise.withResolvers<void>();
  const client = connectRedis(target, () => connected.resolve());
  client.once('ready', () => connected.resolve());
  const name = `${keyPrefix}:access:keys`;
  let isKnown = false;
  // Commands fail at once without a connection, and a silent one is replaced: neither waits for long.
  const read = async (): Promise<Readonly<Record<string, string>>> => {
    const count = await client.hlen(name);
    if (count > mostKeysInRedis) throw new Error(`${count} keys are more than ${mostKeysInRedis}`);
    // Evicted, or lost with a restart: nobody takes out the keys of all in this way.
    if (count === 0 && isKnown) throw new Error(`there is no ${name} any more`);
    return client.hgetall(name);
  };
  const poll = new KeyPoll(
    { read },
    {
      onKeys: ({ [emptyMark]: _, ...fields }) => {
        const found = Object.entries(fields).map(([sha256, text]) => findKey(sha256, text));
        isKnown = found.length > 0;
        const records = found.filter((record) => record !== undefined && plans().has(record.plan));
        const wrong = found.length - records.length;
        principals.setKeys(
          'redis',
          records.flatMap((record) => record ?? []),
        );
        metrics.reloaded('redis', wrong === 0 ? 'ok' : 'failed');
        if (wrong > 0)
          log.error({ name, wrong }, 'keys in Redis are not well-formed, or of no plan: they are left out');
        log.info({ keys: principals.size }, 'keys were read from Redis');
      },
      onTrouble: (isOn, reason) => {
        if (isOn) {
          metrics.reloaded('redis', 'failed');
          log.warn({ reason }, 'keys in Redis cannot be read: those that were read before stay in force');
        } else log.info('keys in Redis can be read again');
      },
    },
  );
  return {
    started: connected.promise.then(() => poll.start()),
    close: () => {
      poll.close();
      client.disconnect();
    },
  };
}

/** What the config says, in the words of `access/`. */
export function rulesOf({ header, plans: given, anonymous, trustedProxies }: AccessConfig): AccessRules {
  const plans = new Map(Object.entries(given).map(([name, plan]) => [name, planOf(name, plan)]));
  return { header, plans, anonymous: anonymous === undefined ? undefined : plans.get(anonymous), trustedProxies };
}

function planOf(name: string, { operations, origins, ...bounds }: PlanConfig): Plan {
  return { name, ...bounds, operations: new Set(operations), origins: origins && new Set(origins) };
}
