// What one worker learns, another has: by events, without a request of its own to a node.
import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import { Agent, request as send } from 'undici';
import { moduleText, moduleTexts, readGroup } from '../../encode/vectors.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { fetchReply, probe, probeAt } from '../../support/gateway.ts';
import { gatewayProcess, type GatewayProcess } from '../../support/gateway-process.ts';
import { submission } from '../../support/submission.ts';
import { vectorNode } from '../../support/vector-node.ts';
import { get, isAlive, metric, noWorker } from '../../support/workers.ts';

/** Its workers learn of the ledger from requests and events alone. */
const quiet = {
  workers: 2,
  upstream: { probeInterval: '1h', hedge: false },
  latest: { maxStaleness: '1h', maxClientStaleness: '1h' },
  log: { level: 'silent' },
};

const key = 'x-node-txn-encryption-key';
const ends = { after };
/** Its next epoch begins at 1,368,000. */
const node = await fakeNode(ends, { head: 1_367_000n, headers: (_, { epoch }) => ({ [key]: `key of ${epoch}` }) });
const full = await fakeNode(ends, { head: 900n, oldest: 500n });
// It is ahead, so it gets submissions; without the event a worker asks the full node first.
const archival = await fakeNode(ends, { archival: true, head: 950n });
const upstreams = [
  { name: 'full', url: full.url },
  { name: 'archive', url: archival.url, tier: 'archival' },
];
/** One node, and two tiers: for the tests that use them one after the other. */
const [gateway, tiers] = await Promise.all([
  gatewayProcess(ends, { full: [node], config: quiet }),
  gatewayProcess(ends, { full: [], config: { ...quiet, upstreams } }),
]);

interface Ready {
  readonly upstreams: readonly { readonly usableBy: number }[];
}

// A busy machine may answer the only probe of a worker too late: then the next answer shows that the node is usable.
for (const { operationsUrl, url } of [gateway, tiers])
  await until(async () => {
    for (const version of [100, 600]) await get(url + probeAt(version));
    const { upstreams } = JSON.parse((await get(`${operationsUrl}/readyz`)).text) as Ready;
    return upstreams.every(({ usableBy }) => usableBy === 2);
  });

const post = (url: string, body: string) =>
  fetchReply(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });

/** A new connection to each worker of a gateway. */
async function connections(t: TestContext, { url }: GatewayProcess = gateway) {
  const agents = [new Agent({ connections: 1 }), new Agent({ connections: 1 })] as const;
  t.after(() => Promise.all(agents.map((agent) => agent.destroy())));
  const over =
    (agent: Agent) =>
    async (path: string, headers: Readonly<Record<string, string>> = {}) => {
      const response = await send(url + path, { dispatcher: agent, headers });
      const body = await response.body.text();
      const head = BigInt(String(response.headers['x-node-ledger-version'] ?? -1));
      const version = BigInt(String(response.headers['ledgergate-served-version'] ?? -1));
      return { status: response.statusCode, body, head, version, headers: response.headers };
    };
  const [one, other] = [over(agents[0]), over(agents[1])];
  // Opened one after the other, so that each worker gets one.
  for (const get of [one, other]) assert.equal((await get(probeAt(600))).status, 200);
  return { one, other };
}

/**
 * Resolves when every earlier event has arrived. A scrape queues behind the events that the primary has read; a second
 * scrape starts after the primary has read all of them.
 */
async function delivered(gateway: GatewayProcess): Promise<void> {
  for (let scrapes = 0; scrapes < 2; scrapes += 1) assert.equal(await metric(gateway, 'ledgergate_workers'), 2);
}

/** Kills workers, and resolves when others serve in their place. */
async function replace(gateway: GatewayProcess, victims: readonly number[]): Promise<void> {
  const restarts = async (): Promise<number> => (await metric(gateway, 'ledgergate_worker_restarts_total')) ?? 0;
  const before = await restarts();
  for (const victim of victims) process.kill(victim, 'SIGKILL');
  await until(async () => (await restarts()) === before + victims.length);
  await until(async () => (await metric(gateway, 'ledgergate_workers')) === 2);
}

test('one snapshot serves all workers, later ones included', async (t) => {
  const { one, other } = await connections(t);
  const atStart = node.log.countOf('ledgerInfo');

  const { version } = await one(probe);
  await delivered(gateway);
  const shared = await other(probe);
  const looks = node.log.countOf('ledgerInfo') - atStart;
  node.clock.advance(50n);
  await replace(gateway, gateway.workers());
  const afterwards = [await get(gateway.url + probe), await get(gateway.url + probe)];

  assert.deepEqual([version, shared.version, looks], [1_367_000n, 1_367_000n, 1]);
  for (const { headers } of afterwards) assert.equal(headers['ledgergate-served-version'], '1367000');
});

test('a worker that starts while a node is silent serves the published state', async (t) => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  t.after(() => {
    node.faults.clear();
    release();
  });
  node.faults.add({ kind: 'hold', until: released }, { when: ({ url }) => url === '/v1' });

  await replace(gateway, gateway.workers().slice(0, 1));
  const answers = [await get(gateway.url + probeAt(601)), await get(gateway.url + probeAt(601))];

  for (const { status, headers } of answers) {
    assert.equal(status, 200);
    assert.ok(BigInt(headers['x-node-ledger-version'] ?? -1) >= 1_367_000n);
  }
});

test('a version that one worker serves becomes the floor of another, in answer and headers', async (t) => {
  const { one, other } = await connections(t);

  for (let round = 0; round < 5; round += 1) {
    node.clock.advance(10n);
    const { version } = await one(probe, { 'ledgergate-max-staleness': '0' });
    await until(async () => (await other(probe)).version >= version);
    assert.equal(version, node.clock.head);
    assert.ok((await other(probe)).head >= version);
  }
});

test('a read with a token is at its version or later on every worker, at once', async (t) => {
  const { one, other } = await connections(t);

  for (let round = 0; round < 10; round += 1) {
    node.clock.advance(10n);
    const { version } = await one(probe, { 'ledgergate-max-staleness': '0' });
    const later = await other(probe, { 'ledgergate-min-version': String(version) });
    assert.equal(version, node.clock.head);
    assert.ok(later.version >= version && later.head >= version, `${later.version} after ${version}`);
  }
});

test('a list of transactions near the head is not ahead of its ledger headers', async () => {
  for (let round = 0; round < 10; round += 1) {
    node.clock.advance(5n);
    const { head } = node.clock;
    const path = `/transactions?start=${head - 9n}&limit=10${round % 2 === 0 ? '' : '&x=1'}`;
    const { status, text, headers } = await get(gateway.url + path);
    const last = (JSON.parse(text) as { version: string }[]).at(-1)?.version;
    assert.deepEqual([status, last], [200, String(head)]);
    assert.ok(BigInt(headers['x-node-ledger-version'] ?? -1) >= head, `round ${round}`);
  }
});

test('a resumed worker applies the events that its peers published meanwhile', async (t) => {
  const { one, other } = await connections(t);

  const [stuck = noWorker()] = gateway.workers();
  process.kill(stuck, 'SIGSTOP');
  t.after(() => isAlive(stuck) && process.kill(stuck, 'SIGCONT'));
  node.clock.advance(50n);
  const { head } = node.clock;
  const exact = { 'ledgergate-max-staleness': '0' };
  const going = await Promise.race([one(probe, exact).then(() => one), other(probe, exact).then(() => other)]);
  await until(async () => (await going(probe)).version === head);
  process.kill(stuck, 'SIGCONT');

  for (const read of [one, other]) await until(async () => (await read(probe)).head === head);
});

test('a new epoch that one worker observes brings its key to another worker, which has hits alone', async (t) => {
  node.clock.head = 1_367_500n;
  const { one, other } = await connections(t);
  let version = 700;
  // A worker asks for a key once a second: an event that comes too early is followed by others.
  const hasKey = (value: string) =>
    until(async () => {
      node.clock.advance(1n);
      await one(probeAt((version += 1)));
      return (await other(probeAt(600))).headers[key] === value;
    });
  await hasKey('key of 0');

  node.clock.head = 1_368_000n;

  await hasKey('key of 1');
  assert.equal((await other(probeAt(600))).headers['cache-status'], 'ledgergate; hit; detail=memory');
});

test('all workers follow a replaced ledger', async (t) => {
  const { one, other } = await connections(t);
  const { head } = node.clock;
  for (const read of [one, other]) await until(async () => (await read('')).head === head);

  node.clock.head = 500n;
  node.fault = { kind: 'wrong chain id', chainId: 2 };
  // One worker reads the other chain; the event is its peer's only source.
  await until(async () => (await one(probeAt(400))).head === 500n);

  await until(async () => (await other('')).head === 500n);
});

test('every worker sends reads of a pruned version to the deeper node', async (t) => {
  const { one, other } = await connections(t, tiers);

  full.clock.oldest = 503n;
  const refused = await one(probeAt(501));
  const asked = full.log.readCount;
  await delivered(tiers);
  const later = await other(probeAt(500));

  assert.deepEqual([refused.status, later.status], [200, 200]);
  assert.equal(full.log.readCount, asked);
});

test('every worker asks the node of a submission first for its transaction', async () => {
  const before = [full.log.readCount, archival.log.readCount] as const;

  for (let sequenceNumber = 0; sequenceNumber < 4; sequenceNumber += 1) {
    const { status, text } = await post(`${tiers.url}/transactions`, submission({ sequenceNumber }));
    assert.equal(status, 202);
    const { hash } = JSON.parse(text) as { hash: string };
    for (let ask = 0; ask < 2; ask += 1) {
      assert.equal((await get(`${tiers.url}/transactions/by_hash/${hash}`)).status, 200);
    }
  }

  assert.deepEqual([full.log.readCount, archival.log.readCount], [before[0], before[1] + 4 * 3]);
});

test('a function that one worker distrusts is distrusted by all, later workers included', async (t) => {
  const vector = readGroup('13-framework.json').find(({ name }) => name === 'coin transfer');
  assert.ok(vector?.expected_hex !== undefined);
  const encoding = await vectorNode(t, vector.chain_id);
  for (const text of [...moduleTexts, moduleText(vector.abi)]) encoding.publish(text);
  const otherBytes = JSON.stringify(`${vector.expected_hex.slice(0, -2)}ff`);
  encoding.encode = () => ({ status: 200, body: otherBytes });
  const config = { workers: 2, encode: { shadow: 1 }, log: { level: 'silent' } };
  const gateway = await gatewayProcess(t, { full: [encoding], config });
  const ask = async () =>
    (await post(`${gateway.url}/transactions/encode_submission`, JSON.stringify(vector.request))).text;

  const first = await ask();
  await until(async () => (await metric(gateway, 'ledgergate_encode_checks_total{result="mismatch"}')) === 1);
  const later = [await ask(), await ask(), await ask(), await ask()];
  await replace(gateway, gateway.workers().slice(0, 1));
  const afterwards = [await ask(), await ask()];

  assert.equal(first, JSON.stringify(vector.expected_hex));
  assert.deepEqual(new Set([...later, ...afterwards]), new Set([otherBytes]));
});
