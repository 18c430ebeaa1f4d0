/** Metrics of the fleet: attempts, failures, windows. Labels: upstream names from the config, status classes. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/**
 * `connection`: refused, reset, cut off. `status`: a status that shows a broken node. `chain`: of another chain.
 * `bad answer`: a success that cannot be what was asked for (`upstream/answer-fault.ts` tells what it may be).
 * Two say nothing of the node: `queue`, no connection became free in time, and `size`, more than is read at once.
 */
const failureKinds = ['connection', 'timeout', 'queue', 'size', 'status', 'chain', 'bad answer'] as const;
export type FailureKind = (typeof failureKinds)[number];

const statusClasses = ['1xx', '2xx', '3xx', '4xx', '5xx'];

/** One node as a scrape sees it. */
export interface UpstreamGauges {
  readonly name: string;
  readonly isUsable: boolean;
  readonly inFlight: number;
  readonly head: bigint | undefined;
  readonly oldest: bigint | undefined;
  readonly lag: bigint | undefined;
}

/** The fleet as a scrape sees it. */
export interface FleetGauges {
  readonly head: bigint | undefined;
  readonly oldest: bigint | undefined;
  /** No node answers that did before. */
  readonly isOut: boolean;
}

export interface UpstreamMetrics {
  observeAnswer(upstream: string, status: number, seconds: number): void;
  observeFailure(upstream: string, kind: FailureKind, seconds: number): void;
  /** The upstream is gone: its series end. */
  forgetUpstream(upstream: string): void;
  readonly prunedRepaired: Pick<Counter, 'inc'>;
  /** Versions that another replica had shown and no node here had got to in time. */
  readonly unreached: Counter;
}

/** `readGauges` and `readFleet` are called at each scrape, so that nothing is counted while requests are served. */
export function createUpstreamMetrics(
  registry: Registry,
  readGauges: () => readonly UpstreamGauges[],
  readFleet: () => FleetGauges,
): UpstreamMetrics {
  const registers = [registry];
  const requests = new Counter({
    name: 'ledgergate_upstream_requests_total',
    help: 'Requests answered by an upstream, by class of status.',
    labelNames: ['upstream', 'status'] as const,
    registers,
  });
  const failures = new Counter({
    name: 'ledgergate_upstream_failures_total',
    help: 'Attempts without a usable answer, by what went wrong.',
    labelNames: ['upstream', 'kind'] as const,
    registers,
  });
  const duration = new Histogram({
    name: 'ledgergate_upstream_request_duration_seconds',
    help: 'Time of one attempt at an upstream, until the whole answer or the head of a streamed one.',
    labelNames: ['upstream'] as const,
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers,
  });
  const prunedRepaired = new Counter({
    name: 'ledgergate_pruned_answers_repaired_total',
    help: 'Requests that one upstream called pruned and another answered.',
    registers,
  });
  createGauges(registry, readGauges);
  createFleetGauges(registry, readFleet);
  return {
    observeAnswer(upstream, status, seconds) {
      requests.inc({ upstream, status: `${Math.floor(status / 100)}xx` });
      duration.observe({ upstream }, seconds);
    },
    observeFailure(upstream, kind, seconds) {
      failures.inc({ upstream, kind });
      duration.observe({ upstream }, seconds);
    },
    forgetUpstream(upstream) {
      for (const status of statusClasses) requests.remove({ upstream, status });
      for (const kind of failureKinds) failures.remove({ upstream, kind });
      duration.remove({ upstream });
    },
    prunedRepaired,
    unreached: new Counter({
      name: 'ledgergate_unreached_versions_total',
      help: 'Versions that another replica had shown and that no upstream here got to in time.',
      registers,
    }),
  };
}

/** How the words of several workers become one. */
type Aggregator = 'sum' | 'min' | 'max';

function createGauges(registry: Registry, read: () => readonly UpstreamGauges[]): void {
  const gauge = (
    aggregator: Aggregator,
    name: string,
    help: string,
    value: (upstream: UpstreamGauges) => number | bigint | undefined,
  ): void => {
    // Versions are scraped as floating-point numbers: exact up to 2^53, far above any ledger today.
    new Gauge({
      name,
      help,
      aggregator,
      labelNames: ['upstream'] as const,
      registers: [registry],
      collect() {
        this.reset();
        for (const upstream of read()) {
          const current = value(upstream);
          if (current !== undefined) this.set({ upstream: upstream.name }, Number(current));
        }
      },
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
}

function createFleetGauges(registry: Registry, read: () => FleetGauges): void {
  type Value = (fleet: FleetGauges) => bigint | number | undefined;
  const gauge = (aggregator: Aggregator, name: string, help: string, value: Value): void => {
    new Gauge({
      name,
      help,
      aggregator,
      registers: [registry],
      collect() {
        const current = value(read());
        if (current !== undefined) this.set(Number(current));
      },
    });
  };
  gauge('min', 'ledgergate_outage', '1 while no upstream answers that did before, 0 otherwise.', ({ isOut }) =>
    Number(isOut),
  );
  gauge('max', 'ledgergate_fleet_head_version', 'Newest ledger version the fleet has told.', ({ head }) => head);
  gauge('min', 'ledgergate_fleet_oldest_version', 'Oldest ledger version the fleet can serve.', ({ oldest }) => oldest);
}
