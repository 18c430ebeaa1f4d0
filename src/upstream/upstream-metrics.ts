/** Metrics of the fleet: attempts, failures, and windows. */
import type { Registry } from 'prom-client';
import { combinations, Counter, Gauge, Histogram, type FamilyData, labelSources } from '../metrics/index.ts';

/**
 * `connection`: refused, reset, cut off. `status`: a status of a broken node. `chain`: another chain's answer.
 * `bad answer`: a success that cannot answer the request (`upstream/dispatch/classify.ts`). Two are no fault of the node:
 * `queue`, no connection became free in time, and `size`, larger than the gateway reads at once.
 */
const failureKinds = ['connection', 'timeout', 'queue', 'size', 'status', 'chain', 'bad answer'] as const;
/** Label `kind` of a failed attempt. */
export type FailureKind = (typeof failureKinds)[number];

/** Why a node cannot be used (`upstream/node/node-fault.ts`). */
const nodeFaults = [
  'connection refused',
  'connection cut',
  'connection failed',
  'name not found',
  'no route',
  'TLS',
  'time-out',
  'not HTTP',
  'wrong base path',
  'credentials refused',
  'error status',
  'sheds requests',
  'no ledger headers',
  'absurd ledger headers',
  'head below oldest',
  'other dialect',
  'other chain',
  'bad answer',
] as const;
/** Label `reason` of a node that is not usable. */
export type NodeFault = (typeof nodeFaults)[number];

const statusClasses = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const;

/** Bucket bounds for durations of attempts, in seconds. */
const attemptSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;

/** Readings of one node. */
interface UpstreamGauges {
  readonly name: string;
  readonly isUsable: boolean;
  /** Why it is not usable; `undefined`: it is, or it was not asked yet. */
  readonly fault: NodeFault | undefined;
  readonly isDrained: boolean;
  readonly isForked: boolean;
  /** Several nodes answer at its address. */
  readonly isShared: boolean;
  readonly inFlight: number;
  /** Requests that its allowance lets through at once; `undefined`: no allowance. */
  readonly tokens: number | undefined;
  readonly head: bigint | undefined;
  readonly oldest: bigint | undefined;
  readonly lag: bigint | undefined;
  /** Versions a second, of its oldest version. */
  readonly edgeSpeed: number | undefined;
  /** Versions above its oldest from which on it gets reads. */
  readonly edgeMargin: bigint | undefined;
}

/** Readings of the fleet. */
interface FleetGauges {
  readonly head: bigint | undefined;
  readonly oldest: bigint | undefined;
  /** No node answers that did before. */
  readonly isOut: boolean;
}

/** Counts attempts and their repairs. */
export type UpstreamMetrics = ReturnType<typeof createUpstreamMetrics>;

/** Registers the families of the fleet; `readGauges` and `readFleet` are called at each scrape. */
export function createUpstreamMetrics(
  registry: Registry,
  readGauges: () => readonly UpstreamGauges[],
  readFleet: () => FleetGauges,
) {
  createGauges(registry, readGauges);
  createFleetGauges(registry, readFleet);
  return {
    ...createAttemptMetrics(registry, readGauges),
    prunedRepaired: new Counter(registry, {
      name: 'ledgergate_pruned_answers_repaired_total',
      help: 'Requests that one upstream called pruned and another answered.',
    }).of({}),
    unreached: new Counter(registry, {
      name: 'ledgergate_unreached_versions_total',
      help: 'Versions that another replica had shown and that no upstream here got to in time.',
    }).of({}),
  };
}

function createAttemptMetrics(registry: Registry, readGauges: () => readonly UpstreamGauges[]) {
  const byStatus = { upstream: labelSources.upstream, status: statusClasses };
  const requests = new Counter(registry, {
    name: 'ledgergate_upstream_requests_total',
    help: 'Requests answered by an upstream, by class of status.',
    labels: byStatus,
    known: () => readGauges().flatMap(({ name }) => combinations(byStatus, { upstream: name })),
  });
  const byKind = { upstream: labelSources.upstream, kind: failureKinds };
  const failures = new Counter(registry, {
    name: 'ledgergate_upstream_failures_total',
    help: 'Attempts without a usable answer: connection, timeout, chain and bad answer are held against the upstream, status too unless a client may have provoked it (429, 500), queue (no connection was free in time) and size (more than is read at once) are not.',
    labels: byKind,
    known: () => readGauges().flatMap(({ name }) => combinations(byKind, { upstream: name })),
  });
  const deferrals = new Counter(registry, {
    name: 'ledgergate_upstream_deferrals_total',
    help: 'Times the others began to be asked before an upstream, because it refused a request as one too many (429, overloaded, Retry-After).',
    labels: { upstream: labelSources.upstream },
    known: () => readGauges().map(({ name }) => ({ upstream: name })),
  });
  const allowanceRefusals = new Counter(registry, {
    name: 'ledgergate_upstream_allowance_refusals_total',
    help: 'Requests that were not sent to an upstream, because its maxRequestsPerSecond was used up and no other upstream could answer.',
    labels: { upstream: labelSources.upstream },
    known: () => readGauges().map(({ name }) => ({ upstream: name })),
  });
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
  return {
    observeAnswer(upstream: string, status: number, seconds: number) {
      requests.inc({ upstream, status: classOf(status) });
      duration.of({ upstream }).observe(seconds);
    },
    /** An answer that `observeAnswer` counts is of no use: a status of a broken node that a client may have provoked. */
    answerFailed: (upstream: string) => failures.inc({ upstream, kind: 'status' }),
    observeFailure(upstream: string, kind: FailureKind, seconds: number) {
      failures.inc({ upstream, kind });
      duration.of({ upstream }).observe(seconds);
    },
    /** The upstream limits or sheds requests: for a moment it is asked last. */
    deferred: (upstream: string) => deferrals.inc({ upstream }),
    /** A request was not sent, because the upstream's allowance is used up and no other can answer. */
    allowanceRefused: (upstream: string) => allowanceRefusals.inc({ upstream }),
    /** The nodes of an upstream with `discover` were not found. */
    nodesNotFound: (upstream: string) => notFound.inc({ upstream }),
    /** Ends the series of an upstream that left the config. */
    forgetDiscovery: (gone: string) => notFound.remove(({ upstream }) => upstream === gone),
    /** Ends the series of an upstream that left the fleet. */
    forgetUpstream(gone: string) {
      for (const family of [requests, failures, deferrals, allowanceRefusals, duration])
        family.remove(({ upstream }) => upstream === gone);
    },
  };
}

/** Statuses beyond 599 count as 5xx, so that the label stays bounded. */
function classOf(status: number): (typeof statusClasses)[number] {
  return statusClasses[Math.floor(status / 100) - 1] ?? '5xx';
}

function createGauges(registry: Registry, read: () => readonly UpstreamGauges[]): void {
  const gauge = (
    join: FamilyData['aggregator'],
    name: string,
    help: string,
    value: (upstream: UpstreamGauges) => number | bigint | undefined,
  ): void => {
    new Gauge(registry, {
      name,
      help,
      join,
      labels: { upstream: labelSources.upstream },
      read: () => read().map((upstream) => [{ upstream: upstream.name }, value(upstream)] as const),
    });
  };
  gauge('min', 'ledgergate_upstream_usable', '1 while the upstream answers, 0 otherwise.', ({ isUsable }) =>
    Number(isUsable),
  );
  new Gauge(registry, {
    name: 'ledgergate_upstream_fault',
    help: '1 while the upstream is not usable, by the reason; an upstream that is usable has no series.',
    join: 'max',
    labels: { upstream: labelSources.upstream, reason: nodeFaults },
    read: () => read().flatMap(({ name, fault }) => (fault ? [[{ upstream: name, reason: fault }, 1] as const] : [])),
  });
  gauge('max', 'ledgergate_upstream_drained', '1 while an operator has drained the upstream, 0 otherwise.', (u) =>
    Number(u.isDrained),
  );
  gauge(
    'max',
    'ledgergate_upstream_forked',
    '1 while the history of the upstream differs from others, 0 otherwise.',
    (u) => Number(u.isForked),
  );
  gauge(
    'max',
    'ledgergate_upstream_shared_address',
    '1 while several nodes with different ledgers answer at the address of the upstream, 0 otherwise.',
    ({ isShared }) => Number(isShared),
  );
  gauge(
    'sum',
    'ledgergate_upstream_in_flight_requests',
    'Requests to the upstream without their whole answer.',
    (u) => u.inFlight,
  );
  gauge(
    'sum',
    'ledgergate_upstream_allowance_tokens',
    'Requests that the maxRequestsPerSecond of the upstream lets through at once; below 0, probes were sent without one.',
    ({ tokens }) => tokens,
  );
  // Edges only rise: the highest value of several workers is the newest.
  gauge('max', 'ledgergate_upstream_head_version', 'Newest ledger version that the upstream reported.', (u) => u.head);
  gauge('max', 'ledgergate_upstream_oldest_version', 'Oldest ledger version the upstream holds.', (u) => u.oldest);
  gauge(
    'max',
    'ledgergate_upstream_lag_versions',
    'Versions the upstream is behind the head of the fleet.',
    (u) => u.lag,
  );
  gauge(
    'max',
    'ledgergate_upstream_edge_speed_versions_per_second',
    "Versions a second that the upstream's oldest version moves by, over the last 15 s.",
    (u) => u.edgeSpeed,
  );
  gauge(
    'max',
    'ledgergate_upstream_edge_margin_versions',
    'A read is sent to the upstream as one that it surely holds from so many versions above its oldest on.',
    (u) => u.edgeMargin,
  );
}

function createFleetGauges(registry: Registry, read: () => FleetGauges): void {
  const gauge = (
    join: FamilyData['aggregator'],
    name: string,
    help: string,
    value: (fleet: FleetGauges) => number | bigint | undefined,
  ): void => {
    new Gauge(registry, { name, help, join, read: () => value(read()) });
  };
  gauge('min', 'ledgergate_outage', '1 while no upstream answers that did before, 0 otherwise.', ({ isOut }) =>
    Number(isOut),
  );
  gauge(
    'max',
    'ledgergate_fleet_head_version',
    'Newest ledger version that the fleet has reported.',
    ({ head }) => head,
  );
  gauge('min', 'ledgergate_fleet_oldest_version', 'Oldest ledger version the fleet can serve.', ({ oldest }) => oldest);
}
