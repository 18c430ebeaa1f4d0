// Scrapes of a gateway with every part on, under real load, read by a real Prometheus.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Registry } from 'prom-client';
import { catalogue } from '../../../scripts/metrics-catalogue.ts';
import { contentTypes, expose } from '../../../src/metrics/exposition.ts';
import { familiesOf, type Declared, type FamilyData } from '../../../src/metrics/family.ts';
import { createHttpMetrics } from '../../../src/proxy/http/http-metrics.ts';
import { type CountedRequest } from '../../../src/metrics/request-labels.ts';
import { encodeVectors } from '../../../src/sample/recorded.ts';
import { WorkerMetrics } from '../../../src/workers/workers.ts';
import { collector } from '../../support/collector.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { fetchReply, probe } from '../../support/gateway.ts';
import { gatewayProcess, type GatewayProcess } from '../../support/gateway-process.ts';
import { keysFile, testKey } from '../../support/keys.ts';
import { lintMetrics, noPrometheus, prometheus, prometheusOn } from '../../support/prometheus.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
import { storeFolder } from '../../support/stores.ts';
import { askH1, authority } from '../../support/tls.ts';
import { metric } from '../../support/workers.ts';

/** Names that the config of the test has. */
const names = { upstream: ['full-0', 'full-1'], plan: ['', 'free', 'none'], key: ['wallet-a'] };

/** A gateway with a store, Redis, keys, TLS and two workers. */
async function everything(
  t: TestContext,
): Promise<{ readonly gateway: GatewayProcess; readonly load: () => Promise<void> }> {
  const server = await redisServer(t);
  const nodes = [await fakeNode(t, { oldest: 500n, head: 900n }), await fakeNode(t, { archival: true, head: 890n })];
  const root = authority(t);
  const key = testKey('wallet-a');
  const { path: file } = keysFile(t, [key]);
  const plans = { free: { window: '10s', requests: 1_000 }, none: { window: '10s', requests: 1 } };
  const gateway = await gatewayProcess(t, {
    full: nodes,
    config: {
      workers: 2,
      listen: { host: '127.0.0.1', port: 0, tls: root.certify('gateway') },
      cache: {
        store: { path: storeFolder(t), maxBytes: '64MiB' },
        redis: { url: server.url, timeout: '500ms' },
      },
      access: { keys: { file }, plans, anonymous: 'none', usage: { metricsByKey: true } },
      encode: { shadow: 1 },
      upstream: { audit: 1 },
      tracing: { endpoint: (await collector(t)).url, share: 1 },
    },
  });
  const { origin } = new URL(gateway.url);
  const headers = { authorization: `Bearer ${key.text}`, 'content-type': 'application/json' };
  const ask = (path: string, more: object = {}) => askH1(origin, { path: `/v1${path}`, headers, ...more }, root.ca);
  const load = async (): Promise<void> => {
    for (let turn = 0; turn < 4; turn += 1) {
      for (const version of [600, 600, 5, 601 + turn]) await ask(`${probe}?ledger_version=${version}`);
      for (const path of [probe, '', '/accounts/0x1', '/nothing', '/accounts/0x1/module/coin', '/spec'])
        await ask(path);
      await ask('/view', {
        method: 'POST',
        body: '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}',
      });
      for (const { request } of encodeVectors.slice(0, 2)) {
        await ask('/transactions/encode_submission', { method: 'POST', body: request });
      }
      await ask(`/transactions/by_hash/0x${'1'.repeat(64)}`);
      await ask('/transactions', { method: 'POST', body: '{' });
      await ask(probe, { headers: {} });
      await ask(probe, { headers: { authorization: 'Bearer nobody' } });
    }
    assert.equal((await ask(probe)).status, 200);
  };
  return { gateway, load };
}

test('a gateway with every part on, under load', { skip: noRedis || noPrometheus }, async (t) => {
  const { gateway, load } = await everything(t);
  await load();
  await until(async () => ((await metric(gateway, 'ledgergate_encode_checks_total{result="equal"}')) ?? 0) > 0);
  const scrape = (accept: string) =>
    fetchReply(`${gateway.operationsUrl}/metrics`, { method: 'GET', headers: { accept } });

  await t.test('promtool finds nothing wrong with its metrics', async () => {
    const { headers, text } = await scrape('*/*');
    assert.equal(headers['content-type'], contentTypes.text);
    assert.equal(lintMetrics(text), '');
  });

  await t.test('every series is described in docs/metrics.md, its labels within what is said there', async () => {
    const { text } = await scrape('*/*');
    const known = new Map(catalogue().flatMap(({ families }) => families.map((family) => [family.name, family])));
    const seen = seriesOf(text);
    assert.ok(seen.length > 500, `${seen.length} series`);
    t.diagnostic(`${seen.length} series`);
    for (const { family, labels } of seen) {
      const described = known.get(family);
      assert.ok(described !== undefined, `${family} is not described`);
      assertDeclared(family, labels, described.labels);
    }
    const exposed = new Set(text.match(/(?<=^# TYPE )\S+/gm));
    assert.deepEqual(
      // With keys, the front takes no part; that its metrics are there is shown in test/front.
      [...known.keys()].filter((name) => !exposed.has(name) && !name.startsWith('ledgergate_fast_path_')),
      [],
      'what is described is there',
    );
    // Not only declared: every part has counted something.
    for (const name of ['access_key_requests_total', 'redis_lookup_duration_seconds_count', 'access_cost_total']) {
      assert.ok(
        seen.some(({ series, value }) => series === `ledgergate_${name}` && value > 0),
        name,
      );
    }
  });

  await t.test('both forms have the same series', async () => {
    const { headers, text } = await scrape('application/openmetrics-text;version=1.0.0');
    assert.equal(headers['content-type'], contentTypes.openmetrics);
    assert.ok(text.endsWith('\n# EOF\n'));
    assert.deepEqual(namesOf(text), namesOf((await scrape('text/plain')).text));
  });

  await t.test('Prometheus takes it all, as OpenMetrics', async () => {
    const scraper = await prometheus(t, `${gateway.operationsUrl}/metrics`);
    await scraper.until('query', { query: 'up == 1' });
    const [{ value: [, counted] } = { value: [0, ''] }] = (await scraper.until('query', {
      query: 'sum(ledgergate_http_requests_total{route="resource"})',
    })) as readonly { readonly value: readonly [number, string] }[];
    assert.ok(Number(counted) >= 17, counted);
    await scraper.until('query', { query: 'ledgergate_build_info' });
    assert.equal(await scraper.scrapeError(), '');
  });
});

const traced = (traceId: string, more: Partial<CountedRequest> = {}): CountedRequest => ({
  route: 'resource',
  status: 200,
  outcome: 'memory',
  isHeadSent: true,
  bytes: 0,
  trace: { traceId, spanId: '00f067aa0ba902b7' },
  ...more,
});

/** The families of a worker that answered these requests, each in its seconds. */
async function worker(
  answers: readonly (readonly [CountedRequest, seconds: number])[],
): Promise<readonly FamilyData[]> {
  const registry = new Registry();
  const metrics = createHttpMetrics(registry);
  for (const [request, seconds] of answers) {
    metrics.started();
    metrics.finished(request, seconds);
  }
  return familiesOf(registry);
}

test('Prometheus finds the traces of requests that any worker answered', { skip: noPrometheus }, async (t) => {
  const first = '4bf92f3577b34da6a3ce929d0e0e4736';
  const second = 'a3ce929d0e0e47364bf92f3577b34da6';
  const pool = new WorkerMetrics(() => 2);
  const reports = new Map([
    [
      1,
      await worker([
        [traced(first), 0.002],
        [traced('unused', { trace: undefined }), 0.2],
      ]),
    ],
    [2, await worker([[traced(second, { outcome: 'miss' }), 0.03]])],
  ]);
  const server = createServer((request, response) => {
    void pool.families(reports).then((families) => {
      const { contentType, text } = expose(families, request.headers.accept);
      response.writeHead(200, { 'content-type': contentType }).end(text);
    });
  });
  server.listen(0, '127.0.0.1');
  t.after(() => server.close().closeAllConnections());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const scraper = await prometheus(t, `http://127.0.0.1:${port}/metrics`);

  const query = 'ledgergate_http_request_duration_seconds_bucket';
  const [start, end] = [Date.now() / 1000 - 60, Date.now() / 1000 + 60].map(String) as [string, string];
  let found: readonly ExemplarSeries[] = [];
  while (found.length < 2) {
    found = (await scraper.until('query_exemplars', { query, start, end })) as readonly ExemplarSeries[];
    await sleep(50);
  }

  assert.equal(await scraper.scrapeError(), '');
  const shown = found.flatMap(({ seriesLabels: { outcome, le }, exemplars }) =>
    exemplars.map(({ labels, value }) => [outcome, le, labels['trace_id'], labels['span_id'], value].join(' ')),
  );
  assert.deepEqual(
    new Set(shown),
    new Set([`memory 0.0025 ${first} 00f067aa0ba902b7 0.002`, `miss 0.05 ${second} 00f067aa0ba902b7 0.03`]),
  );
});

interface ExemplarSeries {
  readonly seriesLabels: Readonly<Record<string, string>>;
  readonly exemplars: readonly { readonly labels: Readonly<Record<string, string>>; readonly value: string }[];
}

interface Series {
  readonly family: string;
  readonly series: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Name and labels of every series of the gateway's own. */
function namesOf(text: string): ReadonlySet<string> {
  return new Set(text.match(/^ledgergate_[^ ]+(?= )/gm));
}

/** The series of a classic text, split by hand. */
function seriesOf(text: string): readonly Series[] {
  const families = new Map(
    [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type = '']) => [name, type]),
  );
  return [...text.matchAll(/^([a-z_]+)(?:\{(.*)\})? (\S+)$/gm)].map(([, series = '', pairs = '', value]) => {
    const whole = series.replace(/_(?:bucket|sum|count)$/, '');
    return {
      family: families.get(whole) === 'histogram' ? whole : series,
      series,
      labels: Object.fromEntries([...pairs.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, text]) => [name, text])),
      value: Number(value),
    };
  });
}

/** Every label is declared and has a declared value; open ones come from the config of the test. */
function assertDeclared(family: string, labels: Series['labels'], declared: Declared): void {
  const { le: _, ...own } = labels;
  assert.deepEqual(Object.keys(own).sort(), Object.keys(declared).sort(), family);
  for (const [name, value] of Object.entries(own)) {
    const values = declared[name] ?? [];
    if (typeof values !== 'string') assert.ok(values.includes(value), `${family}{${name}="${value}"}`);
    else if (name === 'status') assert.match(value, /^[1-5]\d\d$/);
    else if (name in names)
      assert.ok(names[name as keyof typeof names].includes(value), `${family}{${name}="${value}"}`);
  }
}

test('a Prometheus that ends at its start is reported with its last errors', { skip: noPrometheus }, async (t) => {
  const scraper = await prometheusOn(t, 'no_such_key: 1');

  await assert.rejects(scraper.until('query', { query: 'up' }), /prometheus has ended: .*no_such_key/s);
});
