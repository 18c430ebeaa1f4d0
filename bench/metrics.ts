/**
 * The cost of all metrics of one cached hit, in microseconds of one core: the calls that a hit makes, on the metrics of the
 * gateway, on prom-client's own with every series looked up once, and on metrics that do nothing, in interleaved rounds
 * of one process. Writes the section of RESULTS.md.
 *
 *     npm run bench:metrics -- [--rounds N]
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { createCacheMetrics } from '../src/cache/cache.ts';
import { createHttpMetrics, type HttpMetrics } from '../src/proxy/http/http-metrics.ts';
import { routeNames } from '../src/proxy/routes/route-table.ts';
import { type CountedRequest } from '../src/metrics/request-labels.ts';
import { createLatestMetrics } from '../src/proxy/reads/freshness.ts';
import { type AccessMetrics, createAccessMetrics } from '../src/access/access-metrics.ts';
import { spread } from './support/figures.ts';
import { optionsOf, readFlags } from './support/options.ts';
import { table } from './support/report.ts';
import { writeSection } from './support/results-section.ts';

const { rounds } = optionsOf(readFlags(), { rounds: 41 });
const callsPerRound = 100_000;

/** Everything that a hit calls. */
interface Counting {
  readonly http: Pick<HttpMetrics, 'started' | 'finished'>;
  readonly cache: { hit(): void };
  readonly latest: ReturnType<typeof createLatestMetrics>;
  readonly limits: Pick<AccessMetrics, 'answered'>;
}

/** Hits of different routes and statuses, as they come by turns. */
const requests: readonly CountedRequest[] = (['resource', 'module', 'view', 'transaction_by_hash'] as const).flatMap(
  (route) =>
    [200, 200, 304, 404].map((status, index) => ({
      route,
      status,
      outcome: 'memory',
      isHeadSent: true,
      bytes: 400 * index,
    })),
);
const seconds = Array.from({ length: 64 }, (_, index) => 0.0001 + (index % 8 === 0 ? 0.003 : 0) + index * 1e-6);
const whose = { plan: { name: 'free' }, name: 'wallet-a' };

type Hit = (counting: Counting, turn: number) => void;

const pinned: Hit = ({ http, cache }, turn) => {
  http.started();
  cache.hit();
  http.finished(requests[turn & 15] as CountedRequest, seconds[turn & 63] ?? 0);
};
const kinds: Readonly<Record<string, Hit>> = {
  'a pinned read': pinned,
  'a read of latest': (counting, turn) => {
    pinned(counting, turn);
    counting.latest.observeStaleness(seconds[turn & 63] ?? 0);
    counting.latest.observeLag(turn & 255);
  },
  'a read of latest with a key, counted by plan and key': (counting, turn) => {
    kinds['a read of latest']?.(counting, turn);
    counting.limits.answered(whose, 'hit', 1);
  },
};
const contenders: Readonly<Record<string, Counting>> = {
  nothing: {
    http: { started: () => undefined, finished: () => undefined },
    cache: { hit: () => undefined },
    latest: { observeStaleness: () => undefined, observeLag: () => undefined },
    limits: { answered: () => undefined },
  },
  gateway: gatewayMetrics(),
  'prom-client': promClientMetrics(),
};

const rows: string[][] = [];
for (const [title, hit] of Object.entries(kinds)) {
  const taken = new Map<string, number[]>(Object.keys(contenders).map((name) => [name, []]));
  for (let round = -5; round < rounds; round += 1) {
    for (const [name, counting] of Object.entries(contenders)) {
      const microseconds = measure(hit, counting);
      // The first rounds are the compiler's.
      if (round >= 0) taken.get(name)?.push(microseconds);
    }
  }
  rows.push([title, ...[...taken.values()].map((times) => spread(times, 3))]);
}
const shown = table(['what', ...Object.keys(contenders)], rows);
process.stdout.write(shown);
writeSection('Metrics: `npm run bench:metrics`', `${introduction()}\n\n${shown}`);

function introduction(): string {
  return `What all metrics of one cached hit cost together, microseconds of one core: median of ${rounds} rounds of ${callsPerRound.toLocaleString('en')} hits (least-most), rounds interleaved in one process. \`nothing\` are the same calls on metrics that do nothing; \`prom-client\` its own counters and histograms with every series looked up once, which is as cheap as it gets there. The bound is 2 microseconds.`;
}

function measure(hit: Hit, counting: Counting): number {
  const started = process.hrtime.bigint();
  for (let turn = 0; turn < callsPerRound; turn += 1) hit(counting, turn);
  return Number(process.hrtime.bigint() - started) / callsPerRound / 1_000;
}

function gatewayMetrics(): Counting {
  const registry = new Registry();
  const cache = createCacheMetrics(registry, () => ({ entries: 0, bytes: 0, maxBytes: 0 }));
  return {
    http: createHttpMetrics(registry, routeNames),
    cache: { hit: () => cache.hitsOf('resource').inc() },
    latest: createLatestMetrics(registry),
    limits: createAccessMetrics(registry, true, { keys: () => 0, waiting: () => 0, plans: () => [] }),
  };
}

function promClientMetrics(): Counting {
  const registers = [new Registry()];
  let named = 0;
  const base = () => ({ name: `metric_${(named += 1)}`, help: 'A metric.', registers });
  const counter = () => new Counter(base());
  const [hits, saved, bodies] = [counter(), counter(), counter()];
  const counts = [counter(), counter(), counter(), counter()];
  const inFlight = new Gauge(base());
  const answered = new Map(
    requests.map(({ route, status }) => [
      `${route} ${status}`,
      new Counter({ ...base(), labelNames: ['route', 'status'] }).labels({ route, status: String(status) }),
    ]),
  );
  const duration = new Histogram({ ...base(), labelNames: ['route', 'outcome'] });
  const durations = new Map(requests.map(({ route }) => [route, duration.labels({ route, outcome: 'memory' })]));
  const [staleness, lag] = [new Histogram(base()), new Histogram(base())];
  return {
    http: {
      started: () => inFlight.inc(),
      finished({ route, status, bytes }, seconds) {
        inFlight.dec();
        answered.get(`${route} ${status}`)?.inc();
        durations.get(route)?.observe(seconds);
        saved.inc();
        bodies.inc(bytes);
      },
    },
    cache: { hit: () => hits.inc() },
    latest: {
      observeStaleness: (seconds) => staleness.observe(seconds),
      observeLag: (versions) => lag.observe(versions),
    },
    limits: {
      answered: (_of, _outcome, cost) => {
        for (const [index, count] of counts.entries()) count.inc(index % 2 === 0 ? 1 : cost);
      },
    },
  };
}
