/** Figures of the fleet: its metrics, and its report for the status page. */
import type { Registry } from 'prom-client';
import {
  combinations,
  type Count,
  Counter,
  type FamilyData,
  Gauge,
  Histogram,
  labelSources,
} from '../metrics/index.ts';
import type { FleetState } from './fleet-state.ts';
import type { EjectionReason } from './node/circuits.ts';
import { nodeFaults } from './node/node-fault.ts';
import { sharedAddressMessage } from './node/shared-address.ts';
import type { Upstream } from './node/upstream.ts';
import { type ReadClass, readClasses } from './select/ranking.ts';

/**
 * `status`: of a broken node. `bad answer`: a success that cannot answer the request (`dispatch/classify.ts`). Two are
 * no fault of the node: `queue`, no connection became free in time, and `size`, larger than the gateway reads at once.
 */
const failureKinds = ['connection', 'timeout', 'queue', 'size', 'status', 'chain', 'bad answer'] as const;
/** Label `kind` of a failed attempt. */
export type FailureKind = (typeof failureKinds)[number];

const statusClasses = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const;

const attemptSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;

/** The fleet, as far as its figures go; read at each scrape. */
type MeasuredFleet = Pick<FleetState, 'upstreams' | 'head' | 'oldest' | 'outageSinceMs'> & {
  readonly latest: { readonly clientsAhead: number };
  readonly sender: { readonly waiting: number };
};

const ejectionReasons = [
  'timeout',
  'error',
  'outpaced',
  'refused',
  'error share',
] as const satisfies readonly EjectionReason[];

/** Counts attempts and their repairs, hedges, retries, ejections and queue events. */
export type FleetMetrics = ReturnType<typeof createFleetMetrics>;

/** Registers the families of nodes, fleet and dispatch. */
export function createFleetMetrics(registry: Registry, fleet: MeasuredFleet) {
  createNodeGauges(registry, fleet);
  createFleetGauges(registry, fleet);
  const byStatus = { upstream: labelSources.upstream, status: statusClasses };
  const requests = new Counter(registry, {
    name: 'ledgergate_upstream_requests_total',
    help: 'Requests answered by an upstream, by class of status.',
    labels: byStatus,
    known: () => fleet.upstreams.flatMap(({ name }) => combinations(byStatus, { upstream: name })),
  });
  const byKind = { upstream: labelSources.upstream, kind: failureKinds };
  const failures = new Counter(registry, {
    name: 'ledgergate_upstream_failures_total',
    help: 'Attempts without a usable answer: connection, timeout, chain and bad answer are held against the upstream, status too unless a client may have provoked it (429, 500), queue (no connection was free in time) and size (more than is read at once) are not.',
    labels: byKind,
    known: () => fleet.upstreams.flatMap(({ name }) => combinations(byKind, { upstream: name })),
  });
  const byNode = (name: string, help: string) =>
    new Counter(registry, {
      name: `ledgergate_upstream_${name}_total`,
      help,
      labels: { upstream: labelSources.upstream },
      known: () => fleet.upstreams.map((upstream) => ({ upstream: upstream.name })),
    });
  const deferrals = byNode(
    'deferrals',
    'Times the others began to be asked before an upstream, because it refused a request as one too many (429, overloaded, Retry-After).',
  );
  const allowanceRefusals = byNode(
    'allowance_refusals',
    'Requests that were not sent to an upstream, because its maxRequestsPerSecond was used up and no other upstream could answer.',
  );
  const duration = new Histogram(registry, {
    name: 'ledgergate_upstream_request_duration_seconds',
    help: 'Time of one attempt at an upstream, until the whole answer or the head of a streamed one.',
    labels: { upstream: labelSources.upstream },
    buckets: attemptSeconds,
  });
  const notFound = new Counter(registry, {
    name: 'ledgergate_discovery_failures_total',
    help: 'Look-ups of the name of an upstream with discover: dns that changed no node: failed, empty, too many addresses, one of the gateway, or nodes that do not answer.',
    labels: { upstream: labelSources.upstream },
  });
  const prunedRepaired = new Counter(registry, {
    name: 'ledgergate_pruned_answers_repaired_total',
    help: 'Requests that one upstream called pruned and another answered.',
  }).of({});
  const unreached = new Counter(registry, {
    name: 'ledgergate_unreached_versions_total',
    help: 'Versions that another replica had shown and that no upstream here got to in time.',
  }).of({});
  const hedge = new Counter(registry, {
    name: 'ledgergate_hedges_total',
    help: 'Second attempts beside a slow first, by outcome: won, lost, failed (both), refused (share used up).',
    labels: { outcome: ['won', 'lost', 'failed', 'refused'] },
  }).by('outcome');
  const retry = new Counter(registry, {
    name: 'ledgergate_retries_total',
    help: 'Attempts after a failed one, by outcome: sent, refused (share used up).',
    labels: { outcome: ['sent', 'refused'] },
  }).by('outcome');
  const byReason = { upstream: labelSources.upstream, class: readClasses, reason: ejectionReasons };
  const ejections = new Counter(registry, {
    name: 'ledgergate_upstream_ejections_total',
    help: 'Times an upstream began to be passed over for a class of reads, by reason: what others answered in its place it did not in time (timeout), not well (error, error share), far later (outpaced), or not at all by its own word (refused).',
    labels: byReason,
    known: () => fleet.upstreams.flatMap(({ name }) => combinations(byReason, { upstream: name })),
  });
  new Gauge(registry, {
    name: 'ledgergate_upstream_concurrency_limit',
    help: 'Requests that the upstream is given at once.',
    labels: { upstream: labelSources.upstream },
    read: () => fleet.upstreams.map(({ name, places }) => [{ upstream: name }, places.limit] as const),
  });
  new Gauge(registry, {
    name: 'ledgergate_upstream_ejected',
    help: '1 while the upstream is passed over for a class of reads, by any worker.',
    labels: { upstream: labelSources.upstream, class: readClasses },
    join: 'max',
    read: () =>
      fleet.upstreams.flatMap(({ name, ejections }) =>
        readClasses.map((each) => [{ upstream: name, class: each }, Number(ejections[each].isOut)] as const),
      ),
  });
  new Gauge(registry, {
    name: 'ledgergate_upstream_queue_requests',
    help: 'Requests that wait for a place at an upstream.',
    read: () => fleet.sender.waiting,
  });
  const waits = new Histogram(registry, {
    name: 'ledgergate_upstream_queue_wait_seconds',
    help: 'How long requests waited for a place at an upstream, got or not; those that found one at once are not counted.',
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2],
  }).of({});
  const refused = new Counter(registry, {
    name: 'ledgergate_upstream_queue_refusals_total',
    help: 'Requests that got no place at an upstream: full (too many waited), late (none became free in time).',
    labels: { reason: ['full', 'late'] },
  }).by('reason');
  /** Series that each answer counts, so that none is found by its labels. */
  const answers = new Map<string, { readonly duration: ReturnType<typeof duration.of>; readonly byClass: ByClass }>();
  return {
    prunedRepaired,
    unreached,
    observeAnswer(upstream: string, status: number, seconds: number) {
      let ofNode = answers.get(upstream);
      if (ofNode === undefined) answers.set(upstream, (ofNode = { duration: duration.of({ upstream }), byClass: {} }));
      const statusClass = classOf(status);
      (ofNode.byClass[statusClass] ??= requests.of({ upstream, status: statusClass })).inc();
      ofNode.duration.observe(seconds);
    },
    /** An answer that `observeAnswer` counts is of no use: a status of a broken node that a client may have provoked. */
    answerFailed: (upstream: string) => failures.inc({ upstream, kind: 'status' }),
    observeFailure(upstream: string, kind: FailureKind, seconds: number) {
      failures.inc({ upstream, kind });
      duration.of({ upstream }).observe(seconds);
    },
    deferred: (upstream: string) => deferrals.inc({ upstream }),
    allowanceRefused: (upstream: string) => allowanceRefusals.inc({ upstream }),
    nodesNotFound: (upstream: string) => notFound.inc({ upstream }),
    forgetDiscovery: (gone: string) => notFound.remove(({ upstream }) => upstream === gone),
    hedge,
    retry,
    refused,
    /** A queued request got a permit, or gave up. */
    waited: (seconds: number) => waits.observe(seconds),
    ejected: (upstream: string, readClass: ReadClass, reason: EjectionReason) =>
      ejections.inc({ upstream, class: readClass, reason }),
    forgetUpstream(gone: string) {
      answers.delete(gone);
      for (const family of [requests, failures, deferrals, allowanceRefusals, duration, ejections])
        family.remove(({ upstream }) => upstream === gone);
    },
  };
}

type ByClass = Partial<Record<(typeof statusClasses)[number], Count>>;

/** Statuses beyond 599 count as 5xx, so that the label stays bounded. */
function classOf(status: number): (typeof statusClasses)[number] {
  return statusClasses[Math.floor(status / 100) - 1] ?? '5xx';
}

function createNodeGauges(registry: Registry, fleet: MeasuredFleet): void {
  const gauge = (
    join: FamilyData['aggregator'],
    name: string,
    help: string,
    value: (upstream: Upstream) => number | bigint | undefined,
  ): void => {
    new Gauge(registry, {
      name: `ledgergate_upstream_${name}`,
      help,
      join,
      labels: { upstream: labelSources.upstream },
      read: () => fleet.upstreams.map((upstream) => [{ upstream: upstream.name }, value(upstream)] as const),
    });
  };
  gauge('min', 'usable', '1 while the upstream answers, 0 otherwise.', ({ health }) => Number(health === 'usable'));
  new Gauge(registry, {
    name: 'ledgergate_upstream_fault',
    help: '1 while the upstream is not usable, by the reason; an upstream that is usable has no series.',
    join: 'max',
    labels: { upstream: labelSources.upstream, reason: nodeFaults },
    read: () =>
      fleet.upstreams.flatMap(({ name, fault }) => (fault ? [[{ upstream: name, reason: fault }, 1] as const] : [])),
  });
  gauge('max', 'drained', '1 while an operator has drained the upstream, 0 otherwise.', ({ isDrained }) =>
    Number(isDrained),
  );
  gauge('max', 'forked', '1 while the history of the upstream differs from others, 0 otherwise.', ({ forkedAt }) =>
    Number(forkedAt !== undefined),
  );
  gauge(
    'max',
    'shared_address',
    '1 while several nodes with different ledgers answer at the address of the upstream, 0 otherwise.',
    ({ address }) => Number(address.isShared),
  );
  gauge(
    'sum',
    'in_flight_requests',
    'Requests to the upstream without their whole answer.',
    ({ inFlight }) => inFlight,
  );
  gauge(
    'sum',
    'allowance_tokens',
    'Requests that the maxRequestsPerSecond of the upstream lets through at once; below 0, probes were sent without one.',
    ({ allowance }) => allowance.tokens(performance.now()),
  );
  // Edges only rise: the highest value of several workers is the newest.
  gauge(
    'max',
    'head_version',
    'Newest ledger version that the upstream reported.',
    ({ window }) => window.believed?.version,
  );
  gauge(
    'max',
    'oldest_version',
    'Oldest ledger version the upstream holds.',
    ({ window }) => window.believed?.oldestVersion,
  );
  gauge('max', 'lag_versions', 'Versions the upstream is behind the head of the fleet.', ({ health, window }) => {
    const [head, version] = [fleet.head?.version, window.believed?.version];
    return version === undefined || head === undefined || health === 'foreign' ? undefined : behind(head, version);
  });
  gauge(
    'max',
    'edge_speed_versions_per_second',
    "Versions a second that the upstream's oldest version moves by, over the last 15 s.",
    ({ window }) => (window.info === undefined ? undefined : window.pace.edgeSpeed * 1_000),
  );
  gauge(
    'max',
    'edge_margin_versions',
    'A read is sent to the upstream as one that it surely holds from so many versions above its oldest on.',
    ({ window }) => {
      // The view of a request sent now, without its milliseconds to the node.
      const [view, info] = [window.at(performance.now()), window.believed];
      return view === undefined || info === undefined ? undefined : view.safeOldest - info.oldestVersion;
    },
  );
}

function createFleetGauges(registry: Registry, fleet: MeasuredFleet): void {
  new Gauge(registry, {
    name: 'ledgergate_outage',
    help: '1 while no upstream answers that did before, 0 otherwise.',
    join: 'min',
    read: () => Number(fleet.outageSinceMs !== undefined),
  });
  new Gauge(registry, {
    name: 'ledgergate_fleet_head_version',
    help: 'Newest ledger version that the fleet has reported.',
    join: 'max',
    read: () => fleet.head?.version,
  });
  new Gauge(registry, {
    name: 'ledgergate_fleet_oldest_version',
    help: 'Oldest ledger version the fleet can serve.',
    join: 'min',
    read: () => fleet.oldest?.oldestVersion,
  });
  new Gauge(registry, {
    name: 'ledgergate_latest_floors',
    help: 'Clients that have got a newer version than the states that reads of the latest state share; at most 100,000, of the worker that has most.',
    // A floor is held by every worker.
    join: 'max',
    read: () => fleet.latest.clientsAhead,
  });
}

/** Plain data: 64-bit numbers are text. No node is reported with its address. */
export function reportOf(fleet: FleetState, nowMs: number) {
  const { isReady, outageSinceMs, head, oldest, lost, chainId, ledger } = fleet;
  return {
    isReady,
    outage:
      outageSinceMs === undefined
        ? undefined
        : { since: new Date(outageSinceMs).toISOString(), head: head?.version.toString() },
    nodes: fleet.upstreams.map((upstream) => nodeOf(upstream, fleet, nowMs)),
    lost: lost && { from: lost.from.toString(), to: lost.to.toString(), upstreams: lost.upstreams },
    chainId,
    head: head?.version.toString(),
    oldest: oldest?.oldestVersion.toString(),
    /** Versions a second. */
    headSpeed: (ledger.source?.window.pace.headSpeed ?? 0) * 1_000,
  };
}

function nodeOf(upstream: Upstream, fleet: FleetState, nowMs: number) {
  const { name, tier, isDrained, isSuspect, inFlight, window, ejections, unusableSinceMs } = upstream;
  const { believed: info } = window;
  return {
    name,
    tier,
    state: upstream.health,
    reason: upstream.fault,
    since: unusableSinceMs === undefined ? undefined : new Date(unusableSinceMs).toISOString(),
    isDrained,
    forkedAt: upstream.forkedAt?.toString(),
    isSuspect,
    warning: upstream.address.isShared ? sharedAddressMessage : undefined,
    lower: window.lowerAt(nowMs)?.version.toString(),
    chainId: upstream.chain.id ?? upstream.chain.doubted,
    oldest: info?.oldestVersion.toString(),
    head: info?.version.toString(),
    ...lagOf(upstream, fleet, nowMs),
    isLagging: fleet.isLagging(upstream),
    edgeSpeed: window.pace.edgeSpeed * 1_000,
    edgeMargin: marginOf(upstream, nowMs),
    inFlight,
    limit: upstream.places.limit,
    ejected: readClasses.flatMap((readClass) => {
      const { reason, symptom } = ejections[readClass];
      return reason === undefined ? [] : [{ readClass, reason, symptom }];
    }),
  };
}

/** How far a node is behind the fleet's head, by its last report, which is older than its newest after it went back. */
function lagOf({ window, lagMs }: Upstream, { head }: FleetState, nowMs: number) {
  const info = window.lowerAt(nowMs) ?? window.believed;
  if (info === undefined || head === undefined) return { lag: undefined, lagSeconds: 0 };
  // A node that is down falls behind without a report.
  const ms = Math.max(0, lagMs, Number(head.timestampUsec - info.timestampUsec) / 1_000);
  return { lag: behind(head.version, info.version).toString(), lagSeconds: Math.round(ms / 100) / 10 };
}

/** Versions above the reported edge that a read needs to be sent to the node now. */
function marginOf({ window }: Upstream, nowMs: number): string | undefined {
  const view = window.at(nowMs);
  return view === undefined ? undefined : (view.safeOldest - view.oldest).toString();
}

/** A node whose head is not believed may be ahead of the fleet's. */
function behind(head: bigint, version: bigint): bigint {
  return version > head ? 0n : head - version;
}
