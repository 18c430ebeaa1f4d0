/** Short reports of the replicas that share Redis, and their sums. Pure. */
import { z } from 'zod';
import { hitsOf, inTenths, needOf, quantile, requestTimes, totalOf } from './counts.ts';
import type { WindowCounts } from './windows.ts';
import { routes } from '../../../metrics/index.ts';

/** The report of one process on its last 100 s; reports of one replica's workers have one name. */
export type ReplicaReport = z.infer<typeof schema>;

/** Sums of as many reports as are read stay finite. */
const count = z.number().nonnegative().max(1e15);
const schema = z.object({
  name: z.string().max(300),
  /** Unix time in milliseconds. */
  atMs: count,
  /** Fleets of several chains may share Redis. */
  chainId: count.optional(),
  isReady: z.boolean(),
  /** Requests, and those that needed a node, a second. */
  requests: count,
  toNodes: count,
  /** Hits among the reads that may be kept, in the window. */
  hits: count,
  reads: count,
  p99Ms: count.optional(),
  connections: count,
});

/** A report older than this is of a process that has ended, or lost Redis. Clocks of replicas differ by less. */
const freshMs = 30_000;
/** No clock is as late as that: the process has ended. */
const endedMs = 600_000;
const longestText = 1_024;

/** The part of a process's state that its report is made of (`ProcessStatus`). */
interface Reported {
  readonly isReady: boolean;
  readonly chainId: number | undefined;
  /** Shortest first. */
  readonly windows: readonly WindowCounts[];
  readonly load: { readonly connections: number };
}

/** The report of a process, for other replicas. */
export function replicaReportOf(status: Reported, name: string, nowMs: number): ReplicaReport {
  const { counts, coveredSeconds } = status.windows[1] ?? { counts: new Map<string, number>(), coveredSeconds: 1 };
  const all = requestTimes(counts, {});
  const rate = (requests: number): number => requests / Math.max(1, coveredSeconds);
  return {
    name,
    atMs: nowMs,
    chainId: status.chainId,
    isReady: status.isReady,
    requests: rate(totalOf(all)),
    toNodes: rate(needOf(counts, routes).needing),
    ...hitsOf((outcome) => totalOf(requestTimes(counts, { outcome }))),
    p99Ms: quantile(all, 0.99),
    connections: status.load.connections,
  };
}

/** Reads a report as another process has written it; `undefined`: malformed, or of another version. */
export function parseReplicaReport(text: string): ReplicaReport | undefined {
  if (text.length > longestText) return undefined;
  try {
    return schema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** Whether the process still reports. */
export function isFresh({ atMs }: ReplicaReport, nowMs: number): boolean {
  return Math.abs(nowMs - atMs) <= freshMs;
}

/** Whether the process has surely ended. */
export function hasEnded({ atMs }: ReplicaReport, nowMs: number): boolean {
  return nowMs - atMs > endedMs;
}

/** The replicas by name, and the sum of all; rates are a second, `p99Ms` is the largest. */
export function replicaFacts(reports: readonly ReplicaReport[]) {
  const byName = Map.groupBy(reports, ({ name }) => name);
  const names = [...byName.keys()].sort();
  return {
    all: sumOf(reports, `all ${names.length}`),
    each: names.map((name) => sumOf(byName.get(name) ?? [], name)),
  };
}

function sumOf(reports: readonly ReplicaReport[], name: string) {
  const sum = (of: (report: ReplicaReport) => number): number => reports.reduce((all, one) => all + of(one), 0);
  const reads = sum((one) => one.reads);
  const times = reports.flatMap(({ p99Ms }) => p99Ms ?? []);
  return {
    name,
    isReady: reports.some(({ isReady }) => isReady),
    requestsPerSecond: inTenths(sum(({ requests }) => requests)),
    toNodesPerSecond: inTenths(sum(({ toNodes }) => toNodes)),
    hitShare: reads === 0 ? undefined : sum(({ hits }) => hits) / reads,
    p99Ms: times.length === 0 ? undefined : Math.max(...times),
    connections: sum(({ connections }) => connections),
  };
}
