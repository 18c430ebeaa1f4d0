/** The log of a process: lines of JSON or text, warnings and errors counted. */
import { hostname } from 'node:os';
import { styleText } from 'node:util';
import { pino, type DestinationStream, type Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Config } from '../../config/index.ts';
import { Counter } from '../../metrics/index.ts';
import { LogOutput } from './log-output.ts';
import { formatLogLine } from './log-text.ts';

/** The counted levels. */
export const loudLevels = ['warn', 'error', 'fatal'] as const;
type LoudLevel = (typeof loudLevels)[number];
/** By pino's numbers. */
const levelOf: Readonly<Record<number, LoudLevel | undefined>> = { 40: 'warn', 50: 'error', 60: 'fatal' };

/** Counts the lines of a logger and its children; it exists before the registry does. */
export class LogLines {
  readonly #readDropped: () => number;
  readonly #counts: Record<LoudLevel, number> = { warn: 0, error: 0, fatal: 0 };

  /** `readDropped`: lines lost by the log's output so far. */
  constructor(readDropped: () => number = () => 0) {
    this.#readDropped = readDropped;
  }

  /** Counts a line; `level` is pino's number. */
  note(level: number): void {
    const name = levelOf[level];
    if (name !== undefined) this.#counts[name] += 1;
  }

  get dropped(): number {
    return this.#readDropped();
  }

  written(level: LoudLevel): number {
    return this.#counts[level];
  }

  /** Registers the families of these lines. */
  register(registry: Registry): void {
    new Counter(registry, {
      name: 'ledgergate_log_lines_total',
      help: 'Lines that were written to the log at the levels warn, error and fatal.',
      labels: { level: loudLevels },
      counted: (labels) => this.written(labels.level),
    });
    new Counter(registry, {
      name: 'ledgergate_log_lines_dropped_total',
      help: 'Log lines that were lost because their reader is too slow, or gone.',
      counted: () => this.dropped,
    });
  }
}

interface CountedLog {
  readonly log: Logger;
  /** Counts the lines of the logger and its children. */
  readonly lines: LogLines;
}

interface ProcessLog extends CountedLog {
  /** Writes the buffer, for at most a second; awaited before the process ends. */
  readonly flush: () => Promise<void>;
}

interface LogOptions {
  /** Default: stdout. */
  readonly to?: DestinationStream;
  /** Fields of every line. */
  readonly fields?: object;
  readonly lines?: LogLines;
}

/** A logger, without a bound on unread lines. */
export function createLog(level: string, { to, fields, lines = new LogLines() }: LogOptions = {}): CountedLog {
  const options = {
    level,
    base: { pid: process.pid, hostname: hostname(), ...fields },
    hooks: {
      // pino calls it for written lines only.
      logMethod(this: Logger, line, method, level) {
        lines.note(level);
        method.apply(this, line);
      },
    } satisfies NonNullable<Parameters<typeof pino>[0]>['hooks'],
  };
  return { log: to === undefined ? pino(options) : pino(options, to), lines };
}

type ProcessLogConfig = Pick<Config['log'], 'level' | 'format'>;

const longestFlushMs = 1_000;

/** The log on standard error, created once in a process. `fields` are in every line. */
export function createProcessLog({ level, format }: ProcessLogConfig, fields: object = {}): ProcessLog {
  const output = new LogOutput(process.stderr);
  // The type lacks `undefined`, the value of a pipe.
  const isTerminal = (process.stderr.isTTY as boolean | undefined) === true;
  const isText = format === 'text' || (format === 'auto' && isTerminal);
  const to = isText ? { write: (line: string) => output.write(formatLogLine(line, paintLevel)) } : output;
  const counted = createLog(level, { to, fields, lines: new LogLines(() => output.dropped) });
  output.onResumed = (lost) => counted.log.warn({ lost }, 'log lines were dropped: the reader of the log is too slow');
  process.on('exit', () => output.end());
  return { ...counted, flush: () => output.flush(longestFlushMs) };
}

/** Errors red and warnings yellow, where standard error shows colours. */
function paintLevel(word: string, level: number): string {
  if (level < 40) return word;
  return styleText(level > 40 ? 'red' : 'yellow', word, { stream: process.stderr });
}

/** The log settings of one process: the level of its logger, and the rules of access lines. */
export class LogControl {
  readonly #log: Logger;
  #inForce: Config['log'];

  constructor(log: Logger, config: Config['log']) {
    this.#log = log;
    this.#inForce = config;
  }

  get inForce(): Config['log'] {
    return this.#inForce;
  }

  set(next: Config['log']): void {
    // The caller's logger may have a level of its own.
    if (next.level !== this.#inForce.level) this.#log.level = next.level;
    this.#inForce = next;
  }
}
