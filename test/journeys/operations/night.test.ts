// Faults as an operator on call reads them: on the status page, in /readyz, in the log and in the metrics.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { eventually, until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { probeAt, testGateway, type LogLine, type TestGateway } from '../../support/gateway.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { accessConfig, keysFile, planConfig, testKey } from '../../support/keys.ts';
import { watchStalls } from '../../support/stalls.ts';
import { kindsOf, statusOf, statusWhen } from '../../support/status.ts';
import { authority } from '../../support/tls.ts';

const internalError = { kind: 'answer', status: 500, body: '{"message":"x","error_code":"internal_error"}' } as const;

interface PublishedNode {
  readonly name: string;
  readonly state: string;
  readonly reason?: string;
  readonly ejected?: readonly { readonly readClass: string; readonly symptom?: string }[];
}

interface Readiness {
  readonly status: string;
  readonly upstreams: readonly PublishedNode[];
}

async function readinessOf({ operationsUrl }: TestGateway): Promise<Readiness> {
  return (await (await fetch(`${operationsUrl}/readyz`)).json()) as Readiness;
}

test('a node that answers reads with 500 is named with its status, counted, and each longer pause has a line', async (t) => {
  const sick = await fakeNode(t);
  const good = await fakeNode(t);
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, { full: [sick, good], onLog: (line) => lines.push(line) });
  sick.faults.add(internalError, { when: ({ route }) => route !== 'ledgerInfo' });
  let version = 0;
  const read = () => gateway.get(probeAt((version += 1)));

  const page = await eventually(
    async () => (await read(), statusOf(gateway)),
    ({ problems }) => problems.length > 0,
  );
  const { upstreams } = await readinessOf(gateway);
  const trials = await eventually(
    async () => (await read(), lines.filter(({ msg }) => msg === 'upstream stays passed over: a trial failed')),
    ({ length }) => length === 1,
  );

  const [problem] = page.problems;
  assert.equal(
    JSON.stringify(problem).includes('passed over for reads of recent state (errors in a row: status 500)'),
    true,
  );
  assert.deepEqual(upstreams[0]?.ejected, [{ readClass: 'head', reason: 'error', symptom: 'status 500' }]);
  const node = page.nodes.find(({ name }) => name === 'full-0');
  assert.deepEqual(node?.ejected, upstreams[0]?.ejected);
  assert.ok(node !== undefined && node.failures.total >= 5);
  assert.ok((page.repairs.find(({ what }) => what === 'retried')?.count.total ?? 0) >= 2);
  assert.match(
    page.events.find(({ kind }) => kind === 'ejected')?.text ?? '',
    /^full-0 is passed over for reads of recent state: errors in a row \(status 500\), first trial in 1 s$/,
  );
  assert.ok((await gateway.metric('ledgergate_upstream_failures_total{upstream="full-0",kind="status"}')) >= 5);
  assert.deepEqual([trials[0]?.['symptom'], trials[0]?.['pauseMs'], trials[0]?.['level']], ['status 500', 2_000, 40]);
});

test('a node that answers everything with 500 stays down: an error to a read does not bring it back', async (t) => {
  const sick = await fakeNode(t);
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, {
    full: [sick],
    config: { upstream: { probeIntervalMs: 50 } },
    onLog: (line) => lines.push(line),
  });
  sick.faults.add(internalError);
  await statusWhen(gateway, ({ nodes }) => nodes[0]?.reason === 'error status');
  lines.length = 0;

  for (let version = 1; version <= 20; version += 1) await gateway.get(probeAt(version));

  assert.ok(sick.requestsTo('resource') >= 20, 'the node was asked');
  assert.deepEqual(
    lines.map(({ msg }) => msg).filter((msg) => msg === 'upstream is usable' || msg === 'a node answers again'),
    [],
  );
});

/** Probes as often as by default. */
const usualProbes = { upstream: { probeIntervalMs: 5_000, connections: 4 } };

test('a node that hangs is down by name within about a second, and reads go on', async (t) => {
  const hung = await fakeNode(t);
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, {
    full: [hung, await fakeNode(t)],
    config: usualProbes,
    onLog: (line) => lines.push(line),
  });
  let version = 0;
  const read = () => void gateway.get(probeAt((version += 1))).catch(() => undefined);
  hung.faults.add({ kind: 'hang' });
  const stalls = watchStalls(t);
  const hungAtMs = performance.now();

  const { problems } = await eventually(
    async () => {
      read();
      return statusOf(gateway);
    },
    ({ nodes }) => nodes.some(({ state }) => state === 'down'),
  );
  const tookMs = performance.now() - hungAtMs;

  t.diagnostic(`${tookMs.toFixed(0)} ms`);
  stalls.judge(tookMs < 4_000, 'two probes that time out take longer');
  assert.equal(JSON.stringify(problems).includes('full-0 is down: time-out'), true);
  assert.equal((await readinessOf(gateway)).upstreams[0]?.reason, 'time-out');
  assert.equal(lines.filter(({ msg }) => msg === 'upstream is down').length, 1);
});

test('when all nodes hang an outage is declared at once, and no client is asked to add nodes', async (t) => {
  const nodes = [await fakeNode(t), await fakeNode(t), await fakeNode(t, { archival: true })];
  const gateway = await testGateway(t, { full: nodes, config: usualProbes });
  await gateway.get(probeAt(1));
  for (const node of nodes) node.faults.add({ kind: 'hang' });
  const stalls = watchStalls(t);
  const hungAtMs = performance.now();

  const replies = Promise.all(Array.from({ length: 40 }, (_, index) => gateway.get(probeAt(index + 2))));
  await until(async () => (await readinessOf(gateway)).status === 'outage');
  const tookMs = performance.now() - hungAtMs;
  const texts = (await replies).map(({ status, text }) => `${status} ${text}`);

  t.diagnostic(`${tookMs.toFixed(0)} ms`);
  stalls.judge(tookMs < 4_000, 'two probes that time out take longer');
  assert.deepEqual(
    texts.filter((text) => text.includes('at capacity') || !text.startsWith('503')),
    [],
  );
  assert.match(texts.at(-1) ?? '', /no node answered ledger version \d+ \(\d asked, 3 down: time-out\)/);
});

test('the versions that are lost with the archive are named, and its absence is the reason of a 503', async (t) => {
  const full = await fakeNode(t, { oldest: 60_000n, head: 90_000n });
  const archive = await fakeNode(t, { head: 90_000n, archival: true });
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, { full: [full], archival: [archive], onLog: (line) => lines.push(line) });

  await archive.refuse();
  const refused = await eventually(
    () => gateway.get(probeAt(100)),
    ({ text }) => text.includes('down'),
  );

  assert.match(
    refused.text,
    /ledger version 100 cannot be reached or are drained \(\d asked, 1 down: connection refused\)/,
  );
  const { problems, lost } = await statusOf(gateway);
  assert.deepEqual(lost, { from: '0', to: '59999', upstreams: ['archive-0'] });
  assert.match(JSON.stringify(problems), /versions 0 to 59.999 cannot be read without archive-0/);
  const line = lines.find(({ msg }) => msg === 'versions cannot be read: the nodes that hold them are away');
  assert.deepEqual([line?.['from'], line?.['to'], line?.['upstreams']], [0, 59_999, ['archive-0']]);

  await archive.accept();
  await gateway.get(probeAt(100));
  await statusWhen(
    gateway,
    ({ lost: still, events }) => still === undefined && events.some(({ kind }) => kind === 'history back'),
  );
});

test('a refused config is named with file, line and key, and refused certificate files with the reason', async (t) => {
  const node = await fakeNode(t);
  const tls = authority(t).certify('gateway');
  const gateway = await gatewayProcess(t, { full: [node], config: { listen: { host: '127.0.0.1', port: 0, tls } } });
  const problems = async () => JSON.stringify((await statusOf(gateway)).problems);

  writeFileSync(gateway.file, `upstreams: [{ name: a, url: "${node.url}" }]\nlisten: { prot: 8080 }\n`);
  writeFileSync(tls.cert, 'nonsense');
  const text = await eventually(problems, (all) => all.includes('config') && all.includes('certificate'));

  assert.ok(text.includes(`the last config was refused: ${gateway.file}:2:11: listen.prot`), text);
  assert.match(text, /new certificate files were refused, the old ones stay: listen.tls.cert: holds no certificate/);
  const readiness = (await (await fetch(`${gateway.operationsUrl}/readyz`)).json()) as Record<string, object>;
  assert.deepEqual((readiness['reload'] as { refused: unknown }).refused, [`${gateway.file}:2:11: listen.prot`]);
  assert.match(JSON.stringify(readiness['certificate']), /holds no certificate/);
});

test('equal problems are one line, with a remedy and its section of the runbook; an outage and its end are events', async (t) => {
  const nodes = [await fakeNode(t), await fakeNode(t), await fakeNode(t)];
  const gateway = await testGateway(t, { full: nodes, config: { upstream: { probeIntervalMs: 50 } } });
  for (const node of nodes) await node.refuse();

  const { actions, summary } = await statusWhen(
    gateway,
    ({ state, problems }) => state === 'outage' && problems.length === 1,
  );
  const page = await (await fetch(`${gateway.operationsUrl}/status`)).text();
  const runbook = await (await fetch(`${gateway.operationsUrl}/runbook`)).text();

  assert.equal(actions[0]?.text, '3 nodes are down: connection refused (full-0, full-1, full-2)');
  assert.match(summary, /Do not restart/);
  const anchor = /href="runbook#([^"]+)"/.exec(page)?.[1] ?? '';
  assert.equal(anchor, 'ledgergateupstreamdown');
  assert.ok(runbook.includes(`id="${anchor}"`));

  for (const node of nodes) await node.accept();
  const back = await statusWhen(gateway, ({ state }) => state === 'ready');
  assert.deepEqual(
    kindsOf(back).filter((kind) => kind.startsWith('outage')),
    ['outage over', 'outage'],
  );
});

test('the tenants that ask most and are refused most are on the page', async (t) => {
  const [shop, wallet] = [testKey('shop-1', { tenant: 'shop' }), testKey('wallet-1', { tenant: 'wallet' })];
  const gateway = await testGateway(t, {
    full: [await fakeNode(t)],
    access: accessConfig({
      keys: { file: keysFile(t, [shop, wallet]).path, redis: false },
      plans: { free: planConfig({ requests: 3 }) },
    }),
  });
  const ask = async ({ text }: { readonly text: string }, times: number): Promise<void> => {
    for (let turn = 1; turn <= times; turn += 1) await gateway.get(probeAt(1), { authorization: `Bearer ${text}` });
  };
  await ask(shop, 5);
  await ask(wallet, 2);

  const { tenants } = await statusOf(gateway);
  const page = await (await fetch(`${gateway.operationsUrl}/status`)).text();

  assert.deepEqual(tenants, {
    asked: [
      { name: 'shop', count: 5 },
      { name: 'wallet', count: 2 },
    ],
    refused: [{ name: 'shop', count: 2 }],
  });
  assert.match(page, /Tenants that asked most[^]*shop[^]*Tenants that were refused most/);
});
