/** The log of a process: JSON lines, counted where they are loud. */
import { hostname } from 'node:os';
import { pino, type DestinationStream, type Logger } from 'pino';
import type { AccessLogConfig, LogConfig, LogLevel } from '../../config/config.ts';
import { LogLines } from '../../metrics/log-metrics.ts';
import { LogOutput } from './log-output.ts';

/** A logger with its counter. */
export interface CountedLog {
  readonly log: Logger;
  /** Counts what it and its children write. */
  readonly lines: LogLines;
}

/** The log of a process that serves. */
export interface ProcessLog extends CountedLog {
  /** Writes what is left, for a second at most: to be awaited before the process ends. */
  readonly flush: () => Promise<void>;
}

/** How `createLog` writes. */
export interface LogOptions {
  /** Default: stdout. */
  readonly to?: DestinationStream;
  /** In every line. */
  readonly fields?: object;
  readonly lines?: LogLines;
}

/** A logger of its own, without a bound on lines that are not read. */
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

const longestFlushMs = 1_000;

/** Lines go to standard error. To be called once in a process. `fields` are in every line. */
export function createProcessLog(level: LogLevel, fields: object = {}): ProcessLog {
  const output = new LogOutput(process.stderr);
  const counted = createLog(level, { to: output, fields, lines: new LogLines(() => output.dropped) });
  output.onResumed = (lost) => counted.log.warn({ lost }, 'log lines were lost: their reader is too slow');
  process.on('exit', () => output.end());
  return { ...counted, flush: () => output.flush(longestFlushMs) };
}

/** The log settings of one process: the level of its logger, and the rules of access lines. */
export class LogControl {
  readonly #log: Logger;
  #inForce: LogConfig;

  constructor(log: Logger, config: LogConfig) {
    this.#log = log;
    this.#inForce = config;
  }

  get access(): AccessLogConfig {
    return this.#inForce.access;
  }

  set(next: LogConfig): void {
    // A logger of another level was handed in by the caller.
    if (next.level !== this.#inForce.level) this.#log.level = next.level;
    this.#inForce = next;
  }
}
