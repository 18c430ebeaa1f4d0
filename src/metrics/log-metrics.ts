/** Metrics of the log (lines at loud levels, lost lines, omitted access lines) and of exported traces. */
import type { Registry } from 'prom-client';
import { Counter } from './counter.ts';

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
}

/** Registers the families of the log; without `lines` they stay 0. */
export function createLogMetrics(registry: Registry, lines = new LogLines()): void {
  new Counter(registry, {
    name: 'ledgergate_log_lines_total',
    help: 'Lines that were written to the log at the levels warn, error and fatal.',
    labels: { level: loudLevels },
    counted: (labels) => lines.written(labels.level),
  });
  new Counter(registry, {
    name: 'ledgergate_log_lines_dropped_total',
    help: 'Log lines that were lost because their reader is too slow, or gone.',
    counted: () => lines.dropped,
  });
}

/** Counts omitted access lines. */
export type AccessLogMetrics = ReturnType<typeof createAccessLogMetrics>;

/** Registers the family of omitted access lines. */
export function createAccessLogMetrics(registry: Registry) {
  const dropped = new Counter(registry, {
    name: 'ledgergate_access_log_dropped_total',
    help: 'Slow or failed requests without an access line, because too many had one within the second.',
  }).of({});
  return { dropped: () => dropped.inc() };
}

const outcomes = ['exported', 'failed', 'dropped'] as const;

/** Registers the family of recorded spans; the result counts spans. */
export function createTraceMetrics(registry: Registry): (outcome: (typeof outcomes)[number], spans: number) => void {
  const spans = new Counter(registry, {
    name: 'ledgergate_trace_spans_total',
    help: 'Recorded spans by outcome: exported, failed (the collector did not take them, after retries), dropped (2,048 waited for the collector).',
    labels: { outcome: outcomes },
  });
  return (outcome, count) => spans.inc({ outcome }, count);
}
