import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test, type TestContext } from 'node:test';
import { Agent, request as send } from 'undici';
import { moduleText, moduleTexts, readGroup } from '../../encode/vectors.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { fetchReply, type NodeAddress, probe } from '../../support/gateway.ts';
import { gatewayProcess, type ConfigSections, type GatewayProcess } from '../../support/gateway-process.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { submission } from '../../support/submission.ts';
import { vectorNode } from '../../support/vector-node.ts';
import { get, isAlive, metric, noWorker } from '../../support/workers.ts';
import { listen } from '../../support/listen.ts';

const json = { 'content-type': 'application/json' };
const post = (url: string, body: string) => fetchReply(url, { method: 'POST', headers: json, body });

/** A gateway whose workers learn of the ledger from requests and events alone, and one connection to each worker. */
async function quietWorkers(t: TestContext, full: readonly NodeAddress[], config: ConfigSections = {}) {
  const gateway = await gatewayProcess(t, {
    full,
    config: {
      workers: 2,
      upstream: { probeInterval: '1h' },
      latest: { maxStaleness: '1h', maxClientStaleness: '1h' },
      log: { level: 'silent' },
      ...config,
    },
  });
  const agents = [new Agent({ connections: 1 }), new Agent({ connections: 1 })] as const;
  t.after(() => Promise.all(agents.map((agent) => agent.destroy())));
  const over =
    (agent: Agent) =>
    async (path: string, headers: Readonly<Record<string, string>> = {}) => {
      const response = await send(gateway.url + path, { dispatcher: agent, headers });
      const body = await response.body.text();
      const head = BigInt(String(response.headers['x-node-ledger-version'] ?? -1));
      const version = BigInt(String(response.headers['ledgergate-served-version'] ?? -1));
      return { status: response.statusCode, body, head, version, headers: response.headers };
    };
  const [one, other] = [over(agents[0]), over(agents[1])];
  // Opened one after the other, so that each worker gets one.
  for (const get of [one, other]) assert.equal((await get(`${probe}?ledger_version=600`)).status, 200);
  return { gateway, one, other };
}

/**
 * Resolves when every earlier event has arrived. A scrape queues behind the events that the primary has read; a second
 * scrape starts after the primary has read all of them.
 */
async function delivered(gateway: GatewayProcess): Promise<void> {
  for (let scrapes = 0; scrapes < 2; scrapes += 1) assert.equal(await metric(gateway, 'ledgergate_workers'), 2);
}

test('a new epoch that one worker observes brings its key to another worker, which has hits alone', async (t) => {
  const name = 'x-node-txn-encryption-key';
  const node = await fakeNode(t, { head: 1_367_999n, headers: (_, { epoch }) => ({ [name]: `key of ${epoch}` }) });
  const { one, other } = await quietWorkers(t, [node]);
  assert.equal((await other(`${probe}?ledger_version=600`)).headers[name], 'key of 0');

  node.clock.advance(40n);
  await one(`${probe}?ledger_version=700`);

  await until(async () => (await other(`${probe}?ledger_version=600`)).headers[name] === 'key of 1');
  assert.equal((await other(`${probe}?ledger_version=600`)).headers['cache-status'], 'ledgergate; hit; detail=memory');
});

test('a version that one worker serves becomes the floor of another, in answer and headers', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const { one, other } = await quietWorkers(t, [node]);

  for (let round = 0; round < 20; round += 1) {
    node.clock.advance(10n);
    const { version } = await one(probe, { 'ledgergate-max-staleness': '0' });
    await until(async () => (await other(probe)).version >= version);
    assert.equal(version, node.clock.head);
    assert.ok((await other(probe)).head >= version);
  }
});

test('a read with a token is at its version or later on every worker, at once', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const { one, other } = await quietWorkers(t, [node]);

  for (let round = 0; round < 20; round += 1) {
    node.clock.advance(10n);
    const { version } = await one(probe, { 'ledgergate-max-staleness': '0' });
    const later = await other(probe, { 'ledgergate-min-version': String(version) });
    assert.equal(version, node.clock.head);
    assert.ok(later.version >= version && later.head >= version, `${later.version} after ${version}`);
  }
});

test('one snapshot serves all workers, later ones included', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const { gateway, one, other } = await quietWorkers(t, [node]);
  const atStart = node.log.countOf('ledgerInfo');

  const { version } = await one(probe);
  await delivered(gateway);
  const shared = await other(probe);
  const looks = node.log.countOf('ledgerInfo') - atStart;
  node.clock.advance(50n);
  for (const worker of gateway.workers()) process.kill(worker, 'SIGKILL');
  await until(async () => (await metric(gateway, 'ledgergate_worker_restarts_total')) === 2);
  await until(async () => (await metric(gateway, 'ledgergate_workers')) === 2);
  const afterwards = [await get(gateway.url + probe), await get(gateway.url + probe)];

  assert.deepEqual([version, shared.version, looks], [900n, 900n, 1]);
  assert.deepEqual(
    afterwards.map(({ headers }) => headers['ledgergate-served-version']),
    ['900', '900'],
  );
});

test('a worker that starts while a node is silent serves the published state', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const { gateway } = await quietWorkers(t, [node]);
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  t.after(() => release());
  node.faults.add({ kind: 'hold', until: released }, { when: ({ url }) => url === '/v1' });
  const [victim = noWorker()] = gateway.workers();

  process.kill(victim, 'SIGKILL');
  await until(async () => (await metric(gateway, 'ledgergate_worker_restarts_total')) === 1);
  await until(async () => (await metric(gateway, 'ledgergate_workers')) === 2);
  const path = `${probe}?ledger_version=601`;
  const answers = [await get(gateway.url + path), await get(gateway.url + path)];

  assert.deepEqual(
    answers.map(({ status, headers }) => [status, headers['x-node-ledger-version']]),
    [
      [200, '900'],
      [200, '900'],
    ],
  );
});

test('every worker sends reads of a pruned version to the deeper node', async (t) => {
  const full = await fakeNode(t, { head: 900n, oldest: 500n });
  const archival = await fakeNode(t, { archival: true, head: 900n });
  const upstreams = [
    { name: 'full', url: full.url },
    { name: 'archive', url: archival.url, tier: 'archival' },
  ];
  const { gateway, one, other } = await quietWorkers(t, [], { upstreams });

  full.clock.oldest = 503n;
  const refused = await one(`${probe}?ledger_version=501`);
  const asked = full.log.readCount;
  await delivered(gateway);
  const later = await other(`${probe}?ledger_version=500`);

  assert.deepEqual([refused.status, later.status], [200, 200]);
  assert.equal(full.log.readCount, asked);
});

test('every worker asks the node of a submission first for its transaction', async (t) => {
  // The archival node is ahead, so it gets submissions; without the event a worker asks the full node first.
  const full = await fakeNode(t, { head: 900n });
  const archival = await fakeNode(t, { archival: true, head: 950n });
  const upstreams = [
    { name: 'full', url: full.url },
    { name: 'archive', url: archival.url, tier: 'archival' },
  ];
  const gateway = await gatewayProcess(t, { full: [], config: { workers: 3, upstreams } });

  for (let sequenceNumber = 0; sequenceNumber < 6; sequenceNumber += 1) {
    const { status, text } = await post(`${gateway.url}/transactions`, submission({ sequenceNumber }));
    assert.equal(status, 202);
    const { hash } = JSON.parse(text) as { hash: string };
    for (let ask = 0; ask < 3; ask += 1) {
      assert.equal((await get(`${gateway.url}/transactions/by_hash/${hash}`)).status, 200);
    }
  }

  assert.deepEqual([full.log.readCount, archival.log.readCount], [0, 6 * 4]);
});

test('a function that one worker distrusts is distrusted by all, later workers included', async (t) => {
  const vector = readGroup('13-framework.json').find(({ name }) => name === 'coin transfer');
  assert.ok(vector?.expected_hex !== undefined);
  const node = await vectorNode(t, vector.chain_id);
  for (const text of [...moduleTexts, moduleText(vector.abi)]) node.publish(text);
  const otherBytes = JSON.stringify(`${vector.expected_hex.slice(0, -2)}ff`);
  node.encode = () => ({ status: 200, body: otherBytes });
  const config = { workers: 2, encode: { shadow: 1 }, log: { level: 'silent' } };
  const gateway = await gatewayProcess(t, { full: [node], config });
  const ask = async () =>
    (await post(`${gateway.url}/transactions/encode_submission`, JSON.stringify(vector.request))).text;

  const first = await ask();
  await until(async () => (await metric(gateway, 'ledgergate_encode_checks_total{result="mismatch"}')) === 1);
  const later = [await ask(), await ask(), await ask(), await ask()];
  for (const worker of gateway.workers()) process.kill(worker, 'SIGKILL');
  await until(async () => (await metric(gateway, 'ledgergate_worker_restarts_total')) === 2);
  await until(async () => (await metric(gateway, 'ledgergate_workers')) === 2);
  const afterwards = [await ask(), await ask()];

  assert.equal(first, JSON.stringify(vector.expected_hex));
  assert.deepEqual(new Set([...later, ...afterwards]), new Set([otherBytes]));
});

test('a resumed worker applies the events that its peers published meanwhile', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const { gateway, one, other } = await quietWorkers(t, [node]);

  const [stuck = noWorker()] = gateway.workers();
  process.kill(stuck, 'SIGSTOP');
  t.after(() => isAlive(stuck) && process.kill(stuck, 'SIGCONT'));
  node.clock.advance(50n);
  const exact = { 'ledgergate-max-staleness': '0' };
  const going = await Promise.race([one(probe, exact).then(() => one), other(probe, exact).then(() => other)]);
  await until(async () => (await going(probe)).version === 950n);
  process.kill(stuck, 'SIGCONT');

  for (const read of [one, other]) await until(async () => (await read(probe)).head === 950n);
});

test('all workers follow a replaced ledger', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const { one, other } = await quietWorkers(t, [node]);
  assert.deepEqual([(await one('')).head, (await other('')).head], [900n, 900n]);

  node.clock.head = 500n;
  node.fault = { kind: 'wrong chain id', chainId: 2 };
  // One worker reads the other chain; the event is its peer's only source.
  await until(async () => (await one(`${probe}?ledger_version=400`)).head === 500n);

  await until(async () => (await other('')).head === 500n);
});

test('a list of transactions near the head is not ahead of its ledger headers', async (t) => {
  let head = 900n;
  const server = createServer((request, response) => {
    const start = /start=(\d+)/.exec(request.url ?? '')?.[1];
    const list = Array.from({ length: 10 }, (_, at) => ({ version: String(BigInt(start ?? '0') + BigInt(at)) }));
    const headers = { ...ledgerHeaders({ version: head }), 'content-type': 'application/json' };
    response.writeHead(200, headers).end(start === undefined ? '{}' : JSON.stringify(list));
  });
  const port = await listen(t, server);
  const url = `http://127.0.0.1:${port}/v1`;
  const gateway = await gatewayProcess(t, {
    full: [{ url }],
    config: { workers: 2, upstream: { probeInterval: '1h' } },
  });

  for (let round = 0; round < 20; round += 1) {
    head += 5n;
    const { status, text, headers } = await get(
      `${gateway.url}/transactions?start=${head - 9n}${round % 2 === 0 ? '' : '&x=1'}`,
    );
    const last = (JSON.parse(text) as { version: string }[]).at(-1)?.version;
    assert.deepEqual([status, last], [200, String(head)]);
    assert.ok(BigInt(headers['x-node-ledger-version'] ?? -1) >= head, `round ${round}`);
  }
});
