// Several nodes behind one name, or behind one address.
import assert from 'node:assert/strict';
import { isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { test, type TestContext } from 'node:test';
import { nodeBalancer } from '../../support/balancer.ts';
import { until } from '../../support/eventually.ts';
import { type FakeNode, fakeNode, type FakeNodeOptions } from '../../support/fake-node.ts';
import { freePort } from '../../support/free-port.ts';
import {
  fetchReply,
  type LogLine,
  patient,
  probe,
  probeAt,
  testGateway,
  type TestGateway,
} from '../../support/gateway.ts';

// Upstreams with `discover: dns`: one node for each address of a name, over real sockets on 127.0.0.0/8.

interface Zone {
  /** The addresses of the name; `undefined`: look-ups fail. */
  addresses: readonly string[] | undefined;
}

const addressOf = (index: number): string => `127.0.0.${index + 1}`;

/** Nodes on one port of 127.0.0.1, 127.0.0.2 and so on, and a gateway that looks the name up each 20 ms. */
async function named(t: TestContext, options: readonly FakeNodeOptions[], first = options.length) {
  const nodes: FakeNode[] = [];
  for (const [index, node] of options.entries()) {
    const port = nodes[0]?.port ?? 0;
    nodes.push(await fakeNode(t, { head: 900n, ...node, host: addressOf(index), port }));
  }
  const zone: Zone = { addresses: nodes.slice(0, first).map((_, index) => addressOf(index)) };
  const hosts: string[] = [];
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, {
    full: [{ url: `http://nodes.example:${nodes[0]?.port}/v1`, discover: 'dns' }],
    config: { upstream: { ...patient, discoverIntervalMs: 20 } },
    onLog: (line) => lines.push(line),
    async lookUp(host) {
      hosts.push(host);
      if (zone.addresses === undefined) throw new Error('SERVFAIL');
      return Promise.resolve(zone.addresses);
    },
  });
  return { nodes, zone, hosts, lines, gateway };
}

const namesOf = (gateway: TestGateway): readonly string[] => gateway.fleet().map(({ name }) => name);
const windows = [{ oldest: 500n }, { oldest: 0n }];

test('50 old reads of nodes of different windows behind one name: 50 answers', async (t) => {
  const { nodes, gateway } = await named(t, windows);
  let answered = 0;
  for (let version = 1; version <= 50; version += 1) {
    const { status } = await gateway.get(probeAt(version));
    if (status === 200) answered += 1;
  }

  assert.equal(answered, 50);
  assert.equal(nodes[0]?.requestsTo('resource'), 0);
  assert.equal(await gateway.metric('ledgergate_upstream_shared_address{upstream="full-0"}'), 0);
});

test('names of nodes stay the same per address, hold no address, and the log has both', async (t) => {
  const { lines, gateway, zone } = await named(t, windows);
  const before = namesOf(gateway);

  zone.addresses = [addressOf(1)];
  await until(() => namesOf(gateway).length === 1);
  zone.addresses = [addressOf(0), addressOf(1)];
  await until(() => namesOf(gateway).length === 2);

  assert.deepEqual(namesOf(gateway), before);
  for (const name of before) assert.match(name, /^full-0-[0-9a-f]{6}$/);
  const { text } = await fetchReply(`${gateway.operationsUrl}/readyz`, { method: 'GET' });
  assert.ok(!text.includes('127.0.0.'));
  const found = lines.filter(({ msg }) => msg === 'a node was found by its name');
  assert.deepEqual(
    found.map(({ upstream, address }) => [upstream, address]),
    before.map((name, index) => [name, addressOf(index)]),
  );
});

test('nodes join and leave with their addresses; reads in flight are answered', async (t) => {
  const { nodes, zone, gateway } = await named(t, [{}, {}], 1);
  const [leaving, joining] = nodes;
  const end = Promise.withResolvers<void>();
  leaving?.faults.add({ kind: 'hold', until: end.promise }, { when: ({ url }) => url.includes('=600') });
  const held = gateway.get(probeAt(600));
  await until(() => leaving?.requestsTo('resource') === 1);

  zone.addresses = [addressOf(1)];
  await until(() => gateway.fleet().length === 1 && (joining?.requestsTo('ledgerInfo') ?? 0) > 0);
  const other = await gateway.get(probeAt(601));
  end.resolve();

  assert.equal((await held).status, 200);
  assert.equal(other.status, 200);
  assert.equal(joining?.requestsTo('resource'), 1);
  assert.equal(joining.log.received.at(-1)?.headers.host, `nodes.example:${joining.port}`);
});

test('a look-up that fails or finds nothing keeps the nodes, is counted, and logged once', async (t) => {
  const { zone, hosts, lines, gateway } = await named(t, windows);
  const before = namesOf(gateway);
  const failed = () => gateway.metric('ledgergate_discovery_failures_total{upstream="full-0"}');
  const notFound = () => lines.filter(({ msg }) => String(msg).includes('not found: those before stay'));

  const all = zone.addresses;
  zone.addresses = undefined;
  await until(async () => (await failed()) >= 3);
  zone.addresses = [];
  await until(() => notFound().length === 2);
  assert.equal((await gateway.get(probeAt(5))).status, 200);
  zone.addresses = all;
  await until(() => lines.some(({ msg }) => msg === 'the nodes of an upstream are found again'));

  assert.deepEqual(namesOf(gateway), before);
  assert.deepEqual(
    notFound().map(({ level, reason }) => [level, reason]),
    [
      [40, 'the look-up of its name fails'],
      [40, 'its name has no address'],
    ],
  );
  assert.deepEqual(new Set(hosts), new Set(['nodes.example']));
});

test('addresses without a node do not replace nodes that answer', async (t) => {
  const { zone, lines, gateway } = await named(t, windows);
  const before = namesOf(gateway);

  zone.addresses = ['127.0.0.77'];
  await until(() => lines.some(({ reason }) => reason === 'none of the nodes that were found answers'));

  assert.deepEqual(namesOf(gateway), before);
});

test('a name that is found only after the start', async (t) => {
  const { zone, gateway } = await named(t, windows, 0);
  assert.deepEqual(namesOf(gateway), ['full-0']);

  zone.addresses = [addressOf(0), addressOf(1)];
  await until(() => gateway.fleet().filter(({ state }) => state === 'usable').length === 2);

  assert.equal((await gateway.get(probeAt(5))).status, 200);
});

test('of more than 64 addresses those in use stay, further ones fill up to 64, and the log counts the rest', async (t) => {
  const { nodes, zone, lines, gateway } = await named(t, [{}, {}, {}], 0);
  // The last ones in the order of text.
  zone.addresses = nodes.map((_, index) => addressOf(index)).slice(1);
  await until(() => gateway.fleet().filter(({ state }) => state === 'usable').length === 2);
  const inUse = namesOf(gateway);

  zone.addresses = [...Array.from({ length: 78 }, (_, index) => `127.0.0.${index + 100}`), ...zone.addresses];
  await until(() => gateway.fleet().length === 64);

  assert.ok(inUse.every((name) => namesOf(gateway).includes(name)));
  await until(() => lines.some(({ reason }) => reason === 'its name has 80 addresses, of which 16 are left out'));
});

/** A gateway on a port that the nodes behind its name have, too. */
async function onPortOfNodes(t: TestContext, host: string, addresses: readonly string[]) {
  const port = await freePort();
  const zone: Zone = { addresses };
  const lines: LogLine[] = [];
  const start = () =>
    testGateway(t, {
      full: [{ url: `http://nodes.example:${port}/v1`, discover: 'dns' }],
      config: { listen: { host, port }, upstream: { ...patient, discoverIntervalMs: 20, probeIntervalMs: 50 } },
      onLog: (line) => lines.push(line),
      lookUp: () => Promise.resolve(zone.addresses ?? []),
    });
  return { port, zone, lines, start };
}

test("the gateway's own address among those of a name is no node: without the true node there is an outage", async (t) => {
  const { port, zone, lines, start } = await onPortOfNodes(t, '127.0.0.1', [addressOf(0), addressOf(1)]);
  const node = await fakeNode(t, { head: 900n, host: addressOf(1), port });
  const gateway = await start();
  assert.equal(gateway.fleet().length, 1);
  assert.equal((await gateway.get(probeAt(5))).status, 200);
  await until(() => lines.some(({ reason }) => String(reason).includes("is this gateway's own")));

  zone.addresses = [addressOf(0)];
  await until(() => lines.some(({ reason }) => reason === "its name has no address but this gateway's own"));
  await node.close();

  await until(async () => (await gateway.metric('ledgergate_outage')) === 1);
  const { text } = await fetchReply(`${gateway.operationsUrl}/readyz`, { method: 'GET' });
  assert.match(text, /outage/);
});

for (const host of ['0.0.0.0', '::']) {
  test(`listening on ${host}: no address of the machine is a node, and no request loops`, async (t) => {
    const interfaces = Object.values(networkInterfaces()).flatMap((of) => of?.map(({ address }) => address) ?? []);
    const own = [...interfaces, '127.0.0.9'].filter((address) => host === '::' || isIPv4(address));
    const { start } = await onPortOfNodes(t, host, own);

    const gateway = await start();

    assert.deepEqual(
      gateway.fleet().map(({ name, state }) => [name, state === 'usable']),
      [['full-0', false]],
    );
    const refused = await gateway.get(probeAt(5));
    assert.deepEqual([refused.status, refused.text.includes('name not found')], [503, true]);
    assert.equal(await gateway.metric('ledgergate_http_requests_total{route="resource",status="503"}'), 1);
  });
}

test('a reload changes nodes that were found, and drops them with their upstream', async (t) => {
  const { nodes, gateway } = await named(t, windows);
  const [upstream] = gateway.reloads.config.upstreams;
  assert.ok(upstream !== undefined);
  const alone = { name: 'alone', url: String(nodes[0]?.url), tier: 'full', weight: 1 } as const;

  await gateway.reloads.take({ ...gateway.reloads.config, upstreams: [{ ...upstream, name: 'other' }, alone] });
  assert.deepEqual(
    namesOf(gateway).map((name) => name.replace(/-.*/, '')),
    ['other', 'other', 'alone'],
  );
  await gateway.reloads.take({ ...gateway.reloads.config, upstreams: [alone] });
  assert.deepEqual(namesOf(gateway), ['alone']);
});

test('the system finds localhost, without its port in the query', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [{ url: `http://localhost:${node.port}/v1`, discover: 'dns' }] });

  await until(() => gateway.fleet().some(({ state }) => state === 'usable'));
  assert.match(namesOf(gateway)[0] ?? '', /^full-0-[0-9a-f]{6}$/);
  assert.equal((await gateway.get(probeAt(5))).status, 200);
});

// Nodes of different windows behind one address: a balancer that hands each connection to the next node.

const sentence = 'several nodes answer at one address, with different ledgers: list each node, or set discover: dns';

async function shallowAndDeep(t: TestContext): Promise<readonly [FakeNode, FakeNode]> {
  return [await fakeNode(t, { oldest: 500n, head: 900n }), await fakeNode(t, { oldest: 0n, head: 900n })];
}

for (const pick of ['in turn', 'at random'] as const) {
  test(`50 old reads of nodes behind one address, picked ${pick}: none gets a 410 of a version that a node holds`, async (t) => {
    const nodes = await shallowAndDeep(t);
    const address = await nodeBalancer(t, nodes, pick);
    const gateway = await testGateway(t, { full: [address], config: { upstream: patient } });
    const counts = new Map<number, number>();
    for (let version = 1; version <= 50; version += 1) {
      const { status } = await gateway.get(probeAt(version));
      counts.set(status, (counts.get(status) ?? 0) + 1);
    }

    t.diagnostic(JSON.stringify([...counts]));
    assert.equal(counts.get(410), undefined);
    // At random, one read in 2^16 meets the shallow node alone, and is refused with 503.
    assert.ok((counts.get(200) ?? 0) >= 49);
  });
}

test('a read below all nodes behind one address is answered 410', async (t) => {
  const nodes = [await fakeNode(t, { oldest: 500n, head: 900n }), await fakeNode(t, { oldest: 300n, head: 900n })];
  const gateway = await testGateway(t, { full: [await nodeBalancer(t, nodes, 'in turn')] });
  await until(async () => (await gateway.get(probeAt(400))).status === 200);

  const reply = await gateway.get(probeAt(200));

  assert.equal(reply.status, 410);
  // The deepest report is not believed.
  assert.equal(reply.headers['x-node-ledger-oldest-version'], '500');
});

test('an idle gateway reports several nodes behind one address within 10 s, in every place', async (t) => {
  const lines: LogLine[] = [];
  const nodes = await shallowAndDeep(t);
  const startedMs = performance.now();
  const gateway = await testGateway(t, {
    full: [await nodeBalancer(t, nodes, 'in turn')],
    config: { upstream: { probeIntervalMs: 1_000 } },
    onLog: (line) => lines.push(line),
  });

  await until(async () => (await gateway.metric('ledgergate_upstream_shared_address{upstream="full-0"}')) === 1, 50);

  assert.ok(performance.now() - startedMs < 10_000);
  const shown = await Promise.all(
    ['/readyz', '/status', '/status.json'].map((path) => fetchReply(gateway.operationsUrl + path, { method: 'GET' })),
  );
  for (const { text } of shown) assert.ok(text.includes(sentence));
  const said = lines.filter(({ msg }) => msg === sentence);
  assert.deepEqual(
    said.map(({ level, upstream }) => [level, upstream]),
    [[40, 'full-0']],
  );
});

test('all nodes roll back, and several of them stand behind one address: each node is named first, and reads follow', async (t) => {
  const [shallow, deep] = await shallowAndDeep(t);
  const other = await fakeNode(t, { head: 900n });
  const config = { upstream: { probeIntervalMs: 200 } };
  const gateway = await testGateway(t, { full: [await nodeBalancer(t, [shallow, deep], 'in turn'), other], config });
  const page = async () => (await fetchReply(`${gateway.operationsUrl}/status`, { method: 'GET' })).text;
  await until(async () => (await gateway.metric('ledgergate_upstream_shared_address{upstream="full-0"}')) === 1, 50);
  assert.equal((await gateway.get(probe)).headers['ledgergate-served-version'], '900');
  for (const node of [shallow, deep, other]) {
    node.clock.oldest = 0n;
    node.clock.head = 800n;
  }

  let named = '';
  await until(async () => {
    named = await page();
    return /2 nodes report ledger version 800, and reported 900 before \(full-0, full-1\)/.test(named);
  }, 50);
  assert.doesNotMatch(named, /the ledger went back/);
  await until(async () => (await page()).includes('the ledger went back from 900 to 800'), 50);

  assert.equal((await gateway.get(probe)).headers['ledgergate-served-version'], '800');
});
