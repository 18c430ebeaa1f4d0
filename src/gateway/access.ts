/** Builds access control: keys from file and Redis, and their limits. */
import type { Plan } from '../access/keys/principal.ts';
import { Principals, type PrincipalRules, type KeySource } from '../access/keys/principals.ts';
import type { Limits } from '../access/limits/ticket.ts';
import type { AccessConfig, PlanConfig, RedisConfig } from '../config/config.ts';
import { keysFileWarnings, parseKeysFile, type FileKey } from '../config/keys-file.ts';
import { ConfigError } from '../config/source/problem.ts';
import { digestOf, FileWatch, readText } from '../config/source/text-file.ts';
import { createAccessMetrics } from '../metrics/access-metrics.ts';
import { createLimits } from './limits.ts';
import type { PeerWorkers } from './peer-workers.ts';
import type { ServingContext } from './settings.ts';
import { AccessKeyPoller, type KeysContext } from './access-key-poller.ts';

interface AccessContext extends ServingContext {
  readonly redis: RedisConfig | undefined;
  /** Default: built from the config. */
  readonly limits: Limits | undefined;
}

/** Access control of this process. */
export type AccessParts = ReturnType<typeof buildAccess>;

/** Reads the keys file at once. Throws ConfigError when it is invalid and no other worker has a valid one. */
export function buildAccess(config: AccessConfig, context: AccessContext) {
  const { redis, registry, journal, peers } = context;
  const rules = rulesOf(config);
  let plans: ReadonlySet<string> = new Set(rules.plans.keys());
  const built = createLimits(config, {
    ...context,
    redisBounds: context.settings.redis,
    limitService: peers?.limitService,
    plans: () => plans,
  });
  const { file } = config.keys;
  const store = config.keys.redis ? redis : undefined;
  const sources: KeySource[] = [...(file === undefined ? [] : ['file' as const]), ...(store ? ['redis' as const] : [])];
  const principals = new Principals(rules, sources);
  const metrics = createAccessMetrics(registry, () => ({ keys: principals.size, plans }));
  const keys = { principals, plans: () => plans, metrics, journal };
  const watched = file === undefined ? undefined : watchKeys(file, keys, peers);
  const polled = store === undefined ? undefined : new AccessKeyPoller(store, keys);
  return {
    principals,
    limits: context.limits ?? built.limits,
    usage: built.usage,
    metrics,
    /** Resolves after the first attempt to read keys in Redis. */
    started: Promise.all([polled?.started, built.started]).then(() => undefined),
    /** Throws ConfigError when keys of the file name plans that `next` lacks. */
    check(next: AccessConfig) {
      watched?.check(new Set(Object.keys(next.plans)));
    },
    /** Applies plans, costs, addresses and the header; sources of keys need a restart. Throws like `check`. */
    update(next: AccessConfig) {
      const changed = rulesOf(next);
      const known = new Set(changed.plans.keys());
      watched?.check(known);
      plans = known;
      principals.setRules(changed);
      watched?.reapplyPlans();
      polled?.reapplyPlans();
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

interface FileKeys {
  readonly text: string;
  readonly keys: readonly FileKey[];
}

/** Watches the keys file. An invalid or missing file changes nothing. */
function watchKeys(file: string, { principals, plans, metrics, journal }: KeysContext, peers?: PeerWorkers) {
  let inForce: FileKeys | undefined;
  /** Throws ConfigError. Reuses the keys in force for the same text: parsing blocks requests. */
  const parse = (text: string, known = plans()): FileKeys => {
    const isFit = inForce?.text === text && inForce.keys.every(({ plan }) => known.has(plan));
    return inForce !== undefined && isFit ? inForce : { text, keys: parseKeysFile(text, file, known) };
  };
  /** The keys of the present file; `undefined` when they are invalid with these plans. */
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
    journal.record('keys read', { file, keys: principals.size, warning }, 'keys file reloaded');
  };
  const keep = (problems: readonly string[]): void => {
    metrics.reloaded('file', 'failed');
    const why = { file, problems };
    journal.record('keys refused', why, 'keys file refused: the keys in force stay');
  };
  const read = (): void => {
    try {
      take(parse(readText(file)));
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      keep(error.message.split('\n'));
    }
  };
  // While the file is invalid, a restarted worker takes the keys of the other workers.
  const digest = digestOf(file);
  const fit = findFit();
  putInForce(fit ?? parse(peers?.lastKeys ?? readText(file)));
  const watched = new FileWatch([file], {
    // Without a digest an invalid file counts as a change, and is reported.
    digest: fit && digest,
    onChange: read,
    onMissing: read,
  });
  return {
    /** Throws ConfigError when both the present file and the text in force are invalid with these plans. */
    check(known: ReadonlySet<string>): void {
      if (findFit(known) === undefined) parse(inForce?.text ?? '', known);
    },
    /** New plans may make a refused file valid. */
    reapplyPlans(): void {
      const next = findFit();
      if (next !== undefined && next !== inForce) take(next);
    },
    close: () => watched.close(),
  };
}

function rulesOf({ header, plans: given, anonymous, trustedProxies }: AccessConfig): PrincipalRules {
  const plans = new Map(Object.entries(given).map(([name, plan]) => [name, planOf(name, plan)]));
  return { header, plans, anonymous: anonymous === undefined ? undefined : plans.get(anonymous), trustedProxies };
}

function planOf(name: string, { operations, origins, ...bounds }: PlanConfig): Plan {
  return { name, ...bounds, operations: new Set(operations), origins: origins && new Set(origins) };
}
