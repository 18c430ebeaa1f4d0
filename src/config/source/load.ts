/** Loads the config from file, environment, flags and defaults, and masks its secrets for people. */
import { dirname, resolve } from 'node:path';
import process from 'node:process';
import { accessRedisOf, type Config, toConfig } from '../config.ts';
import { findContradictions } from '../schema/consistency.ts';
import { explainRoot } from '../explain.ts';
import { type Environment, escapeInterpolation, readYaml, type YamlSource } from './yaml-source.ts';
import { type KeyPath, Positions, ConfigError, isMapping, type Where } from './problem.ts';
import { readSecretFile, WatchedFiles } from './watched-files.ts';
import { configSchema, type FileConfig } from '../schema/schema.ts';
import { StalenessOverrides } from '../schema/staleness-overrides.ts';

/** One value from outside the file; `origin`: the flag or variable as typed. */
export interface Override {
  readonly path: KeyPath;
  readonly value: unknown;
  readonly origin: string;
}

/** The values of one flag, or of its variable. `origin`: the flag or variable as typed. */
export interface GivenSetting {
  readonly values: readonly string[];
  readonly origin: string;
}

/** Flags and variables, by name of the flag. */
type GivenSettings = ReadonlyMap<string, GivenSetting>;

/** The sources of a config. */
export interface LoadOptions {
  readonly file?: string;
  /** Override the file, in order: the last one wins. */
  readonly preset?: readonly Override[];
  /** Override all of it. */
  readonly given?: GivenSettings;
  /** Variables for `${NAME}`. */
  readonly env?: Environment;
  /** Reads the secret in the file of `${file:NAME}`, by its absolute name. Default: once, without a watch. */
  readonly readSecret?: (file: string) => string;
  /** Reads the operations port alone: faults and unset variables of other sections do not count. */
  readonly isOfOperations?: boolean;
}

/** A valid config and its report. */
export interface LoadedConfig {
  readonly config: Config;
  /** Values that are valid and probably unintended. */
  readonly warnings: readonly string[];
  /** The file's values without secrets, themselves those of a valid config file. */
  readonly redacted: FileConfig;
  /** The place of a value, for problems found later. */
  whereIs(path: KeyPath): Where;
}

/** Throws ConfigError with all problems. */
export function loadConfig({
  file,
  preset = [],
  given = new Map(),
  env = {},
  readSecret = readSecretFile,
  isOfOperations = false,
}: LoadOptions): LoadedConfig {
  const folder = file === undefined ? process.cwd() : dirname(resolve(file));
  const references = { env, readSecret: (name: string) => readSecret(resolve(folder, name)) };
  const whole: YamlSource =
    file === undefined
      ? { value: {}, problems: [], positions: new Positions() }
      : readYaml(WatchedFiles.read(file), file, references);
  const source = isOfOperations ? operationsOf(whole) : whole;
  const { positions } = source;
  // Text that is not YAML has no keys to check.
  if (source.value === undefined && source.problems.length > 0) throw new ConfigError(source.problems);

  const overrides = [...preset, ...overridesOf(given)];
  const counted = isOfOperations ? overrides.filter(({ path }) => path[0] === 'operations') : overrides;
  const root = applyOverrides(source.value ?? {}, counted, positions);
  const { data, problems } = explainRoot(configSchema, root, source, findContradictions(root, positions));
  if (data === undefined || problems.length > 0) throw new ConfigError(problems);
  const config = toConfig(data, folder);
  return {
    config,
    warnings: [
      ...attemptWarnings(config.upstream),
      ...sameAddressWarnings(config.upstreams),
      ...hostWarnings(config.operations),
      ...storeWarnings(config.cache.store, process.versions.node),
      ...quotaWarnings(config),
      ...StalenessOverrides.warnings(config.latest.overrides),
    ],
    redacted: redactConfig(data, positions),
    whereIs: (path) => positions.ofValue(path),
  };
}

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
function overridesOf(given: GivenSettings): readonly Override[] {
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
function applyOverrides(root: unknown, overrides: readonly Override[], positions: Positions): unknown {
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

/** The source without its other sections; the schema demands a node. */
function operationsOf({ value, problems, positions }: YamlSource): YamlSource {
  if (!isMapping(value)) return { value, problems, positions };
  const upstreams = [{ name: 'unread', url: 'http://unread.invalid/v1' }];
  const ours = problems.filter(({ path: [section] }) => section === undefined || section === 'operations');
  return { value: { operations: value['operations'] ?? {}, upstreams }, problems: ours, positions };
}

function attemptWarnings({ maxAttempts }: Config['upstream']): readonly string[] {
  if (maxAttempts > 1) return [];
  return ['upstream.maxAttempts is 1: a request that one upstream does not answer fails'];
}

function sameAddressWarnings(upstreams: Config['upstreams']): readonly string[] {
  const first = new Map<string, string>();
  return upstreams.flatMap(({ name, url }) => {
    const earlier = first.get(url);
    first.set(url, earlier ?? name);
    return earlier === undefined ? [] : [`upstreams ${earlier} and ${name} have the same address: they are one node`];
  });
}

/** Monitoring on other machines may use a public name, which gets 421 unless `hosts` lists it. */
function hostWarnings({ host, hosts }: Config['operations']): readonly string[] {
  if (hosts !== undefined || /^(?:localhost|127\..*|::1)$/.test(host)) return [];
  return [
    `operations.host is ${host} and operations.hosts is not set: a request for a public name, such as gateway.example, gets 421. List the public names, or [] for none`,
  ];
}

/** Node's SQLite, which holds the store, is a release candidate from 24.15 and 25.7 on, and an experiment before. */
export function storeWarnings(store: Config['cache']['store'], nodeVersion: string): readonly string[] {
  const [major = 0, minor = 0] = nodeVersion.split('.').map(Number);
  const isExperiment = major < 24 || (major === 24 && minor < 15) || (major === 25 && minor < 7);
  if (store === undefined || !isExperiment) return [];
  return [
    `cache.store: SQLite is experimental in Node ${nodeVersion}: use Node 24.15 or newer, or leave the store out`,
  ];
}

/** Quotas that a restart grants again. */
function quotaWarnings(config: Config): readonly string[] {
  const { access } = config;
  if (access === undefined || (accessRedisOf(config) ?? access.usage.path) !== undefined) return [];
  const [plan] = Object.entries(access.plans).find(([, { quota }]) => quota !== undefined) ?? [];
  if (plan === undefined) return [];
  return [
    `access.plans.${plan}.quota: a restart forgets what is used: set access.redis or cache.redis, or a folder (access.usage.path, or cache.store)`,
  ];
}

/**
 * Replaces interpolated values by their `${NAME}` and `${file:NAME}`, since any may hold a secret, and passwords and tokens
 * of the file by stars.
 */
function redactConfig(file: FileConfig, positions: Positions): FileConfig {
  const mask = (value: unknown, path: KeyPath): unknown => {
    const template = positions.findTemplate(path);
    if (template !== undefined) return template;
    if (typeof value === 'string' && isSecret(path)) return '*'.repeat(16);
    if (typeof value === 'string') return escapeInterpolation(maskCredentials(value));
    if (Array.isArray(value)) return value.map((item, index) => mask(item, [...path, index]));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, mask(part, [...path, key])]));
  };
  return mask(file, []) as FileConfig;
}

function isSecret(path: KeyPath): boolean {
  return path.join('.') === 'operations.token' || path.at(-2) === 'headers';
}

/** `redis://user:password@host` as `redis://user:***@host`; a lone word before the `@` may be a password. */
function maskCredentials(text: string): string {
  return text
    .replace(/^([a-z]+:\/\/)([^:/?#]*):.*@/, '$1$2:***@')
    .replace(/^([a-z]+:\/\/)[^:]+@/, '$1***@')
    .replaceAll(/([?&](?:password|auth|token)=)[^&]*/gi, '$1***');
}
