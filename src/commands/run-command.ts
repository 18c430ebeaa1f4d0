/** Runs the arguments of the program, and returns an exit code. */
import { nearMissHint } from '../config/source/near-miss.ts';
import { ConfigError, formatProblem } from '../config/source/problem.ts';
import { packageVersion } from '../config/package-version.ts';
import { parseArguments } from './arguments.ts';
import { type CliCommand, type ExitCode, RuntimeFailure, type Terminal, UsageError } from './command.ts';
import { variableOf } from './flags.ts';
import { commandHelp, overview, commands } from './table.ts';

/** Runs one command line; every failure is on the terminal when this resolves. */
export async function runCommand(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  try {
    return await dispatch(args, terminal);
  } catch (error) {
    return report(error, terminal);
  }
}

async function dispatch(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  const [word, ...rest] = args;
  if (word === '--version') {
    terminal.out(packageVersion());
    return 0;
  }
  if (word === '--help' || word === '-h') {
    terminal.out(overview());
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
  const hint = nearMissHint(word, names) || `; the commands are ${names.join(', ')}`;
  throw new UsageError(`unknown command "${word}"${hint}`);
}

function report(error: unknown, terminal: Terminal): ExitCode {
  if (error instanceof ConfigError) {
    for (const problem of error.problems) terminal.error(formatProblem(problem));
    return 2;
  }
  if (error instanceof UsageError || error instanceof RuntimeFailure) {
    terminal.error(`ledgergate: ${error.message}`);
    return error instanceof UsageError ? 2 : 1;
  }
  // A bug: its report needs the stack.
  terminal.error(error instanceof Error ? (error.stack ?? error.message) : String(error));
  return 1;
}
