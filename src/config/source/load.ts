/** Joins file, environment, flags and defaults into the one Config everything else is built from. */
import { dirname, resolve } from 'node:path';
import type { Config } from '../config.ts';
import { findContradictions } from '../schema/consistency.ts';
import { explainIssues } from '../explain.ts';
import type { Environment } from './interpolate.ts';
import type { KeyPath } from './key-path.ts';
import { applyOverrides, type Override } from './overrides.ts';
import { Positions } from './positions.ts';
import { ConfigError, type Where } from './problem.ts';
import { readText } from './text-file.ts';
import { configSchema } from '../schema/schema.ts';
import { type RedactedConfig, redactConfig } from '../effective-config.ts';
import { toConfig } from '../schema/to-config.ts';
import { readYaml, type YamlSource } from './yaml-source.ts';

export interface LoadOptions {
  readonly file?: string;
  /** Laid over the file in order: the last one wins. */
  readonly overrides?: readonly Override[];
  /** What `${NAME}` may stand for. */
  readonly env?: Environment;
}

export interface LoadedConfig {
  /** Deeply frozen. */
  readonly config: Config;
  /** Things that are allowed and probably not meant. */
  readonly warnings: readonly string[];
  readonly redacted: RedactedConfig;
  /** Where a value was given, for whoever finds fault with it later. */
  whereIs(path: KeyPath): Where;
}

/** Throws ConfigError with every problem there is. */
export function loadConfig({ file, overrides = [], env = {} }: LoadOptions): LoadedConfig {
  const source: YamlSource =
    file === undefined ? { value: {}, problems: [], positions: new Positions() } : readYaml(readText(file), file, env);
  const { positions } = source;
  // Text that is not YAML has no keys to check.
  if (source.value === undefined && source.problems.length > 0) throw new ConfigError(source.problems);

  const root = applyOverrides(source.value ?? {}, overrides, positions);
  const checked = configSchema.safeParse(root);
  const problems = [...source.problems];
  if (!checked.success) {
    problems.push(...explainIssues(checked.error.issues, { root, positions, known: problems }));
  }
  problems.push(...findContradictions(root, positions));
  if (!checked.success || problems.length > 0) throw new ConfigError(problems);

  const config = toConfig(checked.data, file === undefined ? process.cwd() : dirname(resolve(file)));
  return {
    config,
    warnings: [
      ...attemptWarnings(config.upstream),
      ...sameAddressWarnings(config.upstreams),
      ...hostWarnings(config.operations),
    ],
    redacted: redactConfig(checked.data, positions),
    whereIs: (path) => positions.ofValue(path),
  };
}

/** Not wrong, but rarely what is wanted of a gateway in front of several nodes. */
function attemptWarnings({ maxAttempts }: Config['upstream']): readonly string[] {
  if (maxAttempts > 1) return [];
  return ['upstream.maxAttempts is 1: what one upstream does not answer, no other is asked'];
}

function sameAddressWarnings(upstreams: Config['upstreams']): readonly string[] {
  const first = new Map<string, string>();
  return upstreams.flatMap(({ name, url }) => {
    const earlier = first.get(url.href);
    first.set(url.href, earlier ?? name);
    return earlier === undefined ? [] : [`upstreams ${earlier} and ${name} have the same address: they are one node`];
  });
}

/** Beyond this machine monitoring may ask by a public name, and would be refused. An empty list says that none does. */
function hostWarnings({ host, hosts }: Config['operations']): readonly string[] {
  if (hosts !== undefined || /^(?:localhost|127\..*|::1)$/.test(host)) return [];
  return [
    `operations.host is ${host} and operations.hosts is not set: a request for a public name, such as gateway.example, gets 421. List the names that are used, or [] for none`,
  ];
}
