/** The reports of several processes as one. */
import { Journal } from '../../../metrics/index.ts';
import type { EjectedClass, NodeStatus, ProcessStatus, Readiness } from './facts.ts';
import type { Disagreement } from '../../reads/index.ts';
import { mergeCounts } from './counts.ts';
import { mergeTrends, mergeWindows } from './windows.ts';

/** Best first: one process that reaches a node proves it usable. */
const ranks = { usable: 0, unproven: 1, down: 2, foreign: 3 } as const;

/** The readiness of the gateway: ready when one process is, since connections go to serving processes. */
export function mergeReadiness(reports: readonly Readiness[]): Readiness {
  const isReady = reports.some((one) => one.isReady);
  return {
    isReady,
    outage: isReady ? undefined : mergeOutage(reports.flatMap(({ outage }) => outage ?? [])),
    nodes: namesOf(reports).map((name) =>
      mergeNode(reports.flatMap(({ nodes }) => nodes.filter((node) => node.name === name))),
    ),
    lost: reports.every(({ lost }) => lost !== undefined) ? reports[0]?.lost : undefined,
    certificateRefused: firstOf(reports, ({ certificateRefused }) => certificateRefused),
    distrusted: [...new Set(reports.flatMap(({ distrusted }) => distrusted))],
    disagreements: mergeDisagreements(reports.flatMap(({ disagreements }) => disagreements)),
    redis: reports[0]?.redis && { trouble: firstOf(reports, ({ redis }) => redis?.trouble) },
    // One store for all.
    store: reports[0]?.store && {
      bytes: Math.max(...reports.map(({ store }) => store?.bytes ?? 0)),
      maxBytes: reports[0].store.maxBytes,
      trouble: firstOf(reports, ({ store }) => store?.trouble),
    },
  };
}

/** Merges the reports of processes; `undefined` without any. */
export function mergeStatus(reports: readonly ProcessStatus[]): ProcessStatus | undefined {
  const [first] = reports;
  if (first === undefined) return undefined;
  const newest = newestOf(reports);
  const deepest = reports.reduce((found, other) => (isDeeper(other.oldest, found.oldest) ? other : found));
  const sum = (read: (one: ProcessStatus) => number): number => reports.reduce((total, one) => total + read(one), 0);
  return {
    ...mergeReadiness(reports),
    startedAtMs: Math.min(...reports.map(({ startedAtMs }) => startedAtMs)),
    chainId: newest.chainId,
    head: newest.head,
    oldest: deepest.oldest,
    headSpeed: newest.headSpeed,
    windows: mergeWindows(reports.map(({ windows }) => windows)),
    trend: mergeTrends(reports.map(({ trend }) => trend)),
    total: mergeCounts(reports.map(({ total }) => total)),
    cache: {
      entries: sum(({ cache }) => cache.entries),
      bytes: sum(({ cache }) => cache.bytes),
      maxBytes: sum(({ cache }) => cache.maxBytes),
    },
    isEncoding: first.isEncoding,
    load: {
      connections: sum(({ load }) => load.connections),
      maxConnections: sum(({ load }) => load.maxConnections),
      loopLagMs: Math.max(...reports.map(({ load }) => load.loopLagMs)),
      isOverloaded: reports.some(({ load }) => load.isOverloaded),
      waiting: sum(({ load }) => load.waiting),
    },
    certificateExpiresMs: earliest(reports.map(({ certificateExpiresMs }) => certificateExpiresMs)),
    events: Journal.merge(reports.map(({ events }) => events)),
  };
}

/** The outage since the last process noticed it, with the newest head of all. */
function mergeOutage(reports: readonly NonNullable<Readiness['outage']>[]): Readiness['outage'] {
  if (reports.length === 0) return undefined;
  return {
    since: reports.reduce((last, { since }) => (since > last ? since : last), ''),
    head: newestOf(reports).head,
  };
}

/** In the order of the config; a node that some processes lack comes last. */
function namesOf(reports: readonly Readiness[]): readonly string[] {
  return [...new Set(reports.flatMap(({ nodes }) => nodes.map(({ name }) => name)))];
}

/** The best report, the newest of equals; sums and maxima come from all. `reports` is not empty. */
function mergeNode(reports: readonly NodeStatus[]): NodeStatus {
  const best = reports.reduce((found, report) => (isBetter(report, found) ? report : found));
  return {
    ...best,
    isDrained: reports.every(({ isDrained }) => isDrained),
    forkedAt: firstOf(reports, ({ forkedAt }) => forkedAt),
    isSuspect: reports.every(({ isSuspect }) => isSuspect),
    warning: firstOf(reports, ({ warning }) => warning),
    lower: firstOf(reports, ({ lower }) => lower),
    inFlight: reports.reduce((sum, { inFlight }) => sum + inFlight, 0),
    limit: reports.reduce((sum, { limit }) => sum + limit, 0),
    edgeSpeed: Math.max(...reports.map(({ edgeSpeed }) => edgeSpeed)),
    ejected: mergeEjected(reports.flatMap(({ ejected }) => ejected)),
    usableBy: reports.filter(({ state }) => state === 'usable').length,
  };
}

function isBetter(report: NodeStatus, other: NodeStatus): boolean {
  if (report.state !== other.state) return ranks[report.state] < ranks[other.state];
  return versionOf(report.head) > versionOf(other.head);
}

function mergeEjected(ejected: readonly EjectedClass[]): readonly EjectedClass[] {
  const byClass = new Map(ejected.toReversed().map((one) => [one.readClass, one]));
  return [...byClass.values()].sort((one, other) => (one.readClass < other.readClass ? -1 : 1));
}

function mergeDisagreements(disagreements: readonly Disagreement[]): readonly Disagreement[] {
  const merged = new Map<string, Disagreement>();
  for (const { upstreams, count, lost, last } of disagreements) {
    const pair = upstreams.join(' ');
    const known = merged.get(pair);
    const losses = Object.entries(lost).map(([name, here]) => [name, here + (known?.lost[name] ?? 0)] as const);
    merged.set(pair, {
      upstreams,
      count: count + (known?.count ?? 0),
      lost: Object.fromEntries(losses),
      last: known === undefined || last > known.last ? last : known.last,
    });
  }
  return [...merged.values()];
}

/** The first that a report has. */
function firstOf<Report, Value>(
  reports: readonly Report[],
  read: (one: Report) => Value | undefined,
): Value | undefined {
  return reports.map(read).find((value) => value !== undefined);
}

/** The first of the reports with the newest head. */
function newestOf<Report extends { readonly head: string | undefined }>(reports: readonly Report[]): Report {
  return reports.reduce((found, other) => (versionOf(other.head) > versionOf(found.head) ? other : found));
}

function versionOf(version: string | undefined): bigint {
  return BigInt(version ?? -1);
}

function isDeeper(oldest: string | undefined, than: string | undefined): boolean {
  return oldest !== undefined && (than === undefined || BigInt(oldest) < BigInt(than));
}

function earliest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
