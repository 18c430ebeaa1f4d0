/** `check FILE`: checks the config, probes every upstream against it, inspects store, Redis and the keys of an issuer of tokens, and reports for people or programs. */
import { inspectIssuer, inspectKeysFile } from '../../access/index.ts';
import { ConfigError, type LoadedConfig, type Problem, TlsFiles } from '../../config/index.ts';
import { inspectNodes } from '../../upstream/index.ts';
import { type CommandCall, type ExitCode, formatTable } from '../command.ts';
import { type GivenConfig, givenFile, loadGivenConfig } from '../given-config.ts';
import { inspectRedis } from './inspect-redis.ts';
import { inspectStore } from './inspect-store.ts';

/** 0 only when all is fine; 2: the config is wrong; 1: an upstream, Redis or the issuer is, or the certificate has expired. */
export async function check(call: CommandCall): Promise<ExitCode> {
  const { loaded, problems } = tryLoad(call);
  const files = loaded && TlsFiles.check(loaded, 'servers');
  // Without its authorities and certificates no server can be judged.
  const isOffline = call.given.has('offline') || files === undefined || files.problems.length > 0;
  const storeConfig = isOffline ? undefined : loaded?.config.cache.store;
  const jwt = isOffline ? undefined : loaded?.config.access?.jwt;
  const [fleet, redis, store, issuer] = await Promise.all([
    isOffline ? undefined : loaded && inspectFleet(loaded),
    isOffline ? undefined : loaded && inspectRedis(loaded),
    storeConfig && inspectStore(storeConfig),
    jwt && inspectIssuer(jwt),
  ]);
  const tls = loaded && TlsFiles.check(loaded, 'listen');
  const found = [fleet, store, redis, issuer].flatMap((looked) => looked?.findings ?? []);
  const findings = found.map(({ path, message }): Problem => ({
    path,
    message,
    where: loaded?.whereIs(path) ?? { kind: 'nowhere' },
  }));
  const broken = [...problems, ...(tls?.problems ?? []), ...(files?.problems ?? [])];
  const report = {
    file: loaded?.file ?? givenFile('check', call),
    problems: [...broken, ...(tls?.expired ?? []), ...findings],
    warnings: [loaded, tls, files, store, redis, issuer].flatMap((looked) => looked?.warnings ?? []),
    upstreams: fleet?.upstreams,
  };
  call.terminal.out(call.given.get('format')?.values[0] === 'json' ? jsonReport(report) : formatReport(report));
  if (broken.length > 0) return 2;
  return report.problems.length > 0 ? 1 : 0;
}

function tryLoad(call: CommandCall): { readonly loaded?: GivenConfig; readonly problems: readonly Problem[] } {
  try {
    const loaded = loadGivenConfig('check', call);
    const { problems, warnings } = inspectKeysFile(loaded);
    return { loaded: { ...loaded, warnings: [...loaded.warnings, ...warnings] }, problems };
  } catch (error) {
    if (error instanceof ConfigError) return { problems: error.problems };
    throw error;
  }
}

type FleetInspection = Awaited<ReturnType<typeof inspectFleet>>;

async function inspectFleet({ config, redacted }: Pick<LoadedConfig, 'config' | 'redacted'>) {
  const nodes = await inspectNodes(config);
  const upstreams = nodes.map(({ index, address, name, tier, ...state }) => {
    const given = redacted.upstreams[index]?.url ?? '';
    return { name, tier, url: address === undefined ? given : `${given} (${address})`, ...state };
  });
  const findings = nodes.flatMap(({ index, name, fault }): readonly Pick<Problem, 'path' | 'message'>[] => {
    if (fault === undefined) return [];
    const isOnly = nodes.filter((other) => other.index === index).length === 1;
    return [{ path: ['upstreams', index, 'url'], message: isOnly ? fault : `${name}: ${fault}` }];
  });
  return { upstreams, findings };
}

interface CheckReport {
  readonly file: string | undefined;
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
  /** Missing when no upstream was asked. */
  readonly upstreams: FleetInspection['upstreams'] | undefined;
}

function formatReport({ file, problems, warnings, upstreams }: CheckReport): string {
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  return [
    ...(upstreams === undefined ? [] : [...upstreamTable(upstreams), '']),
    ...problems.map((problem) => ConfigError.format(problem)),
    ...warnings.map((warning) => `warning: ${warning}`),
    `${file === undefined ? '' : `${file}: `}${problems.length === 0 ? 'fine' : count}`,
  ].join('\n');
}

function jsonReport({ file, problems, warnings, upstreams }: CheckReport): string {
  const flat = problems.map(({ where, path, message }) => ({
    ...(where.kind === 'file' ? { file: where.file, line: where.line, column: where.column } : {}),
    ...(where.kind === 'setting' ? { setting: where.name } : {}),
    path: ConfigError.formatPath(path),
    message,
  }));
  const report = { file, fine: problems.length === 0, problems: flat, warnings, upstreams };
  // An absent value is null, not missing: programs find every key in every report.
  return JSON.stringify(report, (_key, value: unknown) => value ?? null, 2);
}

function upstreamTable(upstreams: FleetInspection['upstreams']): readonly string[] {
  const rows = upstreams.map(({ name, url, tier, dialect, chainId, oldest, head, lag, reason, fault }) => {
    const state = reason ?? (fault === undefined ? 'fine' : 'several nodes');
    return [name, url, tier, dialect, chainId, oldest, head, lag, state].map(cell);
  });
  return formatTable([['UPSTREAM', 'URL', 'TIER', 'DIALECT', 'CHAIN', 'OLDEST', 'HEAD', 'LAG', 'STATE'], ...rows]);
}

function cell(value: string | number | undefined): string {
  return value === undefined ? '-' : String(value);
}
