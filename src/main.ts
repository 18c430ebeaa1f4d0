/** The process: arguments, signals, uncaught errors, exit code. */
import { isatty } from 'node:tty';
import { runCommand, type Terminal } from './commands/index.ts';

/** A signal within this time of the first is the same: npm passes a Ctrl-C on that the terminal sent to both. */
const sameSignalMs = 300;
const terminalStreams = [0, 1, 2].filter(isatty);

const terminal: Terminal = {
  env: process.env,
  out: (line) => void process.stdout.write(`${line}\n`),
  error: (line) => void process.stderr.write(`${line}\n`),
  stopSignal,
  // A hang-up by a closed terminal ends the process, as SIGTERM does: no other signal would come.
  onHangUp: (listener) =>
    void process.on('SIGHUP', () => (isTerminalClosed() ? process.kill(process.pid, 'SIGTERM') : listener())),
};

// A closed pipe must not end a gateway that serves.
process.stdout.on('error', () => undefined);
process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);

const code = await runCommand(process.argv.slice(2), terminal);
// Some platforms write pipes asynchronously: the exit waits for the output.
process.stdout.write('', () => process.exit(code));

/** Streams of a closed terminal are no longer a terminal's; the kernel sees to that before it sends SIGHUP. */
function isTerminalClosed(): boolean {
  return terminalStreams.length > 0 && !terminalStreams.some(isatty);
}

/** The first signal starts the drain, the second one ends the process. */
function stopSignal(): AbortSignal {
  const controller = new AbortController();
  let firstAtMs = 0;
  const onSignal = (): void => {
    if (!controller.signal.aborted) {
      firstAtMs = performance.now();
      controller.abort();
    } else if (performance.now() - firstAtMs > sameSignalMs) process.exit(1);
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  return controller.signal;
}

/** After an uncaught error the state of the process is undefined: a supervisor starts a fresh one. */
function fail(error: unknown): void {
  terminal.error(`ledgergate: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  process.exit(1);
}
