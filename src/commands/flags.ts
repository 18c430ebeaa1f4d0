/** Every flag of every command, once. Each has an environment variable: `--operations-port` is LEDGERGATE_OPERATIONS_PORT. */
import { nearMissHint } from '../ledger/index.ts';

/** One flag: its kind, its help, and the values it takes. */
export interface Flag {
  /** `list` may be repeated (in the environment: separated by commas); `switch` takes no value. */
  readonly kind: 'text' | 'port' | 'list' | 'switch';
  /** Placeholder of the value in help. */
  readonly value?: string;
  readonly choices?: readonly string[];
  /** Values that shells propose; the config's schema checks them. */
  readonly proposed?: readonly string[];
  readonly meaning: string;
}

/** All flags by name; each command lists those that it takes. */
export const flags = {
  config: { kind: 'text', value: 'FILE', meaning: 'Config file (YAML).' },
  upstream: {
    kind: 'list',
    value: 'URL',
    meaning: 'A full node, such as http://10.0.0.1:8080/v1. May be repeated. Replaces the upstreams of the file.',
  },
  archival: {
    kind: 'list',
    value: 'URL',
    meaning: 'A node asked only when no full node holds the version. May be repeated, like --upstream.',
  },
  dialect: {
    kind: 'text',
    value: 'NAME',
    proposed: ['node', 'aptos', 'auto'],
    meaning: 'node: X-NODE-* headers. aptos: X-APTOS-* headers. auto: those of the nodes.',
  },
  'chain-id': {
    kind: 'text',
    value: 'N',
    meaning: 'Chain id of the ledger: 1 to 255, mainnet (1) or testnet (2). Nodes of any other chain are not asked.',
  },
  host: { kind: 'text', value: 'HOST', meaning: 'Address clients connect to; 127.0.0.1 for the sample gateway.' },
  port: { kind: 'port', value: 'N', meaning: 'Port clients connect to. 0 picks a free one and prints it.' },
  'operations-host': {
    kind: 'text',
    value: 'HOST',
    meaning: 'Address of /livez, /readyz, /metrics and /status. 0.0.0.0 in a container.',
  },
  'operations-port': {
    kind: 'port',
    value: 'N',
    meaning: 'Port for /livez, /readyz, /metrics and /status. 0 picks a free one.',
  },
  'log-level': {
    kind: 'text',
    value: 'LEVEL',
    proposed: ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
    meaning: 'trace, debug, info, warn, error, fatal or silent.',
  },
  'log-format': {
    kind: 'text',
    value: 'FORM',
    proposed: ['auto', 'text', 'json'],
    meaning: 'auto (text on a terminal, otherwise JSON), text or json.',
  },
  nodes: {
    kind: 'switch',
    meaning: 'The sample nodes alone: one that prunes on --port, an archival one on the next port.',
  },
  offline: { kind: 'switch', meaning: 'Check the config only; ask no upstream.' },
  format: { kind: 'text', value: 'FORM', choices: ['text', 'json'], meaning: 'text (default) or json.' },
  file: { kind: 'text', value: 'FILE', meaning: 'File of keys. Default: access.keys.file of the config.' },
  name: { kind: 'text', value: 'NAME', meaning: 'Name of the key, unique in its file.' },
  tenant: {
    kind: 'text',
    value: 'NAME',
    meaning: 'Tenant of the key: keys of one tenant share its limits. Default: the name.',
  },
  plan: { kind: 'text', value: 'NAME', meaning: 'A plan of access.plans.' },
  operations: {
    kind: 'list',
    value: 'WORD',
    meaning: 'Operation of the key: read, view, encode, submit or pass. May be repeated. Default: all of its plan.',
  },
  origins: {
    kind: 'list',
    value: 'ORIGIN',
    meaning: 'Web origin that may use the key, such as https://app.example. May be repeated.',
  },
  expires: { kind: 'text', value: 'TIME', meaning: 'End of the key, in UTC: 2027-01-01T00:00:00Z. Default: never.' },
  json: { kind: 'switch', meaning: 'The same as --format json, as status has it: all facts in one line.' },
} as const satisfies Readonly<Record<string, Flag>>;

/** Name of a flag, without `--`. */
export type FlagName = keyof typeof flags;

/** The flags that set or name a config: `serve`, `check` and `config` take all of them. */
export const configFlags: readonly FlagName[] = [
  'config',
  'upstream',
  'archival',
  'dialect',
  'chain-id',
  'host',
  'port',
  'operations-host',
  'operations-port',
  'log-level',
  'log-format',
];

/** The names of all flags. */
export function flagNames(): readonly FlagName[] {
  return Object.keys(flags) as FlagName[];
}

const prefix = 'LEDGERGATE_';

/** The environment variable that stands for a flag: `LEDGERGATE_CHAIN_ID` for `chain-id`. */
export function variableOf(flag: string): string {
  return `${prefix}${flag.toUpperCase().replaceAll('-', '_')}`;
}

/** Warnings about LEDGERGATE_* variables that nothing reads and that look like a slip of one that is read. */
export function strayVariables(env: Readonly<Record<string, string | undefined>>): readonly string[] {
  const known = flagNames().map(variableOf);
  return Object.keys(env).flatMap((name) => {
    if (!name.startsWith(prefix) || known.includes(name)) return [];
    // Without the prefix: twelve letters in common would make everything look near.
    const words = known.map((variable) => variable.slice(prefix.length));
    const hint = nearMissHint(name.slice(prefix.length), words, prefix);
    return hint === '' ? [] : [`${name} is not read by anything${hint}`];
  });
}
