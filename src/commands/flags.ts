/**
 * Every flag of every command, once, and the parsing of command line and environment by it. Each has an environment
 * variable: `--operations-port` is LEDGERGATE_OPERATIONS_PORT.
 */
import { parseArgs } from 'node:util';
import type { GivenSetting } from '../config/index.ts';
import { nearMissHint } from '../ledger/index.ts';
import { type CommandRun, type Environment, UsageError } from './command.ts';

/** One flag: its help, and the values it takes. */
export interface Flag {
  /** Placeholder of the value in help; absent: a switch, without a value. */
  readonly value?: string;
  /** May be repeated; in the environment, its values are separated by commas. */
  readonly isList?: boolean;
  readonly isPort?: boolean;
  readonly choices?: readonly string[];
  readonly meaning: string;
}

/** All flags by name; each command lists those that it takes. */
export const flags = {
  config: { value: 'FILE', meaning: 'Config file (YAML).' },
  upstream: {
    isList: true,
    value: 'URL',
    meaning: 'A full node, such as http://10.0.0.1:8080/v1. May be repeated. Replaces the upstreams of the file.',
  },
  archival: {
    isList: true,
    value: 'URL',
    meaning: 'A node asked only when no full node holds the version. May be repeated, like --upstream.',
  },
  dialect: {
    value: 'NAME',
    meaning: 'node: X-NODE-* headers. aptos: X-APTOS-* headers. auto: those of the nodes.',
  },
  'chain-id': {
    value: 'N',
    meaning: 'Chain id of the ledger: 1 to 255, mainnet (1) or testnet (2). Nodes of any other chain are not asked.',
  },
  host: { value: 'HOST', meaning: 'Address clients connect to; 127.0.0.1 for the sample gateway.' },
  port: { isPort: true, value: 'N', meaning: 'Port clients connect to. 0 picks a free one and prints it.' },
  'operations-host': {
    value: 'HOST',
    meaning: 'Address of /livez, /readyz, /metrics and /status. 0.0.0.0 in a container.',
  },
  'operations-port': {
    isPort: true,
    value: 'N',
    meaning: 'Port for /livez, /readyz, /metrics and /status. 0 picks a free one.',
  },
  'log-level': {
    value: 'LEVEL',
    meaning: 'trace, debug, info, warn, error, fatal or silent.',
  },
  'log-format': {
    value: 'FORM',
    meaning: 'auto (text on a terminal, otherwise JSON), text or json.',
  },
  nodes: { meaning: 'The sample nodes alone: one that prunes on --port, an archival one on the next port.' },
  offline: { meaning: 'Check the config only; ask no upstream.' },
  format: { value: 'FORM', choices: ['text', 'json'], meaning: 'text (default) or json.' },
  url: { value: 'URL', meaning: 'Operations port of a running gateway, such as http://127.0.0.1:9090.' },
  'token-file': {
    value: 'FILE',
    meaning: 'File with a token for /admin of the operations port. Default: operations.token of the config.',
  },
  file: { value: 'FILE', meaning: 'File of keys. Default: access.keys.file of the config.' },
  name: { value: 'NAME', meaning: 'Name of the key, unique in its file.' },
  tenant: { value: 'NAME', meaning: 'Tenant of the key: keys of one tenant share its limits. Default: the name.' },
  plan: { value: 'NAME', meaning: 'A plan of access.plans.' },
  operations: {
    isList: true,
    value: 'WORD',
    meaning: 'Operation of the key: read, view, encode, submit or pass. May be repeated. Default: all of its plan.',
  },
  origins: {
    isList: true,
    value: 'ORIGIN',
    meaning: 'Web origin that may use the key, such as https://app.example. May be repeated.',
  },
  addresses: {
    isList: true,
    value: 'NETWORK',
    meaning: 'Network of the clients that may use the key, such as 203.0.113.0/24 or 2001:db8::/32. May be repeated.',
  },
  expires: { value: 'TIME', meaning: 'End of the key, in UTC: 2027-01-01T00:00:00Z. Default: never.' },
  json: { meaning: 'The same as --format json, as status has it: all facts in one line.' },
} as const satisfies Readonly<Record<string, Flag>>;

/** Name of a flag, without `--`. */
export type FlagName = keyof typeof flags;

/** One command of the program; its code is loaded when it is called. */
export interface CliCommand {
  readonly name: string;
  readonly summary: string;
  /** Forms of the call, without the program's name. */
  readonly usage: readonly string[];
  readonly flags: readonly FlagName[];
  /** The one argument that a command may take besides flags. */
  readonly operand?: string;
  /** Imports the work: a health check every few seconds must not pay for loading the gateway. */
  load(): Promise<CommandRun>;
}

const prefix = 'LEDGERGATE_';

/** The environment variable that stands for a flag: `LEDGERGATE_CHAIN_ID` for `chain-id`. */
export function variableOf(flag: string): string {
  return `${prefix}${flag.toUpperCase().replaceAll('-', '_')}`;
}

/** Warnings about LEDGERGATE_* variables that nothing reads and that look like a slip of one that is read. */
export function strayVariables(env: Environment): readonly string[] {
  const known = Object.keys(flags).map(variableOf);
  return Object.keys(env).flatMap((name) => {
    if (!name.startsWith(prefix) || known.includes(name)) return [];
    // Without the prefix: twelve letters in common would make everything look near.
    const words = known.map((variable) => variable.slice(prefix.length));
    const hint = nearMissHint(name.slice(prefix.length), words, prefix);
    return hint === '' ? [] : [`${name} is not read by anything${hint}`];
  });
}

type Given = Map<string, GivenSetting>;

/** Parses flags and LEDGERGATE_* variables; a flag wins over its variable. Throws `UsageError`. */
export function parseArguments(command: CliCommand, args: readonly string[], env: Environment) {
  const options = Object.fromEntries(
    command.flags.map(
      (name) => [name, { type: isSwitch(flags[name]) ? 'boolean' : 'string', multiple: true }] as const,
    ),
  );
  // Not strict: its messages name neither the near miss nor what the command takes.
  const { tokens } = parseArgs({
    args: [...args],
    options: { ...options, help: { type: 'boolean', short: 'h' } },
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const given: Given = new Map();
  const operands: string[] = [];
  let help = false;
  for (const token of tokens) {
    if (token.kind === 'positional') operands.push(token.value);
    if (token.kind !== 'option') continue;
    if (token.name === 'help') help = true;
    else addFlag(command, token, given);
  }
  const extra = operands[command.operand === undefined ? 0 : 1];
  if (extra !== undefined && !help) throw new UsageError(`${command.name}: unexpected argument "${extra}"`);
  for (const flag of command.flags) if (!given.has(flag)) addVariable(flag, env, given);
  return { help, operand: operands[0], given };
}

type Token = NonNullable<ReturnType<typeof parseArgs>['tokens']>[number];
type OptionToken = Extract<Token, { readonly kind: 'option' }>;

function addFlag(command: CliCommand, { name, rawName, value, inlineValue }: OptionToken, given: Given): void {
  if (!isFlag(name) || !command.flags.includes(name)) {
    const known = [...command.flags, 'help'].map((flag) => `--${flag}`);
    throw new UsageError(`${command.name}: unknown flag ${rawName}${nearMissHint(rawName, known)}`);
  }
  const flag: Flag = flags[name];
  if (isSwitch(flag)) {
    if (value !== undefined) throw new UsageError(`${command.name}: ${rawName} takes no value`);
    given.set(name, { values: ['true'], origin: rawName });
    return;
  }
  // A flag that swallows the next flag as its value hides two mistakes in one.
  if (value === undefined || value === '' || (!inlineValue && value.startsWith('-'))) {
    throw new UsageError(`${command.name}: ${rawName} needs a value: ${rawName} ${flag.value}`);
  }
  const earlier = given.get(name)?.values ?? [];
  if (earlier.length > 0 && flag.isList !== true) throw new UsageError(`${command.name}: ${rawName} is given twice`);
  checkChoice(flag, rawName, value);
  given.set(name, { values: [...earlier, value], origin: rawName });
}

/** An empty variable is as good as none: that is how compose files and charts leave one out. */
function addVariable(name: FlagName, env: Environment, given: Given): void {
  const flag: Flag = flags[name];
  const variable = variableOf(name);
  const text = env[variable]?.trim() ?? '';
  if (text === '') return;
  // Kubernetes describes a Service called `ledgergate` as LEDGERGATE_PORT=tcp://10.0.0.1:8080 in every container.
  if (flag.isPort === true && /^(?:tcp|udp|sctp):\/\//.test(text)) return;
  if (isSwitch(flag)) {
    if (!['1', 'true', '0', 'false'].includes(text))
      throw new UsageError(`${variable}: expected true or false, got "${text}"`);
    if (text === '1' || text === 'true') given.set(name, { values: ['true'], origin: variable });
    return;
  }
  checkChoice(flag, variable, text);
  const words = flag.isList === true ? text.split(',').map((word) => word.trim()) : [text];
  given.set(name, { values: words.filter((word) => word !== ''), origin: variable });
}

function checkChoice(flag: Flag, origin: string, value: string): void {
  if (flag.choices === undefined || flag.choices.includes(value)) return;
  throw new UsageError(
    `${origin}: expected ${flag.choices.join(' or ')}, got "${value}"${nearMissHint(value, flag.choices)}`,
  );
}

function isFlag(name: string): name is FlagName {
  return Object.hasOwn(flags, name);
}

function isSwitch({ value }: Flag): boolean {
  return value === undefined;
}
