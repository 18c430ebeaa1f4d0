/** Every family of metrics that a gateway with every part on has, made as the gateway makes them. */
import { collectDefaultMetrics, Registry } from 'prom-client';
import type { Config } from '../src/config/config.ts';
import { createAccessLog } from '../src/gateway/access-log.ts';
import { GatewayLog } from '../src/gateway/log.ts';
import { Journal } from '../src/metrics/journal.ts';
import { Renewals } from '../src/metrics/renewals.ts';
import { createTracing } from '../src/metrics/trace/otlp.ts';
import { createAccessMetrics } from '../src/access/access-metrics.ts';
import { createAuditMetrics } from '../src/proxy/reads/audits.ts';
import { createBuildMetrics } from '../src/gateway/gateway.ts';
import { Reloads } from '../src/gateway/reloads.ts';
import { createCacheMetrics } from '../src/cache/cache.ts';
import { createRedisMetrics } from '../src/cache/redis/shared-cache.ts';
import { createStoreMetrics } from '../src/cache/store/store.ts';
import { createEncodeMetrics, createProofMetrics } from '../src/proxy/routes/encoder.ts';
import type { Declared } from '../src/metrics/family.ts';
import {
  createBodyMetrics,
  createFastPathMetrics,
  createHttpMetrics,
  createOverloadMetrics,
  createStreamMetrics,
  createTlsMetrics,
} from '../src/proxy/http/http-metrics.ts';
import { routeNames } from '../src/proxy/routes/route-table.ts';
import { createLatestMetrics } from '../src/proxy/reads/freshness.ts';
import { createFollowerMetrics } from '../src/proxy/reads/follower/follower.ts';
import { createPageProofMetrics } from '../src/proxy/reads/follower/page-proof.ts';
import { createHotMetrics } from '../src/proxy/reads/hot-reads.ts';
import { createWaitMetrics } from '../src/proxy/reads/follower/waits.ts';
import { createPoolMetrics } from '../src/workers/workers.ts';
import { createFleetMetrics } from '../src/upstream/upstream-metrics.ts';
import { emptyFleet } from '../test/support/sender.ts';

/** One family as it is described. */
export interface Described {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly labels: Declared;
  /** Of a histogram. */
  readonly buckets: readonly number[] | undefined;
  /** Condition under which the family exists. */
  readonly when: string;
}

export interface Section {
  readonly title: string;
  readonly families: readonly Described[];
}

interface Part {
  readonly when: string;
  readonly add: (registry: Registry) => unknown;
}

const zero = (): number => 0;
const nobody = { keys: zero, waiting: zero, plans: () => [] };
const log = new GatewayLog({ level: 'silent', format: 'json', access: { share: 0, slowMs: 0, failed: false } });
const journal = new Journal(log.logger);
const always = (...adds: readonly Part['add'][]): Part => ({
  when: 'always',
  add: (registry) => {
    for (const add of adds) add(registry);
  },
});

/** By what they are of. A family that an earlier part has is described there. */
const parts: readonly (readonly [title: string, parts: readonly Part[]])[] = [
  [
    'Requests of clients',
    [
      always(
        (registry) => createHttpMetrics(registry, routeNames),
        (registry) => createBodyMetrics(registry, zero),
        createLatestMetrics,
        overload,
      ),
      { when: '`listen.fastPath`', add: createFastPathMetrics },
    ],
  ],
  ['Event streams', [always((registry) => createStreamMetrics(registry, zero))]],
  ['Cache', [always(cache), { when: '`cache.store`', add: store }, { when: '`cache.redis`', add: redis }]],
  ['Upstreams', [always((registry) => createFleetMetrics(registry, emptyFleet), createAuditMetrics, createHotMetrics)]],
  ['The follower', [always(createWaitMetrics, follower)]],
  ['Signing messages', [always(createEncodeMetrics, (registry) => createProofMetrics(registry, zero))]],
  [
    'Keys and limits',
    [
      { when: '`access`', add: (registry) => createAccessMetrics(registry, false, nobody) },
      {
        when: '`access.usage.metricsByKey`',
        add: (registry) => createAccessMetrics(registry, true, nobody),
      },
      {
        when: '`access`, with `access.redis` or `cache.redis`',
        add: (registry) => createAccessMetrics(registry, false, { ...nobody, isShared: () => true }),
      },
    ],
  ],
  [
    'TLS and credentials',
    [
      { when: '`listen.tls`', add: (registry) => createTlsMetrics(registry, zero) },
      always((registry) => new Renewals(registry, journal)),
    ],
  ],
  [
    'The process',
    [
      always(
        build,
        (registry) => new Reloads({} as Config, { registry, journal, apply: async () => {} }, () => {}),
        (registry) => createAccessLog(log, registry),
        (registry) => log.register(registry),
      ),
      { when: '`tracing`', add: tracing },
      { when: '`workers` above 1', add: (registry) => createPoolMetrics(registry, zero) },
    ],
  ],
  ['Node.js', [always(node)]],
];

function follower(registry: Registry): void {
  createFollowerMetrics(registry, () => ({ isRunning: false, lagSeconds: 0 }));
  createPageProofMetrics(registry, () => false);
}

function overload(registry: Registry): void {
  createOverloadMetrics(registry, { connections: zero, lagSeconds: zero, answerBytes: zero });
}

function cache(registry: Registry): void {
  createCacheMetrics(registry, () => ({
    entries: 0,
    bytes: 0,
    maxBytes: 0,
  }));
}

function store(registry: Registry): void {
  createStoreMetrics(registry, () => ({ isUp: true, bytes: 0, maxBytes: 0 }));
}

function redis(registry: Registry): void {
  createRedisMetrics(registry, () => ({ isUp: true, isWritable: true, pendingWrites: 0, pendingBytes: 0 }));
}

function tracing(registry: Registry): void {
  createTracing(
    { endpoint: 'http://127.0.0.1', headers: () => ({}), share: 0, resource: {} },
    { log: log.logger, registry },
  );
}

function build(registry: Registry): void {
  createBuildMetrics(registry, '', 'node');
}

/** Those that `gateway/serving.ts` registers. */
function node(registry: Registry): void {
  collectDefaultMetrics({ register: registry });
  for (const kind of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${kind}_total`);
}

export function catalogue(): readonly Section[] {
  const known = new Set<string>();
  return parts.map(([title, parts]) => ({
    title,
    families: parts.flatMap(({ when, add }) => {
      const registry = new Registry();
      add(registry);
      return registry.getMetricsAsArray().flatMap((metric) => {
        if (known.has(metric.name)) return [];
        known.add(metric.name);
        return [describe(metric, when)];
      });
    }),
  }));
}

/** Node's own metrics declare the names of their labels only. */
interface Registered {
  readonly name: string;
  readonly type: unknown;
  readonly help: string;
  readonly declared?: Declared;
  readonly labelNames?: readonly string[];
  readonly buckets?: readonly number[];
}

function describe(metric: Registered, when: string): Described {
  const { name, type, help, declared, labelNames = [], buckets } = metric;
  const labels = declared ?? Object.fromEntries(labelNames.map((label) => [label, ofNode]));
  return { name, type: String(type), help, labels, buckets, when };
}

const ofNode = 'what Node.js calls them';
