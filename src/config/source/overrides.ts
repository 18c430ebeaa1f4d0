/** Flags and LEDGERGATE_* variables, which override the file. */
import { isMapping, type KeyPath, type Positions } from './problem.ts';

/** One value from outside the file; `origin`: the flag or variable as typed. */
export interface Override {
  readonly path: KeyPath;
  readonly value: unknown;
  readonly origin: string;
}

/** Values of flags and variables, by name of the flag. */
export type GivenSettings = ReadonlyMap<string, { readonly values: readonly string[]; readonly origin: string }>;

/** Flags of one config key each. */
const keyOfFlag: Readonly<Record<string, KeyPath>> = {
  host: ['listen', 'host'],
  port: ['listen', 'port'],
  'operations-host': ['operations', 'host'],
  'operations-port': ['operations', 'port'],
  dialect: ['dialect'],
  'chain-id': ['chainId'],
  'log-level': ['log', 'level'],
  'log-format': ['log', 'format'],
};

/** Flags as overrides, unchecked: the schema reports a wrong value by the flag's name. */
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

/** `--upstream` and `--archival` together replace the file's list; names are derived. */
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

/** A copy of `root` with the overrides in order; their places are recorded in `positions`. */
export function applyOverrides(root: unknown, overrides: readonly Override[], positions: Positions): unknown {
  let result = root;
  for (const { path, value, origin } of overrides) {
    const laid = withValue(result, path, value);
    // The section is no mapping, which the schema reports.
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
