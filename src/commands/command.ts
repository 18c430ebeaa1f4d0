/** The parts of a command, its inputs from the outside, and tables for its output. */
import type { GivenSetting } from '../config/index.ts';

/** 0: fine. 1: something failed while running. 2: bad usage or config. */
export type ExitCode = 0 | 1 | 2;

/** Runs a call; resolves with the exit code of the process. */
export type CommandRun = (call: CommandCall) => Promise<ExitCode>;

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** One parsed call of a command. */
export interface CommandCall {
  readonly operand: string | undefined;
  /** Flags and variables, by name of the flag. */
  readonly given: ReadonlyMap<string, GivenSetting>;
  readonly terminal: Terminal;
}

/** Environment, output and signals of the process; tests pass their own. */
export interface Terminal {
  readonly env: Environment;
  out(line: string): void;
  error(line: string): void;
  /** Aborted when the process is asked to end. From the first call on, signals do nothing else. */
  stopSignal(): AbortSignal;
  /** Calls `listener` at each SIGHUP, which does nothing else from then on. */
  onHangUp(listener: () => void): void;
}

/** A command line with an error; the message, one line, names a valid one. Exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** A fault outside of the program, printed without a stack. Exit code 1. */
export class RuntimeFailure extends Error {
  override readonly name = 'RuntimeFailure';
}

/** Columns padded to the widest cell, two spaces apart. */
export function formatTable(rows: readonly (readonly string[])[]): readonly string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length);
  }
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
