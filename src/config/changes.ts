/**
 * The difference between the config in force and a newly read one: keys that change at run time, and keys that keep
 * their value until a restart. Pure.
 */
import { isMapping } from './source/problem.ts';
import type { Config, RedisTargetConfig } from './config.ts';
import { configSchema } from './schema/schema.ts';
import { liveKeysOf } from './schema/schema-parts.ts';

/** Keys that change at run time, each with every key below it, as the schema marks them. */
export const liveKeys: readonly string[] = liveKeysOf(configSchema);

/** Changed keys, as the file names them, in order: `live` change now, `restart` at the next start. */
export interface Changes {
  readonly live: readonly string[];
  readonly restart: readonly string[];
  /** The config in force before, with the new values of the live keys. */
  readonly effective: Config;
}

/** Whether `key`, as the file names it, changes at run time. */
export function isLive(key: string): boolean {
  return liveKeys.some((live) => key === live || key.startsWith(`${live}.`) || key.startsWith(`${live}[`));
}

/** The changes from `current` to `next`, and the config that results at run time. */
export function compareConfigs(current: Config, next: Config): Changes {
  const live: string[] = [];
  const restart: string[] = [];
  const merge = (key: string, before: unknown, after: unknown): unknown => {
    if (isSame(before, after)) return before;
    if (liveKeys.includes(key) && !isSwitch(key, before, after)) {
      live.push(key);
      return after;
    }
    const address = addressKeyOf(key, before, after);
    if (address !== undefined) {
      live.push(address);
      return after;
    }
    if (isSection(key) && isMapping(before) && isMapping(after)) {
      const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
      const entries = names.map((name) => [name, merge(keyOf(key, name), before[name], after[name])] as const);
      return Object.freeze(Object.fromEntries(entries.filter(([, value]) => value !== undefined)));
    }
    // The file has `url`, `cluster` or `sentinel` in place of `target`.
    restart.push(key.replace(/^(cache|access)\.redis\.target$/, '$1.redis'));
    return before;
  };
  const effective = merge('', current, next) as Config;
  return { live, restart, effective };
}

/** The file's key of a Redis whose user or password alone has changed; `undefined` for anything else. */
function addressKeyOf(key: string, before: unknown, after: unknown): string | undefined {
  const section = /^((?:cache|access)\.redis)\.target$/.exec(key)?.[1];
  if (section === undefined || before === undefined || after === undefined) return undefined;
  const next = after as RedisTargetConfig;
  if (!isSame(withoutUser(before as RedisTargetConfig), withoutUser(next))) return undefined;
  return `${section}.${next.kind === 'single' ? 'url' : next.kind}`;
}

function withoutUser(target: RedisTargetConfig): readonly unknown[] {
  const urls = target.kind === 'single' ? [target.url] : target.urls;
  const name = target.kind === 'sentinel' ? target.name : '';
  return [target.kind, name, ...urls.map((url) => url.replace(/\/\/.*@/, '//'))];
}

/** Only a restart opens or closes an endpoint: no operator must believe an open one closed. */
function isSwitch(key: string, before: unknown, after: unknown): boolean {
  return key === 'access' && (before === undefined || after === undefined);
}

/** Whether keys below `key` are compared one by one. */
function isSection(key: string): boolean {
  return key === '' || liveKeys.some((live) => live.startsWith(`${key}.`)) || wholeSections.has(key);
}

/** Sections without a live key whose keys are reported one by one. */
const wholeSections: ReadonlySet<string> = new Set(['listen']);

/** The file's key: `timeout` for `timeoutMs`, since its value carries the unit. */
function keyOf(section: string, name: string): string {
  const key = name.replace(/Ms$/, '');
  if (section === '') return key;
  return `${section}.${key}`;
}

/** By content; a URL by its text. An absent value equals `undefined`. */
function isSame(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
