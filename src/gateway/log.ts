/**
 * The log of a process: lines of JSON or text at the level in force, warnings and errors counted. On standard error they
 * do not wait for their reader: a full pipe would block a synchronous write, and a write in Node's thread pool would keep
 * the process from ending. So lines are buffered, written as the stream accepts them, and dropped and counted above a bound.
 */
import { hostname } from 'node:os';
import type { Writable } from 'node:stream';
import { styleText } from 'node:util';
import { pino, type DestinationStream, type Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Config } from '../config/index.ts';
import { Counter } from '../metrics/index.ts';

const loudLevels = ['warn', 'error', 'fatal'] as const;
/** By pino's numbers. */
const levelOf: Readonly<Record<number, (typeof loudLevels)[number] | undefined>> = {
  40: 'warn',
  50: 'error',
  60: 'fatal',
};
const longestFlushMs = 1_000;
/** The level of the audit log, between `info` and `warn`. */
const auditLevel = { audit: 35 } as const;

/** The logger of a process, with its settings in force and the counts of its loud lines; and its audit log. */
export class GatewayLog {
  readonly logger: Logger;
  /** The config's, or an operator's; access lines read them at each request, and `set` alone replaces them. */
  inForce: Config['log'];
  readonly #to: DestinationStream | undefined;
  /** A logger of its own: `log.level` does not silence it. */
  readonly #audit: Logger<'audit'>;
  readonly #counts = { warn: 0, error: 0, fatal: 0 };

  /** `to`: default stdout, without a bound on unread lines. `fields` are in every line. */
  constructor(settings: Config['log'], to?: DestinationStream, fields: object = {}) {
    const count = (level: number): void => {
      const name = levelOf[level];
      if (name !== undefined) this.#counts[name] += 1;
    };
    const base = { pid: process.pid, hostname: hostname(), ...fields };
    const options = {
      level: settings.level,
      base,
      hooks: {
        // pino calls it for written lines only, those of child loggers included.
        logMethod(this: Logger, line, method, level) {
          count(level);
          method.apply(this, line);
        },
      } satisfies NonNullable<Parameters<typeof pino>[0]>['hooks'],
    };
    this.logger = to === undefined ? pino(options) : pino(options, to);
    const ofAudit = { base, level: 'audit', customLevels: auditLevel, useOnlyCustomLevels: true } as const;
    this.#audit = to === undefined ? pino(ofAudit) : pino(ofAudit, to instanceof LogOutput ? to.ofAudit : to);
    this.inForce = settings;
    this.#to = to;
  }

  /** The log on standard error, created once in a process. */
  static onStandardError(settings: Config['log'], fields?: object): GatewayLog {
    const { stderr } = process;
    // The type lacks `undefined`, the value of a pipe.
    const isTerminal = (stderr.isTTY as boolean | undefined) === true;
    const isText = settings.format === 'text' || (settings.format === 'auto' && isTerminal);
    const output = new LogOutput(stderr, isText ? (line) => formatLogLine(line, paintLevel) : undefined);
    const log = new GatewayLog(settings, output, fields);
    output.onResumed = (lost) => log.logger.warn({ lost }, 'log lines were dropped: the reader of the log is too slow');
    process.on('exit', () => output.end());
    return log;
  }

  set(next: Config['log']): void {
    // A test's logger may have a level of its own.
    if (next.level !== this.inForce.level) this.logger.level = next.level;
    this.inForce = next;
  }

  /** Writes a line of the audit log, whatever the level in force. `call`: its fields, without secrets. */
  audit(call: object): void {
    this.#audit.audit(call, 'audit');
  }

  /** Writes the buffer, for at most a second; awaited before the process ends. */
  async flush(): Promise<void> {
    if (this.#to instanceof LogOutput) await this.#to.flush(longestFlushMs);
  }

  register(registry: Registry): void {
    new Counter(registry, {
      name: 'ledgergate_log_lines_total',
      help: 'Lines that were written to the log at the levels warn, error and fatal.',
      labels: { level: loudLevels },
      counted: (labels) => this.#counts[labels.level],
    });
    new Counter(registry, {
      name: 'ledgergate_log_lines_dropped_total',
      help: 'Log lines that were lost because their reader is too slow, or gone.',
      counted: () => (this.#to instanceof LogOutput ? this.#to.dropped : 0),
    });
  }
}

/** Errors red and warnings yellow, where standard error shows colours. */
function paintLevel(word: string, level: number): string {
  if (level < 40) return word;
  return styleText(level > 40 ? 'red' : 'yellow', word, { stream: process.stderr });
}

/** Most buffered characters: some thousand lines. */
const mostChars = 1024 * 1024;
/** With those of the audit log, which other lines cannot displace. */
const mostWithAudit = 2 * mostChars;
/** After a loss, buffering resumes below this: a slightly slow reader causes one report. */
const resumeAt = mostChars / 2;
/** Pipes write this much atomically (POSIX: PIPE_BUF), so that lines of processes do not mix. */
const wholeChars = 4096;

/** The log buffer of a process and its stream. */
export class LogOutput {
  readonly #stream: Writable;
  readonly #format: ((line: string) => string) | undefined;
  /** Pieces of whole lines, oldest first. */
  #pieces: string[] = [];
  #chars = 0;
  #isWriting = false;
  #isBroken = false;
  #dropped = 0;
  /** Dropped since the last buffered line. */
  #lost = 0;
  #whenEmpty: (() => void) | undefined;
  /** Called when buffering resumes after `lost` dropped lines. */
  onResumed: (lost: number) => void = () => undefined;

  /** `format`: makes a line for people of pino's JSON. */
  constructor(stream: Writable, format?: (line: string) => string) {
    this.#stream = stream;
    this.#format = format;
    // A closed pipe ends the log, not the gateway.
    stream.on('error', () => {
      this.#isBroken = true;
      this.#clear();
      this.#whenEmpty?.();
    });
  }

  get dropped(): number {
    return this.#dropped;
  }

  readonly ofAudit: DestinationStream = { write: (json) => void this.#buffer(json, mostWithAudit) };

  /** Buffers a line, its newline included, or drops it. */
  write(json: string): void {
    const lost = this.#lost;
    if (!this.#buffer(json, lost > 0 ? resumeAt : mostChars)) {
      this.#lost += 1;
      return;
    }
    this.#lost = 0;
    if (lost > 0) this.onResumed(lost);
  }

  /** Resolves when the buffer is empty, or after `withinMs`. */
  async flush(withinMs: number): Promise<void> {
    if (!this.#isWriting) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#whenEmpty = resolve;
    const timer = setTimeout(resolve, withinMs);
    await promise;
    clearTimeout(timer);
  }

  /** Writes the buffer at once: for a process that exits. */
  end(): void {
    if (this.#pieces.length > 0) this.#stream.write(this.#pieces.join(''));
    this.#clear();
  }

  /** False: the line would exceed `most` characters, and is dropped. */
  #buffer(json: string, most: number): boolean {
    const line = this.#format === undefined ? json : this.#format(json);
    if (this.#isBroken || this.#chars + line.length > most) {
      this.#dropped += 1;
      return false;
    }
    const last = this.#pieces.at(-1) ?? '';
    if (last === '' || last.length + line.length > wholeChars) this.#pieces.push(line);
    else this.#pieces[this.#pieces.length - 1] = last + line;
    this.#chars += line.length;
    if (!this.#isWriting) {
      this.#isWriting = true;
      setImmediate(this.#next);
    }
    return true;
  }

  #clear(): void {
    this.#pieces = [];
    this.#chars = 0;
  }

  readonly #next = (): void => {
    const piece = this.#pieces.shift();
    this.#isWriting = piece !== undefined;
    if (piece === undefined) {
      this.#whenEmpty?.();
      return;
    }
    this.#chars -= piece.length;
    this.#stream.write(piece, this.#next);
  };
}

/**
 * One line of pino's JSON as text: time of day, level, event, fields. Nodes choose texts: no control character stays.
 * `paint` writes a word of a level, such as WARN, in its colour.
 */
export function formatLogLine(line: string, paint: (word: string, level: number) => string = (word) => word): string {
  const { level, time, msg, pid: _pid, hostname: _hostname, ...fields } = parseExactly(line);
  const word = (labels[Number(level)] ?? String(level)).toUpperCase();
  const parts = Object.entries(fields).map(([name, value]) => `${name}=${valueText(value)}`);
  const event = typeof msg === 'string' ? escape(msg) : '';
  return `${timeText(Number(time))} ${paint(word.padEnd(5), Number(level))} ${[event, ...parts].join('  ')}\n`;
}

const labels: Readonly<Record<number, string | undefined>> = { ...pino.levels.labels, [auditLevel.audit]: 'audit' };

/** Versions above 2^53 stay exact, as their source text. */
function parseExactly(line: string): Record<string, unknown> {
  return JSON.parse(line, keepExact) as Record<string, unknown>;
}

function keepExact(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  return typeof value === 'number' && !Number.isSafeInteger(value) ? (context?.source ?? value) : value;
}

/** Local time of day, to the millisecond. */
function timeText(ms: number): string {
  const at = new Date(ms);
  return `${at.toTimeString().slice(0, 8)}.${String(at.getMilliseconds()).padStart(3, '0')}`;
}

function valueText(value: unknown): string {
  if (typeof value === 'string' && /^[^\s"=]+$/.test(value)) return escape(value);
  return escape(JSON.stringify(value));
}

/** Control and format characters as \u escapes: they could move the cursor or reorder a line. */
function escape(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (char) => {
    return [...Array(char.length).keys()]
      .map((index) => `\\u${char.charCodeAt(index).toString(16).padStart(4, '0')}`)
      .join('');
  });
}
