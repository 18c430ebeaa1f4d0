/**
 * The report of a process on its state and traffic, in a form that adds up: plain data, 64-bit numbers are text. `/readyz`
 * answers from its `Readiness`; `present.ts` derives the facts of the status page from all of it.
 */
import type { Registry } from 'prom-client';
import type { Access } from '../../../access/index.ts';
import type { Cache } from '../../../cache/index.ts';
import { Journal, readFamilies, type Renewals } from '../../../metrics/index.ts';
import type { Fleet } from '../../../upstream/index.ts';
import type { ClientPort } from '../../http/index.ts';
import type { Disagreement, Reads } from '../../reads/index.ts';
import type { Routes } from '../../routes/index.ts';
import { countedFamilies, countsOf, mergeCounts, tenantCells, type Counts } from './counts.ts';
import { mergeTrends, mergeWindows, type TrendPoint, type Windows } from './windows.ts';

/** The report on a node; it holds no address. `usableBy`: workers that report it usable; absent with one process. */
export type NodeStatus = ReturnType<Fleet['report']>['nodes'][number] & { readonly usableBy?: number };

/** Readiness of a process, or of several together, and its details. */
export type Readiness = ReturnType<typeof readinessOf>;

/** The report of one process, or of several together. */
export type ProcessStatus = ReturnType<typeof statusOf>;

/** Numbers of worker processes. `answering`: those that serve and reported in time. */
export interface WorkersFacts {
  readonly wanted: number;
  readonly answering: number;
}

/** A reload of the config. */
export interface ReloadStatus {
  /** ISO 8601. */
  readonly at: string;
  /** `unchanged`: no key that a running gateway can change. `refused`: invalid, and none of it is in force. */
  readonly result: 'applied' | 'unchanged' | 'refused';
  /** Keys whose new values wait for a restart. */
  readonly needsRestart: readonly string[];
  /** Places of the problems of a refused config: file, line, column and key. Values may be secrets. */
  readonly refused?: readonly string[] | undefined;
}

/** Facts of the whole gateway, beside the reports of processes. */
export interface GatewayStatus {
  readonly version: string;
  readonly nowMs: number;
  readonly isDraining: boolean;
  /** The last one; `undefined` since the start. */
  readonly reload: ReloadStatus | undefined;
  readonly workers?: WorkersFacts | undefined;
}

/** Parts of a serving process that operators see or change. */
export interface ProcessParts {
  readonly fleet: Fleet;
  readonly cache: Cache;
  readonly reads: Reads;
  readonly routes: Pick<Routes, 'parse' | 'distrusted'>;
  readonly clientPort: Pick<ClientPort, 'load' | 'certificate'>;
  readonly registry: Registry;
  readonly journal: Journal;
  readonly renewals: Pick<Renewals, 'pending'>;
  /** Absent without access control. */
  readonly access: Pick<Access, 'usage' | 'planOf' | 'plans' | 'faultOfView' | 'keys'> | undefined;
  /** Live settings of the config. */
  readonly settings: {
    readonly encode: { readonly enabled: boolean };
    readonly sender: { readonly maxAttempts: number };
    readonly follow: { readonly mode: 'auto' | 'always' | 'off' };
  };
}

/** The counts of this process since its start. */
export function countsSinceStart({ registry, access }: ProcessParts): Counts {
  return countsOf(readFamilies(registry, countedFamilies), tenantCells(access?.usage.tenants ?? []));
}

/** The report of this process. `total`: `countsSinceStart` at `nowMs`, which `windows` have recorded. */
export function statusOf(parts: ProcessParts, startedAtMs: number, windows: Windows, total: Counts, nowMs: number) {
  const { fleet, cache, clientPort, settings, journal, renewals } = parts;
  const report = fleet.report();
  const { chainId, head, oldest, headSpeed } = report;
  return {
    ...readinessOf(parts, report),
    startedAtMs,
    chainId,
    head,
    oldest,
    headSpeed,
    /** Counts of the last seconds, shortest window first, and since the start. */
    windows: windows.read(total, nowMs),
    total,
    /** The last 15 minutes, oldest first. */
    trend: windows.points as readonly TrendPoint[],
    cache: cache.status().memory,
    isEncoding: settings.encode.enabled,
    /** `waiting`: requests queued for a node. */
    load: { ...clientPort.load(), waiting: fleet.sender.waiting },
    /** End of the served certificate; Unix time in milliseconds. */
    certificateExpiresMs: clientPort.certificate?.expiresMs(),
    pendingRenewals: renewals.pending,
    follower: followerOf(parts),
    events: journal.events,
  };
}

/** See `Readiness`. */
export function readinessOf(parts: ProcessParts, report = parts.fleet.report()) {
  const { cache, clientPort, routes, reads } = parts;
  const { isReady, outage, nodes, lost } = report;
  const { redis, store } = cache.status();
  return {
    isReady,
    outage,
    nodes: nodes as readonly NodeStatus[],
    lost,
    /** Why new certificate files are not in use; `undefined`: there are none, or they are. */
    certificateRefused: clientPort.certificate?.refused(),
    /** Functions left to nodes, after one encoded them differently. */
    distrusted: routes.distrusted,
    disagreements: reads.audits.disagreements,
    redis,
    store,
  };
}

/** The follower of new transactions (docs/streams.md). */
interface FollowerStatus {
  /** `distrusted`: a page was wrong. `idle`: it is not needed. */
  readonly state: 'off' | 'distrusted' | 'idle' | 'running';
  /** The version after the newest that waits and streams have. */
  readonly next: string | undefined;
  readonly lagSeconds: number;
}

function followerOf({ reads: { follower, tail }, settings }: ProcessParts): FollowerStatus {
  const usual = settings.follow.mode === 'off' ? 'off' : follower.isRunning ? 'running' : 'idle';
  const state = tail.isDistrusted ? 'distrusted' : usual;
  return { state, next: tail.next?.toString(), lagSeconds: follower.lagSeconds };
}

/** Best first: one process that reaches a node proves it usable. */
const ranks = { usable: 0, unproven: 1, down: 2, foreign: 3 } as const;

/** The readiness of the gateway: ready when one process is, since connections go to serving processes. */
export function mergeReadiness(reports: readonly Readiness[]): Readiness {
  const isReady = reports.some((one) => one.isReady);
  const outages = reports
    .flatMap(({ outage }) => outage ?? [])
    .sort((one, other) => (one.since < other.since ? 1 : -1));
  // In the order of the config; a node that some processes lack comes last.
  const nodes = Map.groupBy(
    reports.flatMap((report) => report.nodes),
    ({ name }) => name,
  );
  const [first] = reports;
  return {
    isReady,
    // Since the last process noticed it, with the newest head of all.
    outage: isReady ? undefined : outages[0] && { since: outages[0].since, head: newestOf(outages).head },
    nodes: [...nodes.values()].map(mergeNode),
    lost: reports.every(({ lost }) => lost !== undefined) ? first?.lost : undefined,
    certificateRefused: firstOf(reports, ({ certificateRefused }) => certificateRefused),
    distrusted: unionOf(reports, ({ distrusted }) => distrusted),
    disagreements: mergeDisagreements(reports.flatMap(({ disagreements }) => disagreements)),
    redis: first?.redis && { trouble: firstOf(reports, ({ redis }) => redis?.trouble) },
    // One store for all.
    store: first?.store && {
      bytes: mostOf(reports, ({ store }) => store?.bytes ?? 0),
      maxBytes: first.store.maxBytes,
      trouble: firstOf(reports, ({ store }) => store?.trouble),
    },
  };
}

/** Merges the reports of processes; `undefined` without any. */
export function mergeStatus(reports: readonly ProcessStatus[]): ProcessStatus | undefined {
  const [first] = reports;
  if (first === undefined) return undefined;
  const { chainId, head, headSpeed } = newestOf(reports);
  const oldest = reports
    .flatMap((one) => one.oldest ?? [])
    .sort((one, other) => (BigInt(one) < BigInt(other) ? -1 : 1));
  const expiries = reports.flatMap(({ certificateExpiresMs }) => certificateExpiresMs ?? []);
  return {
    ...mergeReadiness(reports),
    startedAtMs: Math.min(...reports.map(({ startedAtMs }) => startedAtMs)),
    chainId,
    head,
    oldest: oldest[0],
    headSpeed,
    windows: mergeWindows(reports.map(({ windows }) => windows)),
    trend: mergeTrends(reports.map(({ trend }) => trend)),
    total: mergeCounts(reports.map(({ total }) => total)),
    cache: sumsOf(
      reports.map(({ cache }) => cache),
      ['entries', 'bytes', 'maxBytes'],
    ),
    isEncoding: first.isEncoding,
    load: {
      ...sumsOf(
        reports.map(({ load }) => load),
        ['connections', 'maxConnections', 'streams', 'maxStreams', 'waiting'],
      ),
      loopLagMs: mostOf(reports, ({ load }) => load.loopLagMs),
      isOverloaded: reports.some(({ load }) => load.isOverloaded),
    },
    certificateExpiresMs: expiries.length === 0 ? undefined : Math.min(...expiries),
    pendingRenewals: unionOf(reports, ({ pendingRenewals }) => pendingRenewals),
    follower: mergeFollowers(reports.map(({ follower }) => follower)),
    events: Journal.merge(reports.map(({ events }) => events)),
  };
}

/** The best report, the newest of equals; sums and maxima come from all. `reports` is not empty. */
function mergeNode(reports: readonly NodeStatus[]): NodeStatus {
  const bestRank = Math.min(...reports.map(({ state }) => ranks[state]));
  // The first of two reports on one class counts.
  const ejected = new Map(
    reports
      .flatMap((one) => one.ejected)
      .toReversed()
      .map((one) => [one.readClass, one]),
  );
  return {
    ...newestOf(reports.filter(({ state }) => ranks[state] === bestRank)),
    ...sumsOf(reports, ['inFlight', 'limit']),
    isDrained: reports.every(({ isDrained }) => isDrained),
    forkedAt: firstOf(reports, ({ forkedAt }) => forkedAt),
    isSuspect: reports.every(({ isSuspect }) => isSuspect),
    warning: firstOf(reports, ({ warning }) => warning),
    lower: firstOf(reports, ({ lower }) => lower),
    edgeSpeed: mostOf(reports, ({ edgeSpeed }) => edgeSpeed),
    ejected: [...ejected.values()].sort((one, other) => (one.readClass < other.readClass ? -1 : 1)),
    usableBy: reports.filter(({ state }) => state === 'usable').length,
  };
}

/** One process runs it for all. */
function mergeFollowers(reports: readonly FollowerStatus[]): FollowerStatus {
  const states = new Set(reports.map(({ state }) => state));
  const state = (['distrusted', 'running', 'idle'] as const).find((one) => states.has(one)) ?? 'off';
  const { next } = newestOf(reports.map((one) => ({ ...one, head: one.next })));
  return { state, next, lagSeconds: mostOf(reports, ({ lagSeconds }) => lagSeconds) };
}

function mergeDisagreements(disagreements: readonly Disagreement[]): readonly Disagreement[] {
  const pairs = Map.groupBy(disagreements, ({ upstreams }) => upstreams.join(' '));
  return [...pairs.values()].map((same) =>
    same.reduce((known, { upstreams, count, lost, last }) => ({
      upstreams,
      count: count + known.count,
      lost: Object.fromEntries(upstreams.map((name) => [name, (known.lost[name] ?? 0) + (lost[name] ?? 0)])),
      last: last > known.last ? last : known.last,
    })),
  );
}

/** The sums of these members. */
function sumsOf<Name extends string>(reports: readonly Readonly<Record<Name, number>>[], names: readonly Name[]) {
  const sums = names.map((name) => [name, reports.reduce((sum, one) => sum + one[name], 0)]);
  return Object.fromEntries(sums) as Record<Name, number>;
}

function mostOf<Report>(reports: readonly Report[], read: (one: Report) => number): number {
  return Math.max(...reports.map(read));
}

function unionOf<Report>(reports: readonly Report[], read: (one: Report) => readonly string[]): readonly string[] {
  return [...new Set(reports.flatMap(read))];
}

/** The first that a report has. */
function firstOf<Report, Value>(
  reports: readonly Report[],
  read: (one: Report) => Value | undefined,
): Value | undefined {
  return reports.map(read).find((value) => value !== undefined);
}

/** The first of the reports with the newest head; `reports` is not empty. */
function newestOf<Report extends { readonly head: string | undefined }>(reports: readonly Report[]): Report {
  return reports.reduce((found, other) => (BigInt(other.head ?? -1) > BigInt(found.head ?? -1) ? other : found));
}
