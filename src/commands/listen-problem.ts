/** A failed listen as a problem of the config key behind it. */
import type { LoadedConfig } from '../config/source/load.ts';
import { ConfigError } from '../config/source/problem.ts';
import { variableOf } from './flags.ts';

type ListenError = NodeJS.ErrnoException & {
  readonly address?: string;
  readonly hostname?: string;
  readonly port?: number;
};

/** Flags of the two sections. */
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

function explain(code: string, host: string, port: number): readonly ['host' | 'port', string] {
  switch (code) {
    case 'EADDRINUSE':
      return [
        'port',
        `port ${port} of ${host} is in use by another process, which "ss -ltnp sport = :${port}" names; stop it, or choose another port, 0 for a free one`,
      ];
    case 'EACCES':
      return [
        'port',
        `no permission to listen on port ${port} of ${host}: ports below 1024 need CAP_NET_BIND_SERVICE; choose a port from 1024 on`,
      ];
    case 'EADDRNOTAVAIL':
      return [
        'host',
        `cannot listen on port ${port} of ${host}: no such address on this machine, whose addresses "ip address" lists; 0.0.0.0 listens on all, 127.0.0.1 for this machine alone`,
      ];
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return ['host', `cannot listen on port ${port} of ${host}: the name has no address (${code}); choose an address`];
    default:
      return ['port', `cannot listen on port ${port} of ${host}: ${code}`];
  }
}
