/** The process: arguments in, exit code out, signals, and what nobody caught. */
import type { Screen, Terminal } from './commands/command.ts';
import { runCommand } from './commands/run-command.ts';

const terminal: Terminal = {
  env: process.env,
  out: (line) => void process.stdout.write(`${line}\n`),
  error: (line) => void process.stderr.write(`${line}\n`),
  screen: screenOf(process.stdout),
  stopSignal,
  onHangUp: (listener) => void process.on('SIGHUP', listener),
};

// Somebody who closes the pipe has read enough; a gateway goes on serving all the same.
process.stdout.on('error', () => undefined);
process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);

const code = await runCommand(process.argv.slice(2), terminal);
// Pipes are written asynchronously on some platforms: the exit waits for what was printed.
process.stdout.write('', () => process.exit(code));

function screenOf(out: NodeJS.WriteStream): Screen | undefined {
  // Types say that it always is one.
  if ((out.isTTY as boolean | undefined) !== true) return undefined;
  // Some terminals say that they have no size.
  return {
    get columns() {
      return out.columns || 80;
    },
    get rows() {
      return out.rows || 24;
    },
    hasColours: out.hasColors(),
    write: (text) => void out.write(text),
  };
}

/** The first signal asks for a polite end, the second one gets an immediate one. */
function stopSignal(): AbortSignal {
  const controller = new AbortController();
  const onSignal = (): void => {
    if (controller.signal.aborted) process.exit(1);
    controller.abort();
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  return controller.signal;
}

/** After a fault nobody expected, the state of the process is unknown: whoever started it starts a fresh one. */
function fail(error: unknown): void {
  terminal.error(`ledgergate: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  process.exit(1);
}
