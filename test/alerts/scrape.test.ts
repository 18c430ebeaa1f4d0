/** A scrape of a gateway with every part on has the series that alerts, panels and the runbook use. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { encodeVectors } from '../../src/sample/recorded.ts';
import { until } from '../support/eventually.ts';
import { fakeNode } from '../support/fake-node.ts';
import { gatewayProcess, type GatewayProcess } from '../support/gateway-process.ts';
import { ledgerHeaders } from '../support/ledger-info.ts';
import { keysFile, testKey } from '../support/keys.ts';
import { noRedis, redisServer } from '../support/redis-server.ts';
import { storeFolder } from '../support/stores.ts';
import { submission } from '../support/submission.ts';
import { askH1, authority, replaceFiles } from '../support/tls.ts';
import { tlsFront } from '../support/tls-front.ts';
import { dashboard, dashboardExpressions } from './dashboard.ts';
import { groupingLabelsIn, parseScrape, selectorsIn, shownLabelsIn, type Scrape } from './promql.ts';
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
async function observed(t: TestContext): Promise<{ readonly scrape: Scrape; readonly gateway: GatewayProcess }> {
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
      cache: {
        store: { path: storeFolder(t), maxBytes: '64MiB' },
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
  const encoded = await ask('/v1/transactions/encode_submission', encodeVectors[0]?.request);
  const submitted = await ask('/v1/transactions', submission());
  const waited = await ask(`/v1/transactions/wait_by_hash/0x${'1'.repeat(64)}`);
  assert.deepEqual([latest.status, encoded.status, submitted.status, waited.status], [200, 200, 202, 404]);
  // Clients that want the same at once, of both workers, until each way of answering was seen and the audits have come
  // to their end.
  const seen = [
    /outcome="memory"/,
    /outcome="store"\} [1-9]/,
    /outcome="redis"\} [1-9]/,
    /outcome="collapsed"/,
    /audit_disagreements_total\{/,
    /renewals_total\{/,
  ];
  for (let version = 600; ; version += 1) {
    // A worker writes every other answer to the store before the other worker is asked.
    if (version % 2 === 0) await ask(`${probe}?ledger_version=${version}`);
    await Promise.all(Array.from({ length: 8 }, () => ask(`${probe}?ledger_version=${version}`)));
    const text = await (await fetch(`${gateway.operationsUrl}/metrics`)).text();
    if (seen.every((pattern) => pattern.test(text))) return { scrape: parseScrape(text), gateway };
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

test(
  'metrics, labels and values that alerts, panels and the runbook ask for are in a real scrape',
  { skip: noRedis },
  async (t) => {
    const { scrape, gateway } = await observed(t);
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
    await eachLookTells(gateway);
  },
);

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
