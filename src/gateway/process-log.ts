/** The log of a process: pino over standard error, and what becomes of its lines. */
import { hostname } from 'node:os';
import process from 'node:process';
import { pino, type Logger } from 'pino';
import type { LogLevel } from '../config/config.ts';
import { LogOutput } from './log-output.ts';

export interface ProcessLog {
  readonly log: Logger;
  /** Lines that were lost so far. */
  readonly dropped: () => number;
  /** Writes what is left, for a second at most: to be awaited before the process ends. */
  readonly flush: () => Promise<void>;
}

const longestFlushMs = 1_000;

/** To be called once in a process. `fields` are in every line. */
export function createProcessLog(level: LogLevel, fields: object = {}): ProcessLog {
  const output = new LogOutput(process.stderr);
  const log = pino({ level, base: { pid: process.pid, hostname: hostname(), ...fields } }, output);
  output.onResumed = (lost) => log.warn({ lost }, 'log lines were lost: whoever reads them is too slow');
  process.on('exit', () => output.end());
  return { log, dropped: () => output.dropped, flush: () => output.flush(longestFlushMs) };
}
