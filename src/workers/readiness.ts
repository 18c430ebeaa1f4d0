import type { Disagreement } from '../proxy/reads/audits.ts';
import type { OutageStatus, Readiness, UpstreamStatus } from '../proxy/operations/operations-server.ts';

/** Best first. A node that one worker reaches is usable; a node of another chain is foreign to all workers. */
const ranks = { usable: 0, unproven: 1, down: 2, foreign: 3 } as const;

/** The readiness of the gateway: ready when one worker is, since connections go to serving workers. */
export function mergeReadiness(reports: readonly Readiness[], wanted: number): Readiness {
  const [first] = reports;
  const ready = reports.filter(({ isReady }) => isReady).length;
  const trouble = reports.map(({ redis }) => redis?.trouble).find((reason) => reason !== undefined);
  return {
    isReady: ready > 0,
    outage: ready > 0 ? undefined : mergeOutage(reports.flatMap(({ outage }) => outage ?? [])),
    upstreams: (first?.upstreams ?? []).map(({ name }) =>
      mergeUpstream(reports.flatMap(({ upstreams }) => upstreams.filter((upstream) => upstream.name === name))),
    ),
    distrusted: [...new Set(reports.flatMap(({ distrusted }) => distrusted))],
    disagreements: mergeDisagreements(reports.flatMap(({ disagreements }) => disagreements)),
    redis: first?.redis === undefined ? undefined : { trouble },
    workers: { wanted, answering: reports.length, ready },
  };
}

/** The outage since the last worker noticed it, with the newest head of all. */
function mergeOutage(reports: readonly OutageStatus[]): OutageStatus | undefined {
  const [first] = reports;
  if (first === undefined) return undefined;
  return reports.reduce((found, { since, head }) => ({
    since: since > found.since ? since : found.since,
    head: BigInt(head ?? -1) > BigInt(found.head ?? -1) ? head : found.head,
  }));
}

function mergeDisagreements(reports: readonly Disagreement[]): readonly Disagreement[] {
  const merged = new Map<string, Disagreement>();
  for (const report of reports) {
    const pair = report.upstreams.join(' ');
    const known = merged.get(pair);
    merged.set(pair, known === undefined ? report : addDisagreements(known, report));
  }
  return [...merged.values()];
}

function addDisagreements(one: Disagreement, other: Disagreement): Disagreement {
  const lost = Object.entries(one.lost).map(([name, count]) => [name, count + (other.lost[name] ?? 0)] as const);
  return {
    upstreams: one.upstreams,
    count: one.count + other.count,
    lost: Object.fromEntries(lost),
    last: one.last > other.last ? one.last : other.last,
  };
}

/** The best report of a node, the newest of equals. `reports` is not empty: one worker reported each node. */
function mergeUpstream(reports: readonly UpstreamStatus[]): UpstreamStatus {
  const best = reports.reduce((found, report) => (isBetter(report, found) ? report : found));
  return { ...best, usableBy: reports.filter(({ state }) => state === 'usable').length };
}

function isBetter(report: UpstreamStatus, other: UpstreamStatus): boolean {
  if (report.state !== other.state) return ranks[report.state] < ranks[other.state];
  return BigInt(report.head ?? -1) > BigInt(other.head ?? -1);
}
