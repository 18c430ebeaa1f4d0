/** The log of a process that serves: over standard error, and what becomes of its lines. */
import type { LogLevel } from '../config/config.ts';
import { LogLines } from '../metrics/log-metrics.ts';
import { createLog, type CountedLog } from './log.ts';
import { LogOutput } from './log-output.ts';

export interface ProcessLog extends CountedLog {
  /** Writes what is left, for a second at most: to be awaited before the process ends. */
  readonly flush: () => Promise<void>;
}

const longestFlushMs = 1_000;

/** To be called once in a process. `fields` are in every line. */
export function createProcessLog(level: LogLevel, fields: object = {}): ProcessLog {
  const output = new LogOutput(process.stderr);
  const counted = createLog(level, { to: output, fields, lines: new LogLines(() => output.dropped) });
  output.onResumed = (lost) => counted.log.warn({ lost }, 'log lines were lost: whoever reads them is too slow');
  process.on('exit', () => output.end());
  return { ...counted, flush: () => output.flush(longestFlushMs) };
}
