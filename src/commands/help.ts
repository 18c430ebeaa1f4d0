/** The texts of --help. */
import type { CliCommand } from './command.ts';
import { type Flag, flags, variableOf } from './flags.ts';
import { formatTable } from './text-table.ts';

/** Help of the program: its commands, a line each. */
export function overview(commands: readonly CliCommand[]): string {
  return [
    'A caching read-through gateway in front of a fleet of ledger nodes.',
    '',
    'Usage: ledgergate COMMAND [FLAGS]',
    '',
    ...formatTable(commands.map(({ name, summary }) => [`  ${name}`, summary])),
    '',
    'Without a command the sample fleet is served (or, when LEDGERGATE_CONFIG or LEDGERGATE_UPSTREAM is set, `serve`).',
    '`ledgergate COMMAND --help` shows its flags; `ledgergate --version` the version.',
    'Exit codes: 0 fine, 1 failed while running, 2 bad usage or config.',
  ].join('\n');
}

/** Help of one command: usage, flags and their environment variables. */
export function commandHelp(command: CliCommand): string {
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
    'Flags, and the environment variables that stand in for them:',
    ...formatTable(rows),
  ].join('\n');
}
