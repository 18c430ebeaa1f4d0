/**
 * What differs between the config that is in force and a newly read one: which keys are applied while the gateway runs,
 * and which keep their value until it is started again. A pure function of the two.
 */
import { isMapping } from './source/key-path.ts';
import type { Config } from './config.ts';

/**
 * Keys that are applied while the gateway runs, each with all that is below it. Every other key needs a restart: what a
 * later version adds does so until it is named here. The documentation's column "live" is made from this.
 */
export const liveKeys: readonly string[] = [
  'access.anonymous',
  'access.costs',
  'access.header',
  'access.plans',
  'access.trustedProxies',
  'access.whenRedisIsDown',
  'cache.memory.maxBytes',
  'cache.redis.timeout',
  'cache.redis.ttl',
  'encode.enabled',
  'encode.shadow',
  'latest',
  'log.access',
  'log.level',
  'operations.hosts',
  'operations.readyInOutage',
  'operations.token',
  'upstream.audit',
  'upstream.deadline',
  'upstream.hedge',
  'upstream.maxAttempts',
  'upstream.maxLag',
  'upstream.probeInterval',
  'upstream.timeout',
  'upstreams',
];

/** `restart`: keys whose value has to wait; `live`: keys that change now. Both as the file names them, in order. */
export interface Changes {
  readonly live: readonly string[];
  readonly restart: readonly string[];
  /** The config in force before, with the new values of the live keys. */
  readonly effective: Config;
}

/** True for a key whose new value is applied while the gateway runs. `key`: as the file names it. */
export function isLive(key: string): boolean {
  return liveKeys.some((live) => key === live || key.startsWith(`${live}.`) || key.startsWith(`${live}[`));
}

export function compareConfigs(current: Config, next: Config): Changes {
  const live: string[] = [];
  const restart: string[] = [];
  const merge = (key: string, before: unknown, after: unknown): unknown => {
    if (isSame(before, after)) return before;
    if (liveKeys.includes(key) && !isSwitch(key, before, after)) {
      live.push(key);
      return after;
    }
    if (isSection(key) && isMapping(before) && isMapping(after)) {
      const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
      const entries = names.map((name) => [name, merge(keyOf(key, name), before[name], after[name])] as const);
      return Object.freeze(Object.fromEntries(entries.filter(([, value]) => value !== undefined)));
    }
    // In the file it is one of `url`, `cluster` and `sentinel`.
    restart.push(key === 'cache.redis.target' ? 'cache.redis' : key);
    return before;
  };
  const effective = merge('', current, next) as Config;
  return { live, restart, effective };
}

/** An endpoint is made open or closed by a restart, so that nobody takes one for closed that is not. */
function isSwitch(key: string, before: unknown, after: unknown): boolean {
  return key === 'access' && (before === undefined || after === undefined);
}

/** Whether some key below is applied on its own. */
function isSection(key: string): boolean {
  return key === '' || liveKeys.some((live) => live.startsWith(`${key}.`)) || wholeSections.has(key);
}

/** Sections without a live key, whose keys are named one by one all the same. */
const wholeSections: ReadonlySet<string> = new Set(['listen']);

/** The file's name of what `Config` calls `timeoutMs`: there the unit stands in the value. */
function keyOf(section: string, name: string): string {
  const key = name.replace(/Ms$/, '');
  if (section === '') return key;
  return `${section}.${key}`;
}

/** By content; a URL by its text. What is absent and what is undefined are the same. */
function isSame(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
