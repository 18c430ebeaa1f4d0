/** Runs the arguments of the program, and returns an exit code. */
import { nearMissHint } from '../ledger/index.ts';
import { type ExitCode, RuntimeFailure, type Terminal, UsageError, formatTable } from './command.ts';
import { type CliCommand, type Flag, type FlagName, flags, parseArguments, variableOf } from './flags.ts';

/** Runs one command line; every failure is on the terminal when this resolves. */
export async function runCommand(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  try {
    return await dispatch(args, terminal);
  } catch (error) {
    return await report(error, terminal);
  }
}

async function dispatch(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  const [word, ...rest] = args;
  if (word === '--version' || word === '-v' || word === 'version') {
    // The config's schema takes longer to load than most commands run: a container runs `health` each few seconds.
    const { packageVersion } = await import('../config/index.ts');
    terminal.out(packageVersion());
    return 0;
  }
  if (word === '--help' || word === '-h' || word === 'help') {
    terminal.out(word === 'help' && rest[0] !== undefined ? commandHelp(findCommand(rest[0])) : overview());
    return 0;
  }
  const command = word === undefined ? commandFromEnvironment(terminal) : findCommand(word);
  const { help, operand, given } = parseArguments(command, rest, terminal.env);
  if (help) {
    terminal.out(commandHelp(command));
    return 0;
  }
  const run = await command.load();
  return run({ operand, given, terminal });
}

/** Without a command: `serve` when the environment names a fleet, as in a container; otherwise the sample, loudly. */
function commandFromEnvironment(terminal: Terminal): CliCommand {
  const isServed = ['config', 'upstream', 'archival'].some(
    (flag) => (terminal.env[variableOf(flag)]?.trim() ?? '') !== '',
  );
  if (!isServed) {
    terminal.out('No command was given: serving the built-in SAMPLE fleet. `ledgergate --help` lists the commands.\n');
  }
  return findCommand(isServed ? 'serve' : 'sample');
}

function findCommand(word: string): CliCommand {
  const command = commands.find(({ name }) => name === word);
  if (command !== undefined) return command;
  if (word.startsWith('-')) {
    const hint = nearMissHint(word, ['--help', '--version']) || ', as in: ledgergate serve FILE';
    throw new UsageError(`expected a command before ${word}${hint}`);
  }
  const names = commands.map(({ name }) => name);
  const hint = nearMissHint(word, [...names, 'help', 'version']) || `; the commands are ${names.join(', ')}`;
  throw new UsageError(`unknown command "${word}"${hint}`);
}

async function report(error: unknown, terminal: Terminal): Promise<ExitCode> {
  if (error instanceof UsageError || error instanceof RuntimeFailure) {
    terminal.error(`ledgergate: ${error.message}`);
    return error instanceof UsageError ? 2 : 1;
  }
  const { ConfigError } = await import('../config/index.ts');
  if (error instanceof ConfigError) {
    for (const problem of error.problems) terminal.error(ConfigError.format(problem));
    return 2;
  }
  // A bug: its report needs the stack.
  terminal.error(error instanceof Error ? (error.stack ?? error.message) : String(error));
  return 1;
}

/** The flags that set or name a config: `serve`, `check` and `config` take all of them. */
const configFlags: readonly FlagName[] = [
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

/** All commands, in the order of the overview. */
export const commands: readonly CliCommand[] = [
  {
    name: 'serve',
    summary: 'Serves the ledger interface in front of a fleet of nodes.',
    usage: ['serve FILE', 'serve --upstream URL [--upstream URL ...] [--archival URL ...] [--dialect aptos]'],
    flags: configFlags,
    operand: 'FILE',
    load: async () => (await import('./run-gateway.ts')).serve,
  },
  {
    name: 'check',
    summary: 'Checks a config and, unless --offline, asks every upstream and Redis.',
    usage: ['check FILE [--offline] [--format json]'],
    flags: [...configFlags, 'offline', 'format'],
    operand: 'FILE',
    load: async () => (await import('./check/check.ts')).check,
  },
  {
    name: 'config',
    summary: 'Prints the effective config, secrets masked.',
    usage: ['config FILE'],
    flags: configFlags,
    operand: 'FILE',
    load: async () => (await import('./given-config.ts')).config,
  },
  {
    name: 'sample',
    summary: 'Serves a small built-in fleet of sample nodes, to try things out.',
    usage: ['sample', 'sample --nodes [--host HOST] [--port N]'],
    flags: ['host', 'port', 'operations-host', 'operations-port', 'log-level', 'log-format', 'nodes'],
    load: async () => (await import('./sample.ts')).sample,
  },
  {
    name: 'health',
    summary: 'Asks a running gateway whether it is ready: exit code 0 or 1.',
    usage: ['health [URL]'],
    flags: ['config', 'operations-host', 'operations-port'],
    operand: 'URL',
    load: async () => (await import('./operations-port.ts')).health,
  },
  {
    name: 'status',
    summary: 'Prints the state of a running gateway once: problems, nodes, traffic, cache.',
    usage: ['status [URL] [--format json]'],
    flags: ['config', 'operations-host', 'operations-port', 'format', 'json'],
    operand: 'URL',
    load: async () => (await import('./operations-port.ts')).status,
  },
  {
    name: 'drain',
    summary: 'Sends a node of a running gateway no new requests; those in flight end.',
    usage: ['drain NAME [--config FILE] [--token-file FILE]'],
    flags: ['config', 'operations-host', 'operations-port', 'token-file'],
    operand: 'NAME',
    load: async () => (await import('./operations-port.ts')).drain,
  },
  {
    name: 'resume',
    summary: 'Sends a drained node requests again.',
    usage: ['resume NAME [--config FILE] [--token-file FILE]'],
    flags: ['config', 'operations-host', 'operations-port', 'token-file'],
    operand: 'NAME',
    load: async () => (await import('./operations-port.ts')).resume,
  },
  {
    name: 'keys',
    summary: 'Creates, lists and revokes keys of clients, in a keys file or at a running gateway.',
    usage: [
      'keys create --config FILE --name NAME --plan PLAN [--tenant NAME] [--operations read,view] [--origins ORIGIN] [--addresses NETWORK] [--expires TIME]',
      'keys list --config FILE [--format json]',
      'keys revoke --config FILE --name NAME',
      'keys ACTION --file FILE ...',
      'keys ACTION --url URL [--token-file FILE] ...',
    ],
    flags: [
      'config',
      'file',
      'url',
      'token-file',
      'format',
      'name',
      'tenant',
      'plan',
      'operations',
      'origins',
      'addresses',
      'expires',
    ],
    operand: 'ACTION',
    load: async () => (await import('./keys.ts')).keys,
  },
];

/** Help of the program: its commands, a line each. */
export function overview(): string {
  return [
    'A caching read-through gateway in front of a fleet of ledger nodes.',
    '',
    'Usage: ledgergate COMMAND [FLAGS]',
    '',
    ...formatTable(commands.map(({ name, summary }) => [`  ${name}`, summary])),
    '',
    'Without a command the sample fleet is served (or, when LEDGERGATE_CONFIG or LEDGERGATE_UPSTREAM is set, `serve`).',
    '`ledgergate help COMMAND` shows its flags; `ledgergate version` the version.',
    'Exit codes: 0 fine, 1 failed while running, 2 bad usage or config.',
  ].join('\n');
}

function commandHelp(command: CliCommand): string {
  const rows = command.flags.map((name) => {
    const flag: Flag = flags[name];
    const value = flag.value === undefined ? '' : ` ${flag.value}`;
    return [`  --${name}${value}`, variableOf(name), flag.meaning];
  });
  return [
    command.summary,
    '',
    ...command.usage.map((usage, index) => `${index === 0 ? 'Usage:' : '      '} ledgergate ${usage}`),
    '',
    ...(rows.length === 0
      ? []
      : ['Flags, and the environment variables that stand in for them:', ...formatTable(rows)]),
  ]
    .join('\n')
    .trimEnd();
}
