/**
 * Access lines: for a share of all requests, and for failed or slow ones. A line names the route by its template and
 * contains no path, query, body or key.
 */
import type { Registry } from 'prom-client';
import { Counter } from '../metrics/index.ts';
import { Allowance } from '../ledger/index.ts';
import { countedOutcome, countedStatus, type RequestSummary } from '../proxy/http/index.ts';
import type { GatewayLog } from './log.ts';

/** A function that writes the access line of an ended request, and the line for a bug. */
export function createAccessLog(log: GatewayLog, registry: Registry): (ended: RequestSummary, seconds: number) => void {
  /** Lines for failed and slow requests. */
  const extraordinary = new Allowance(50, 100);
  /** Bugs repeat. */
  const faults = new Allowance(1, 10);
  const dropped = new Counter(registry, {
    name: 'ledgergate_access_log_dropped_total',
    help: 'Slow or failed requests without an access line, because too many had one within the second.',
  }).of({});
  return (ended, seconds) => {
    const { share, slowMs, failed } = log.inForce.access;
    if (ended.bug !== undefined && faults.withdraw(performance.now())) logBug(log, ended, ended.bug);
    const isFailed = ended.status >= 500 || ended.outcome === 'failed';
    const isExtraordinary = seconds * 1000 > slowMs || (isFailed && failed);
    if (share === 0 && !isExtraordinary) return;
    const { logger } = log;
    if (!logger.isLevelEnabled('info')) return;
    if (Math.random() >= share) {
      if (!isExtraordinary) return;
      if (!extraordinary.withdraw(performance.now())) return dropped.inc();
    }
    logger.info(lineOf(ended, seconds), 'answered');
  };
}

/** Stack and name only: messages of such errors may quote the request. */
function logBug({ logger }: GatewayLog, { route, method }: RequestSummary, bug: unknown): void {
  const { name, stack = '' } = bug instanceof Error ? bug : { name: typeof bug };
  const at = stack.split('\n').filter((line) => /^\s+at /.test(line));
  logger.error({ route, method, name, at: at.map((line) => line.trim()) }, 'a fault of the gateway');
}

function lineOf(ended: RequestSummary, seconds: number): object {
  const { route, method, upstream, version, upstreamMs, bytes, admitted, trace, failure } = ended;
  return {
    route,
    method,
    status: countedStatus(ended),
    outcome: countedOutcome(ended),
    // The node of the answer, or of the last attempt.
    upstream: upstream ?? failure?.call?.upstream,
    reason: failure?.reason,
    attempts: failure?.call?.attempts,
    // Text: a bigint triples pino's time for a line.
    version: version?.toString(),
    seconds: Math.round(seconds * 1e6) / 1e6,
    upstreamMs: Math.round(upstreamMs * 1e3) / 1e3,
    bytes,
    ...admitted?.logged,
    trace_id: trace?.traceId,
    span_id: trace?.spanId,
  };
}
