/** Builds access control: keys from file and Redis, and their limits. */
import {
  createAccessMetrics,
  type KeySource,
  type Limits,
  type Plan,
  type PrincipalRules,
  Principals,
} from '../access/index.ts';
import {
  type AccessConfig,
  ConfigError,
  digestOf,
  FileWatch,
  formatProblem,
  type KeysFile,
  keysFileWarnings,
  type PlanConfig,
  readKeysFile,
  readText,
  type RedisConfig,
} from '../config/index.ts';
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

interface FileKeys extends KeysFile {
  readonly text: string;
}

/** A damaged file may have a problem in each of its lines. */
const mostReported = 20;

/** Watches the keys file. One without a list of keys, or a missing one, changes nothing; a faulty entry is refused alone. */
function watchKeys(file: string, { principals, plans, metrics, journal }: KeysContext, peers?: PeerWorkers) {
  let inForce: FileKeys | undefined;
  /** Throws ConfigError. Reuses the keys in force for the same text: parsing blocks requests. */
  const parse = (text: string, known = plans()): FileKeys => {
    const isFit = inForce?.text === text && inForce.problems.length === 0 && hasPlans(inForce, known);
    return inForce !== undefined && isFit ? inForce : { text, ...readKeysFile(text, file, known) };
  };
  /** The present file; `undefined` without a list of keys. */
  const findPresent = (known = plans()): FileKeys | undefined => {
    try {
      return parse(readText(file), known);
    } catch (error) {
      if (error instanceof ConfigError) return undefined;
      throw error;
    }
  };
  const putInForce = (next: FileKeys): void => {
    principals.setKeys('file', next.keys, next.refused);
    inForce = next;
    peers?.publishKeys(next.text);
    if (next.problems.length === 0) return;
    metrics.reloaded('file', 'failed');
    const why = { file, problems: next.problems.slice(0, mostReported).map(formatProblem) };
    journal.record('keys refused', why, 'keys of the file are refused, because their entries are wrong');
  };
  const take = (next: FileKeys): void => {
    putInForce(next);
    if (next.problems.length === 0) metrics.reloaded('file', 'ok');
    const [warning] = keysFileWarnings(file, next.keys);
    journal.record('keys read', { file, keys: principals.size, warning }, 'keys file reloaded');
  };
  const read = (): void => {
    try {
      take(parse(readText(file)));
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      metrics.reloaded('file', 'failed');
      const why = { file, problems: error.message.split('\n', mostReported) };
      journal.record('keys refused', why, 'keys file refused: the keys in force stay');
    }
  };
  // While the file has no list of keys, a restarted worker takes the keys of the other workers.
  const digest = digestOf(file);
  const present = findPresent();
  putInForce(present ?? parse(peers?.lastKeys ?? readText(file)));
  const watched = new FileWatch([file], {
    // Without a digest such a file counts as a change, and is reported.
    digest: present && digest,
    onChange: read,
    onMissing: read,
  });
  return {
    /** Throws ConfigError when a key in force would lose its plan, unless the present file has none without a plan. */
    check(known: ReadonlySet<string>): void {
      if (inForce === undefined || hasPlans(inForce, known)) return;
      if (findPresent(known)?.problems.length === 0) return;
      throw new ConfigError(parse(inForce.text, known).problems);
    },
    /** New plans may make refused keys valid. */
    reapplyPlans(): void {
      const next = findPresent();
      if (next !== undefined && next !== inForce) take(next);
    },
    close: () => watched.close(),
  };
}

function hasPlans({ keys }: KeysFile, known: ReadonlySet<string>): boolean {
  return keys.every(({ plan }) => known.has(plan));
}

function rulesOf({ header, plans: given, anonymous, trustedProxies }: AccessConfig): PrincipalRules {
  const plans = new Map(Object.entries(given).map(([name, plan]) => [name, planOf(name, plan)]));
  return { header, plans, anonymous: anonymous === undefined ? undefined : plans.get(anonymous), trustedProxies };
}

function planOf(name: string, { operations, origins, ...bounds }: PlanConfig): Plan {
  return { name, ...bounds, operations: new Set(operations), origins: origins && new Set(origins) };
}
