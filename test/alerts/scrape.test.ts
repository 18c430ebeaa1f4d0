/** A gateway with every part on: its series are those that documents, alerts, panels and the runbook name. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { catalogue } from '../../scripts/metrics-catalogue.ts';
import { contentTypes } from '../../src/metrics/exposition.ts';
import type { Declared } from '../../src/metrics/family.ts';
import { encodeVectors } from '../../src/sample/recorded.ts';
import { collector, type Collector } from '../support/collector.ts';
import { until } from '../support/eventually.ts';
import { fakeNode } from '../support/fake-node.ts';
import { fetchReply } from '../support/gateway.ts';
import { gatewayProcess, type GatewayProcess } from '../support/gateway-process.ts';
import { ledgerHeaders } from '../support/ledger-info.ts';
import { keysFile, testKey } from '../support/keys.ts';
import { lintMetrics, noPrometheus, prometheus } from '../support/prometheus.ts';
import { noRedis, redisServer } from '../support/redis-server.ts';
import { submission } from '../support/submission.ts';
import { askH1, authority, replaceFiles } from '../support/tls.ts';
import { tlsFront } from '../support/tls-front.ts';
import { dashboard, dashboardExpressions } from './dashboard.ts';
import {
  groupingLabelsIn,
  parseScrape,
  selectorsIn,
  type Series,
  seriesIn,
  shownLabelsIn,
  type Scrape,
} from './promql.ts';
import { alertingRules, noPromtool, promtool, recordingRules } from './rule-files.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const probe = '/v1/accounts/0x1/resource/0x1::ledgergate_sample::Probe';
const lie = '{"type":"0x1::ledgergate_sample::Probe","data":{"address":"0x1","ledger_version":"7"}}';

/** Labels that Prometheus adds at a scrape, here or from Kubernetes. */
const ofPrometheus = new Set(['job', 'instance', 'pod', 'node', 'alertname', 'alertstate']);

const runbook = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8');
const runbookQueries = [...runbook.matchAll(/```promql\n(.*?)```/gs)].flatMap(([, block = '']) =>
  block.trim().split('\n'),
);

const expressions = [
  ...alertingRules.map(({ alert, expr }) => ({ where: alert, expr })),
  ...recordingRules.map(({ record, expr }) => ({ where: record, expr })),
  ...dashboardExpressions('5m').map(({ title, expr }) => ({ where: `panel ${title}`, expr })),
  ...runbookQueries.map((expr) => ({ where: 'docs/runbook.md', expr })),
];

/** The scrape of a gateway with workers, a store, Redis, keys and TLS, after some load and some faults. */
async function observed(
  t: TestContext,
): Promise<{ readonly scrape: Scrape; readonly gateway: GatewayProcess; readonly traces: Collector }> {
  const traces = await collector(t);
  const redis = await redisServer(t);
  const root = authority(t);
  const full = await fakeNode(t, { oldest: 500n });
  const other = await fakeNode(t, { oldest: 500n });
  const key = testKey('wallet');
  const { path: keys } = keysFile(t, [key]);
  // One of the two answers the same read differently.
  const headers = ledgerHeaders({ version: 1000n, oldest: 500n, chainId: 1 });
  full.faults.add({ kind: 'answer', status: 200, body: lie, headers }, { when: ({ url }) => url.includes('Probe') });
  const tls = root.certify('gateway');
  const shown = root.certify('client');
  const front = await tlsFront(t, other, root.certify('node'), root.ca);
  const own = { ca: root.file, cert: shown.cert, key: shown.key };
  const gateway = await gatewayProcess(t, {
    full: [],
    config: {
      workers: 2,
      upstreams: [
        { name: 'full-0', url: full.url, maxRequestsPerSecond: 1_000_000 },
        { name: 'full-1', url: front.url(), tls: own },
      ],
      listen: { host: '127.0.0.1', port: 0, tls },
      upstream: { audit: 1 },
      encode: { shadow: 1 },
      tracing: { endpoint: traces.url, share: 1 },
      cache: {
        store: { path: temporaryFolder(t), maxBytes: '64MiB' },
        redis: { url: redis.url, timeout: '500ms' },
      },
      access: {
        anonymous: 'free',
        keys: { file: keys },
        plans: { free: { requests: 1000, window: '10s' } },
        usage: { metricsByKey: true },
      },
    },
  });
  const origin = new URL(gateway.url).origin;
  // A client with a key posts.
  const keyed = { 'content-type': 'application/json', authorization: `Bearer ${key.text}` };
  const ask = (path: string, body?: string) =>
    askH1(origin, body === undefined ? { path } : { path, method: 'POST', headers: keyed, body }, root.ca);
  replaceFiles(shown, root.certify('renewed'));
  const latest = await ask(probe);
  const vector = encodeVectors.find(({ name, chainId }) => name === 'coin transfer' && chainId === 1);
  const encoded = await ask('/v1/transactions/encode_submission', vector?.request);
  const submitted = await ask('/v1/transactions', submission());
  const waited = await ask(`/v1/transactions/wait_by_hash/0x${'1'.repeat(64)}`);
  assert.deepEqual([latest.status, encoded.status, submitted.status, waited.status], [200, 200, 202, 404]);
  // Clients that want the same at once, of both workers, until each way of answering was seen and the audits have come
  // to their end.
  const seen = [
    /request_duration_seconds_count\{[^}]*outcome="memory"/,
    /outcome="store"\} [1-9]/,
    /outcome="redis"\} [1-9]/,
    // Other families have a series of this outcome from the start.
    /request_duration_seconds_count\{[^}]*outcome="collapsed"/,
    /audit_disagreements_total\{/,
    /encode_checks_total\{result="equal"\} [1-9]/,
    /renewals_total\{/,
  ];
  for (let version = 600; ; version += 1) {
    // A worker writes every other answer to the store before the other worker is asked.
    if (version % 2 === 0) await ask(`${probe}?ledger_version=${version}`);
    await Promise.all(Array.from({ length: 8 }, () => ask(`${probe}?ledger_version=${version}`)));
    const text = await (await fetch(`${gateway.operationsUrl}/metrics`)).text();
    if (seen.every((pattern) => pattern.test(text))) return { scrape: parseScrape(text), gateway, traces };
  }
}

/** Lines of the runbook that ask the operations port, as they are to be typed. */
async function eachLookTells(gateway: GatewayProcess): Promise<void> {
  gateway.hangUp();
  await until(async () => (await (await fetch(`${gateway.operationsUrl}/readyz`)).text()).includes('"reload":{'));
  const lines = [...runbook.matchAll(/^curl .*$/gm)].map(([line]) => line);
  assert.ok(lines.length > 10);
  for (const line of new Set(lines)) {
    const { status, stdout } = spawnSync('bash', [
      '-o',
      'pipefail',
      '-c',
      line.replaceAll('http://127.0.0.1:9090', gateway.operationsUrl),
    ]);
    assert.deepEqual([status, stdout.length > 0], [0, true], line);
  }
}

/** Names that the config of the test has. */
const names = { upstream: ['full-0', 'full-1'], plan: ['', 'free'], key: ['wallet'] };

test('a gateway with every part on, after load and faults', { skip: noRedis }, async (t) => {
  const { scrape, gateway, traces } = await observed(t);
  const scrapeAs = (accept: string) =>
    fetchReply(`${gateway.operationsUrl}/metrics`, { method: 'GET', headers: { accept } });

  await t.test('it has the metrics, labels and values that alerts, panels and the runbook ask for', () => {
    const recorded = new Set(recordingRules.map(({ record }) => record));
    const labels = new Set([...scrape.values()].flatMap((ofOne) => Array.from(ofOne.keys())));
    const missing: string[] = [];
    for (const { where, expr } of expressions) {
      for (const { name, matchers } of selectorsIn(expr)) {
        const ofOne = scrape.get(name);
        if (recorded.has(name)) continue;
        if (ofOne === undefined) missing.push(`${where}: there is no ${name}`);
        for (const { label, isPattern, value } of matchers) {
          if (ofPrometheus.has(label) || ofOne === undefined) continue;
          const values = [...(ofOne.get(label) ?? [])];
          for (const one of isPattern ? value.split('|') : [value]) {
            const holds = isPattern
              ? values.some((told) => new RegExp(`^(?:${one})$`).test(told))
              : values.includes(one);
            if (!holds) missing.push(`${where}: no ${label} of ${name} is ${one}`);
          }
        }
      }
      for (const label of groupingLabelsIn(expr)) {
        if (!labels.has(label) && !ofPrometheus.has(label)) missing.push(`${where}: no metric has the label ${label}`);
      }
    }

    assert.ok(expressions.length > 150);
    assert.deepEqual(missing, []);
  });

  await t.test('each look of the runbook at the operations port tells something', () => eachLookTells(gateway));

  await t.test('promtool finds nothing wrong with its metrics', { skip: noPrometheus }, async () => {
    const { headers, text } = await scrapeAs('*/*');
    assert.equal(headers['content-type'], contentTypes.text);
    assert.equal(lintMetrics(text), '');
  });

  await t.test('every series is described in docs/metrics.md, its labels within what is said there', async () => {
    const { text } = await scrapeAs('*/*');
    const known = new Map(catalogue().flatMap(({ families }) => families.map((family) => [family.name, family])));
    const seen = seriesIn(text);
    assert.ok(seen.length > 500, `${seen.length} series`);
    t.diagnostic(`${seen.length} series`);
    for (const { name, labels } of seen) {
      const described = known.get(name) ?? known.get(name.replace(/_(?:bucket|sum|count)$/, ''));
      assert.ok(described !== undefined, `${name} is not described`);
      assertDeclared(name, labels, described.labels);
    }
    const exposed = new Set(text.match(/(?<=^# TYPE )\S+/gm));
    assert.deepEqual(
      // With keys, the fast path takes no part; that its metrics are there is shown in test/proxy/http/fast-path.
      [...known.keys()].filter((name) => !exposed.has(name) && !name.startsWith('ledgergate_fast_path_')),
      [],
      'what is described is there',
    );
    // Not only declared: every part has counted something.
    for (const name of ['access_key_requests_total', 'redis_lookup_duration_seconds_count', 'access_cost_total']) {
      assert.ok(
        seen.some((one) => one.name === `ledgergate_${name}` && one.value > 0),
        name,
      );
    }
  });

  await t.test('both forms have the same series', async () => {
    const { headers, text } = await scrapeAs('application/openmetrics-text;version=1.0.0');
    assert.equal(headers['content-type'], contentTypes.openmetrics);
    assert.ok(text.endsWith('\n# EOF\n'));
    assert.deepEqual(namesOf(text), namesOf((await scrapeAs('text/plain')).text));
  });

  await t.test(
    'Prometheus takes it all, as OpenMetrics, and finds traces of requests',
    { skip: noPrometheus },
    async (t) => {
      const scraper = await prometheus(t, `${gateway.operationsUrl}/metrics`);
      await scraper.until('query', { query: 'up == 1' });
      const [{ value: [, counted] } = { value: [0, ''] }] = (await scraper.until('query', {
        query: 'sum(ledgergate_http_requests_total{route="resource"})',
      })) as readonly { readonly value: readonly [number, string] }[];
      assert.ok(Number(counted) >= 9, counted);
      await scraper.until('query', { query: 'ledgergate_build_info' });
      const [start = '', end = ''] = [-600, 60].map((seconds) => String(Date.now() / 1000 + seconds));
      const query = 'ledgergate_http_request_duration_seconds_bucket';
      const exemplars = JSON.stringify(await scraper.until('query_exemplars', { query, start, end }));
      const [, traceId = ''] = /"trace_id":"(\w+)"/.exec(exemplars) ?? [];
      assert.ok((await traces.trace(traceId, ({ length }) => length > 0)).length > 0);
      assert.equal(await scraper.scrapeError(), '');
    },
  );
});

/** Name and labels of every series of the gateway's own. */
function namesOf(text: string): ReadonlySet<string> {
  return new Set(text.match(/^ledgergate_[^ ]+(?= )/gm));
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

test('texts and legends use labels that their expression keeps', () => {
  for (const { title, targets = [] } of dashboard.panels) {
    for (const { expr, legendFormat } of targets) {
      for (const label of shownLabelsIn(legendFormat))
        assert.ok(groupingLabelsIn(expr).includes(label), `${title}: ${label}`);
    }
  }
  for (const { alert, expr, annotations } of alertingRules) {
    const summedUp = /without \(([^)]*)\)/.exec(expr)?.[1]?.split(', ') ?? [];
    for (const label of shownLabelsIn(Object.values(annotations).join(' '))) {
      assert.ok(!summedUp.includes(label), `${alert}: ${label}`);
    }
  }
});

test('every query of the runbook is valid PromQL', { skip: noPromtool }, (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'queries.yaml');
  const rules = runbookQueries.map((expr, index) => ({ record: `query:${index}`, expr }));
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'queries', rules }] }));

  const { status, output } = promtool('check', 'rules', file);

  assert.equal(status, 0, output);
  assert.match(output, new RegExp(`${runbookQueries.length} rules found`));
});
