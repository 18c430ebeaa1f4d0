/** The log of a process: JSON lines, counted where they are loud. */
import { hostname } from 'node:os';
import { pino, type DestinationStream, type Logger } from 'pino';
import { LogLines } from '../metrics/log-metrics.ts';

export interface CountedLog {
  readonly log: Logger;
  /** Counts what it and its children write. */
  readonly lines: LogLines;
}

export interface LogOptions {
  /** Default: stdout. */
  readonly to?: DestinationStream;
  /** In every line. */
  readonly fields?: object;
  readonly lines?: LogLines;
}

export function createLog(level: string, { to, fields, lines = new LogLines() }: LogOptions = {}): CountedLog {
  const options = {
    level,
    base: { pid: process.pid, hostname: hostname(), ...fields },
    hooks: {
      // Called for lines that are written only: what the level keeps out costs nothing.
      logMethod(this: Logger, line, method, level) {
        lines.note(level);
        method.apply(this, line);
      },
    } satisfies NonNullable<Parameters<typeof pino>[0]>['hooks'],
  };
  return { log: to === undefined ? pino(options) : pino(options, to), lines };
}
