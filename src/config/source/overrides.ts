/** What flags and LEDGERGATE_* variables say about the config: laid over the file. */
import { isMapping, type KeyPath } from './key-path.ts';
import type { Positions } from './positions.ts';

/** One value from outside the file; `origin` is the flag or the variable, as a person would type it. */
export interface Override {
  readonly path: KeyPath;
  readonly value: unknown;
  readonly origin: string;
}

/** Values given on the command line or in the environment, by name of the flag. */
export type GivenSettings = ReadonlyMap<string, { readonly values: readonly string[]; readonly origin: string }>;

/** The flags that stand for one config key each. */
const keyOfFlag: Readonly<Record<string, KeyPath>> = {
  host: ['listen', 'host'],
  port: ['listen', 'port'],
  'operations-port': ['operations', 'port'],
  dialect: ['dialect'],
  'chain-id': ['chainId'],
  'log-level': ['log', 'level'],
};

/** Turns flags into overrides. Nothing is judged here: a wrong value gets the schema's message, with the flag's name. */
export function overridesOf(given: GivenSettings): readonly Override[] {
  const overrides: Override[] = [];
  for (const [flag, path] of Object.entries(keyOfFlag)) {
    const setting = given.get(flag);
    const text = setting?.values.at(-1);
    if (setting === undefined || text === undefined) continue;
    overrides.push({ path, value: /^\d+$/.test(text) ? Number(text) : text, origin: setting.origin });
  }
  return [...overrides, ...upstreamOverrides(given)];
}

/** `--upstream` and `--archival` name a whole fleet: together they replace the file's list, names are derived. */
function upstreamOverrides(given: GivenSettings): readonly Override[] {
  const list: Override[] = [];
  for (const [flag, tier] of [
    ['upstream', 'full'],
    ['archival', 'archival'],
  ] as const) {
    const setting = given.get(flag);
    setting?.values.forEach((url, index) => {
      list.push({
        path: ['upstreams', list.length],
        value: { name: `${flag}-${index + 1}`, url, tier },
        origin: setting.origin,
      });
    });
  }
  const first = list[0];
  return first === undefined ? [] : [{ path: ['upstreams'], value: [], origin: first.origin }, ...list];
}

/** Lays `overrides` over `root`, in order, and returns the result; `root` and its parts are not changed. */
export function applyOverrides(root: unknown, overrides: readonly Override[], positions: Positions): unknown {
  let result = root;
  for (const { path, value, origin } of overrides) {
    const laid = withValue(result, path, value);
    // A section that is no mapping in the file is a problem of its own; there is nothing to lay a value over.
    if (laid === undefined) continue;
    result = laid;
    positions.replace(path, { kind: 'setting', name: origin });
  }
  return result;
}

function withValue(target: unknown, path: KeyPath, value: unknown): unknown {
  const [part, ...rest] = path;
  if (part === undefined) return value;
  if (typeof part === 'number') {
    return Array.isArray(target) ? [...target.slice(0, part), value, ...target.slice(part + 1)] : undefined;
  }
  const mapping = target === undefined ? {} : target;
  if (!isMapping(mapping)) return undefined;
  const laid = withValue(mapping[part], rest, value);
  return laid === undefined ? undefined : { ...mapping, [part]: laid };
}
