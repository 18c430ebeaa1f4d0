/** Metrics of the fleet: attempts, failures, windows, and audits of pinned reads at a second node. */
import type { Registry } from 'prom-client';
import { Counter } from './counter.ts';
import { combinations, labelSources } from './family.ts';
import { Gauge, type Reading } from './gauge.ts';
import { Histogram } from './histogram.ts';

/**
 * `connection`: refused, reset, cut off. `status`: a status that shows a broken node. `chain`: of another chain.
 * `bad answer`: a success that cannot be what was asked for (`upstream/dispatch/validate.ts` tells what it may be).
 * Two say nothing of the node: `queue`, no connection became free in time, and `size`, more than is read at once.
 */
const failureKinds = ['connection', 'timeout', 'queue', 'size', 'status', 'chain', 'bad answer'] as const;
/** Kind of a failed attempt, as its series is labelled. */
export type FailureKind = (typeof failureKinds)[number];

const statusClasses = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const;

/** Upper bounds of the buckets that durations of attempts are counted in, in seconds. */
export const attemptSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;

/** One node as a scrape sees it. */
interface UpstreamGauges {
  readonly name: string;
  readonly isUsable: boolean;
  readonly inFlight: number;
  readonly head: bigint | undefined;
  readonly oldest: bigint | undefined;
  readonly lag: bigint | undefined;
  /** Versions a second that its oldest version moves by. */
  readonly edgeSpeed: number | undefined;
  /** A read is sent there from so many versions above its oldest on. */
  readonly edgeMargin: bigint | undefined;
}

/** The fleet as a scrape sees it. */
interface FleetGauges {
  readonly head: bigint | undefined;
  readonly oldest: bigint | undefined;
  /** No node answers that did before. */
  readonly isOut: boolean;
}

/** Events of attempts that are counted. */
export type UpstreamMetrics = ReturnType<typeof createUpstreamMetrics>;

/** `readGauges` and `readFleet` are called at each scrape, so that nothing is counted while requests are served. */
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
    /** Versions that another replica had shown and no node here had got to in time. */
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
    help: 'Attempts without a usable answer: connection, timeout, status, chain and bad answer are held against the upstream, queue (no connection was free in time) and size (more than is read at once) are not.',
    labels: byKind,
    known: () => readGauges().flatMap(({ name }) => combinations(byKind, { upstream: name })),
  });
  const deferrals = new Counter(registry, {
    name: 'ledgergate_upstream_deferrals_total',
    help: 'Times the others began to be asked before an upstream, because it refused a request as one too many (429, overloaded, Retry-After).',
    labels: { upstream: labelSources.upstream },
    known: () => readGauges().map(({ name }) => ({ upstream: name })),
  });
  const duration = new Histogram(registry, {
    name: 'ledgergate_upstream_request_duration_seconds',
    help: 'Time of one attempt at an upstream, until the whole answer or the head of a streamed one.',
    labels: { upstream: labelSources.upstream },
    buckets: attemptSeconds,
  });
  return {
    observeAnswer(upstream: string, status: number, seconds: number) {
      requests.inc({ upstream, status: classOf(status) });
      duration.of({ upstream }).observe(seconds);
    },
    observeFailure(upstream: string, kind: FailureKind, seconds: number) {
      failures.inc({ upstream, kind });
      duration.of({ upstream }).observe(seconds);
    },
    /** An upstream limits or sheds requests: the others are asked first for a moment. */
    deferred: (upstream: string) => deferrals.inc({ upstream }),
    /** The upstream is gone: its series end. */
    forgetUpstream(gone: string) {
      for (const family of [requests, failures, deferrals, duration])
        family.remove(({ upstream }) => upstream === gone);
    },
  };
}

/** Whatever a node says, there are no other classes. */
function classOf(status: number): (typeof statusClasses)[number] {
  return statusClasses[Math.floor(status / 100) - 1] ?? '5xx';
}

/** How the words of several workers become one. */
type Aggregator = 'sum' | 'min' | 'max';

function createGauges(registry: Registry, read: () => readonly UpstreamGauges[]): void {
  const gauge = (join: Aggregator, name: string, help: string, value: (upstream: UpstreamGauges) => Reading): void => {
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
  gauge(
    'sum',
    'ledgergate_upstream_in_flight_requests',
    'Requests to the upstream without their whole answer.',
    (u) => u.inFlight,
  );
  // An edge only moves up: of several words the highest is the newest.
  gauge('max', 'ledgergate_upstream_head_version', 'Newest ledger version the upstream told.', (u) => u.head);
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
  const gauge = (join: Aggregator, name: string, help: string, value: (fleet: FleetGauges) => Reading): void => {
    new Gauge(registry, { name, help, join, read: () => value(read()) });
  };
  gauge('min', 'ledgergate_outage', '1 while no upstream answers that did before, 0 otherwise.', ({ isOut }) =>
    Number(isOut),
  );
  gauge('max', 'ledgergate_fleet_head_version', 'Newest ledger version the fleet has told.', ({ head }) => head);
  gauge('min', 'ledgergate_fleet_oldest_version', 'Oldest ledger version the fleet can serve.', ({ oldest }) => oldest);
}

/**
 * `inconclusive`: the second node gave no final answer. `no second node`: none surely holds the version. `skipped`: too
 * many are under way, or nodes have no connection to spare.
 */
const auditResults = ['equal', 'other spelling', 'disagreement', 'inconclusive', 'no second node', 'skipped'] as const;
type AuditResult = (typeof auditResults)[number];

/** Events of audits that are counted. */
export type AuditMetrics = ReturnType<typeof createAuditMetrics>;

/** Registers the families of audits. */
export function createAuditMetrics(registry: Registry) {
  const audits = new Counter(registry, {
    name: 'ledgergate_audits_total',
    help: 'Pinned reads that were drawn to be asked of a second upstream, by result.',
    labels: { result: auditResults },
  });
  const disagreements = new Counter(registry, {
    name: 'ledgergate_audit_disagreements_total',
    help: 'Pinned reads that two upstreams answered differently, by pair, names in order; a pair has no series before.',
    labels: { upstream: labelSources.upstream, other: labelSources.upstream },
  });
  return {
    audited: (result: AuditResult) => audits.inc({ result }),
    /** Names in order, so that a pair has one series. */
    disagreed: (upstream: string, other: string) => disagreements.inc({ upstream, other }),
  };
}
