/**
 * `serve`: starts a gateway from a config, announces its ports, reads the config again when it changes, and stops on a signal.
 * `sample` shares this.
 */
import { once } from 'node:events';
import { flushCompileCache } from 'node:module';
import { availableParallelism } from 'node:os';
import type { Logger } from 'pino';
import { inspectKeysFile } from '../access/index.ts';
import { type Config, ConfigError, type LoadedConfig, type Problem, TlsFiles, WatchedFiles } from '../config/index.ts';
import { GatewayLog, type GatewayOptions, type RunningGateway, startGateway } from '../gateway/index.ts';
import { Tracer } from '../metrics/index.ts';
import { type CommandCall, type ExitCode, type Terminal, formatTable } from './command.ts';
import { givenFile, loadGivenConfig } from './given-config.ts';
import { variableOf } from './flags.ts';

interface ConfigSource {
  /** The file, which changes may be read from. Absent: flags and variables alone. */
  readonly files: WatchedFiles | undefined;
  /** Reads the file again, under the same flags and variables. Throws as `loadConfig`. */
  readonly load: () => LoadedConfig;
}

/** Terminal, reload source and announcements of a run. */
export interface RunOptions {
  readonly terminal: Terminal;
  readonly drainDelayMs?: number;
  /** Source of later configs. Absent: the config is never read again. */
  readonly source?: ConfigSource;
  /** More lines for the terminal, once the gateway answers. */
  readonly announce?: (gateway: RunningGateway) => readonly string[];
}

/** Balancers that poll readiness every second or two stop sending within it; slower ones need a `preStop`. */
export const drainDelayMs = 2_000;

const tracingIgnored = 'tracing is ignored: the OpenTelemetry SDK that --import has registered records the traces';

/** `serve`: the gateway in front of the nodes the config names. */
export async function serve(call: CommandCall): Promise<ExitCode> {
  const file = givenFile('serve', call);
  // Taken before the file is read: a change in between counts as one.
  const files = file === undefined ? undefined : new WatchedFiles([file]);
  const load = () => {
    files?.forgetSecrets();
    return loadGivenConfig('serve', call, files && { readSecret: (secret) => files.readSecret(secret) });
  };
  return runGateway(load(), { terminal: call.terminal, drainDelayMs, source: { files, load } });
}

/** Resolves when the gateway has stopped. Lines for people go to stdout, log lines to stderr. */
export async function runGateway(
  loaded: LoadedConfig,
  { terminal, announce, source, drainDelayMs = 0 }: RunOptions,
): Promise<ExitCode> {
  const stop = terminal.stopSignal();
  const tls = TlsFiles.check(loaded, 'listen');
  const files = TlsFiles.check(loaded, 'servers');
  const broken = [...tls.problems, ...files.problems];
  if (broken.length > 0) throw new ConfigError(broken);
  const keys = inspectKeysFile(loaded);
  const refusals = keys.problems.map((problem) => `${ConfigError.format(problem)}: this entry is refused`);
  const warnings = [...loaded.warnings, ...tls.warnings, ...files.warnings, ...keys.warnings, ...refusals];
  if (loaded.config.tracing !== undefined && Tracer.findSdk() !== undefined) warnings.push(tracingIgnored);
  for (const warning of warnings) terminal.error(`warning: ${warning}`);
  const log = GatewayLog.onStandardError(loaded.config.log);
  let reloading: ReturnType<typeof createReloading> | undefined;
  // A signal that comes while it starts must not end it.
  if (source !== undefined) terminal.onHangUp(() => reloading?.hangUp());
  const gateway = await start(loaded.config, { log, drainDelayMs }).catch((error: unknown) => {
    throw listenProblem(error, loaded);
  });
  // Node writes the cache only at a clean exit, which a killed process never reaches. Takes 0.1 s, once.
  flushCompileCache();
  for (const line of [...describe(gateway, loaded), ...(announce?.(gateway) ?? [])]) terminal.out(line);
  if (source !== undefined) reloading = createReloading(source, gateway, log.logger);
  if (!stop.aborted) await once(stop, 'abort');
  terminal.out('Stopping: finishing what is in flight. A second signal ends at once.');
  reloading?.close();
  await gateway.close();
  await log.flush();
  return 0;
}

/** One process does not load the code of several. */
async function start(config: Config, options: GatewayOptions): Promise<RunningGateway> {
  const processes = config.workers === 'auto' ? availableParallelism() : config.workers;
  if (processes === 1) return startGateway(config, options);
  const { startWorkers } = await import('../workers/index.ts');
  return startWorkers(config, processes, options);
}

function describe(gateway: RunningGateway, { config, redacted }: LoadedConfig): readonly string[] {
  const rows = gateway.fleet().map(({ name, tier, chainId, oldest, head, lag, state }) => {
    // From the masked config: the fleet's own URL may hold a key from the environment.
    const url = redacted.upstreams.find((upstream) => upstream.name === name)?.url;
    return [name, url, tier, chainId, oldest, head, lag, state].map((cell) =>
      cell === undefined ? '-' : String(cell),
    );
  });
  return [
    ...formatTable([['UPSTREAM', 'URL', 'TIER', 'CHAIN', 'OLDEST', 'HEAD', 'LAG', 'STATE'], ...rows]),
    '',
    `Chain:      ${chainOf(gateway, config)}`,
    `Clients:    ${gateway.url} (listening on ${config.listen.host}, port ${gateway.port})`,
    `Operations: ${gateway.operationsUrl} (listening on ${config.operations.host}, port ${gateway.operationsPort})`,
    `Status:     ${gateway.operationsUrl}/status`,
  ];
}

/** The chain id, and what holds it: without `chainId` the nodes themselves may change it. */
function chainOf(gateway: RunningGateway, { chainId }: Config): string {
  if (chainId !== undefined) return `${chainId} (chainId: nodes of any other are not asked)`;
  const agreed = gateway.fleet().find((node) => node.state !== 'foreign' && node.chainId !== undefined)?.chainId;
  return agreed === undefined ? 'not known yet' : `${agreed} (most nodes report it; set chainId to hold it)`;
}

function createReloading({ files, load }: ConfigSource, gateway: RunningGateway, log: Logger) {
  const reload = (): void => {
    let loaded: LoadedConfig;
    try {
      loaded = load();
      const { problems } = TlsFiles.check(loaded, 'servers');
      if (problems.length > 0) throw new ConfigError(problems);
    } catch (error) {
      const unread: Problem = { where: { kind: 'nowhere' }, path: [], message: String(error) };
      gateway.reloads.refuse(error instanceof ConfigError ? error.problems : [unread]);
      return;
    }
    for (const warning of loaded.warnings) log.warn(warning);
    void gateway.reloads.take(loaded.config);
  };
  const onMissing = () =>
    log.warn({ file: files?.names[0] }, 'the config file cannot be read: the config in force stays');
  files?.watch({ onChange: reload, onMissing });
  return {
    /** SIGHUP: the file is read, whether it has changed or not. */
    hangUp(): void {
      if (files === undefined) {
        log.warn('SIGHUP: there is no config file to read again, so nothing changes');
        return;
      }
      files.note();
      reload();
    },
    close: () => files?.close(),
  };
}

type ListenError = NodeJS.ErrnoException & {
  readonly address?: string;
  readonly hostname?: string;
  readonly port?: number;
};

const flagsOf = {
  listen: { host: 'host', port: 'port' },
  operations: { host: 'operations-host', port: 'operations-port' },
} as const;

/** A ConfigError with the port, its key and the remedy; any other `error` stays as it is. */
export function listenProblem(error: unknown, loaded: LoadedConfig): unknown {
  if (!(error instanceof Error)) return error;
  const { code = '', syscall = '', hostname, port } = error as ListenError;
  if (!['listen', 'bind', 'getaddrinfo'].includes(syscall)) return error;
  const { config } = loaded;
  const section = sectionOf(error, config);
  const { host } = config[section];
  const [key, message] = explain(code, hostname ?? host, port ?? config[section].port);
  const flag = flagsOf[section][key];
  const path = [section, key];
  return new ConfigError([
    { where: loaded.whereIs(path), path, message: `${message} (or by --${flag}, ${variableOf(flag)})` },
  ]);
}

/** The config refuses one port twice on one host, so port and host name the section. */
function sectionOf(
  { address, hostname, port }: ListenError,
  { listen, operations }: LoadedConfig['config'],
): keyof typeof flagsOf {
  const host = hostname ?? address;
  if (port !== undefined && listen.port !== operations.port) return port === operations.port ? 'operations' : 'listen';
  return host === operations.host && host !== listen.host ? 'operations' : 'listen';
}

/** The key of the config to change, and the message. */
function explain(code: string, host: string, port: number): readonly ['host' | 'port', string] {
  const where = `port ${port} of ${host}`;
  const own = `no such address on this machine, whose addresses "ip address" lists; 0.0.0.0 listens on all, 127.0.0.1 for this machine alone`;
  switch (code) {
    case 'EADDRINUSE':
      return [
        'port',
        `${where} is in use by another process, which "ss -ltnp sport = :${port}" names; stop it, or choose another port, 0 for a free one`,
      ];
    case 'EACCES':
      return [
        'port',
        `no permission to listen on ${where}: ports below 1024 need CAP_NET_BIND_SERVICE; choose a port from 1024 on`,
      ];
    case 'EADDRNOTAVAIL':
      return ['host', `cannot listen on ${where}: ${own}`];
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return ['host', `cannot listen on ${where}: the name has no address (${code}); choose an address`];
    default:
      return ['port', `cannot listen on ${where}: ${code}`];
  }
}
