/** Event streams: of reads of the latest state, of the ledger info, and of transactions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { purge } from '../../support/admin.ts';
import { distortingNode } from '../../support/distorting-node.ts';
import { EventReader, testStreams } from '../../support/event-reader.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { fetchReply, nodeAndGateway, probe, testGateway, type TestGateway } from '../../support/gateway.ts';
import { accessConfig, keysFile, planConfig, testKey, type TestKey } from '../../support/keys.ts';
import { readResource } from '../../support/reads.ts';
import { submission } from '../../support/submission.ts';
import { authority, h2Session } from '../../support/tls.ts';

// Reads of the latest state: an event where the answer changed, and one read of a node for all who watch.

/** Rounds and states in quick succession. */
const quick = { latest: { maxStalenessMs: 50 }, streams: { intervalMs: 100 } };
const address = readResource('0x1', '0x1::coin::Coin').subject.split('/')[0] ?? '';
const versionView = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';

function watch(gateway: TestGateway, path = probe, key?: TestKey): Promise<EventReader> {
  return EventReader.open(`${gateway.url}${path}`, key === undefined ? {} : { authorization: `Bearer ${key.text}` });
}

/** The ledger's version in a body of `probe`. */
function versionIn(data: string | undefined): number {
  return Number(/"ledger_version":"(\d+)"/.exec(data ?? '')?.[1]);
}

for (const [kind, path, body] of [
  ['resource', probe],
  ['balance', '/accounts/0x1/balance/0x1::aptos_coin::AptosCoin'],
  ['view', '/view', versionView],
] as const) {
  testStreams(`a ${kind} is an event at once, and each time that its body changes`, async (t, open) => {
    const { node, gateway } = await nodeAndGateway(t, { config: quick });
    const reader = await open(EventReader.open(`${gateway.url}${path}`, {}, { body }));
    assert.deepEqual(
      [reader.status, reader.headers['content-type'], reader.headers['cache-control']],
      [200, 'text/event-stream; charset=utf-8', 'no-store'],
    );
    await reader.has(1);
    for (const head of [901n, 950n, 951n]) {
      const before = reader.events.length;
      node.clock.head = head;
      await reader.has(before + 1);
    }
    assert.deepEqual(reader.ids, ['900', '901', '950', '951']);
    for (const { event, id, data } of reader.events) {
      const url = `${node.url}${path}?ledger_version=${id}`;
      const sent = { body: body ?? null, headers: body === undefined ? {} : { 'content-type': 'application/json' } };
      const { text } = await fetchReply(url, { method: body === undefined ? 'GET' : 'POST', ...sent });
      assert.deepEqual([event, data], ['change', text]);
    }
  });
}

testStreams(
  'all who watch a key cost one read of a node for each state, which other readers share',
  async (t, open) => {
    const { node, gateway } = await nodeAndGateway(t, { config: quick }, { keepRequests: 1_000 });
    const readers = await Promise.all(Array.from({ length: 20 }, () => open(watch(gateway))));
    const other = await open(watch(gateway, '/accounts/0x1/module/coin'));
    for (let count = 1; count <= 6; count += 1) {
      await Promise.all(readers.map((reader) => reader.has(count)));
      // Not older than the event, on whichever connection, and out of memory.
      const { text, headers } = await gateway.get(probe);
      assert.deepEqual([versionIn(text), headers['cache-status']], [899 + count, 'ledgergate; hit; detail=memory']);
      node.clock.advance(1n);
    }
    const asked = node.log.received.filter(({ route }) => route === 'resource').map(({ url }) => url);
    assert.equal(new Set(asked).size, asked.length);
    for (const { ids } of readers) assert.deepEqual(ids.slice(0, 6), ['900', '901', '902', '903', '904', '905']);
    // An answer that does not change is read at each state as well, and is no event.
    assert.equal(other.events.length, 1);
    assert.ok(node.requestsTo('module') > 1);
    assert.equal(await gateway.metric('ledgergate_streams{kind="changes"}'), 21);
  },
);

testStreams(
  'what does not exist yet is a failure that becomes a change, and an error is no stream',
  async (t, open) => {
    const { node, gateway } = await nodeAndGateway(t, { config: quick });
    const absent = '/accounts/0x1/resource/0x1::ledgergate_sample::Absent';
    const reader = await open(watch(gateway, absent));
    const [first] = await reader.has(1);
    assert.deepEqual([reader.status, first?.event, first?.id], [200, 'failure', '900']);
    assert.match(first?.data ?? '', /"error_code":"resource_not_found"/);
    // Its message names the version, and is no other answer for that.
    const asked = node.requestsTo('resource');
    node.clock.advance(5n);
    await until(() => node.requestsTo('resource') > asked);
    assert.equal(reader.events.length, 1);

    node.faults.add({ kind: 'unavailable' }, { when: ({ route }) => route === 'resource' });
    for (const [path, status] of [
      [probe, 503],
      ['/accounts/0xzz/resource/0x1::a::B', 400],
    ] as const) {
      const refused = await open(watch(gateway, path));
      assert.deepEqual([refused.status, refused.headers['content-type']], [status, 'application/json']);
    }
  },
);

testStreams('a purge reads what is watched again, at the same state', async (t, open) => {
  const node = await fakeNode(t, { head: 900n });
  let isWrong = true;
  const distorted = await distortingNode(t, node, (said, { isLook }) => {
    const body = isWrong && !isLook ? said.body.toString().replace('"900"', '"1"') : said.body;
    return { ...said, body: Buffer.from(body) };
  });
  const gateway = await testGateway(t, { full: [distorted], config: quick });
  const reader = await open(watch(gateway));
  await reader.has(1);
  isWrong = false;
  await purge(gateway, { everything: true });
  const events = await reader.has(2);
  assert.deepEqual(
    events.map(({ id, data }) => [id, versionIn(data)]),
    [
      ['900', 1],
      ['900', 900],
    ],
  );
});

/** Reads of keys that differ. */
function balances(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `/accounts/0x${index + 16}/balance/0x1::aptos_coin::AptosCoin`);
}

testStreams('a client whose plan is used up, and would wait for it, holds up nobody else', async (t, open) => {
  const node = await fakeNode(t, { head: 900n });
  const [poor, rich] = [testKey('poor', { plan: 'poor' }), testKey('rich')];
  const file = keysFile(t, [poor, rich]);
  const plans = { free: planConfig(), poor: planConfig({ requests: 40, windowMs: 4_000, waitMs: 10_000 }) };
  const access = accessConfig({ keys: { file: file.path, redis: false }, plans });
  const gateway = await testGateway(t, { full: [node], access, config: quick });
  await Promise.all(balances(40).map((path) => open(watch(gateway, path, poor))));
  const ofRich = await open(watch(gateway, probe, rich));
  await ofRich.has(1);
  node.clock.advance(1n);
  const startMs = performance.now();
  await ofRich.has(2);
  assert.ok(performance.now() - startMs < 2_000);
});

testStreams('the reads of many keys are spread over the interval', async (t, open) => {
  const config = { ...quick, streams: { intervalMs: 1_000 } };
  const { node, gateway } = await nodeAndGateway(t, { config }, { keepRequests: 1_000 });
  const times: number[] = [];
  await Promise.all(balances(60).map((path) => open(watch(gateway, path))));
  const opened = node.requestsTo('balance');
  await until(() => {
    node.clock.advance(1n);
    while (times.length < node.requestsTo('balance') - opened) times.push(performance.now());
    return times.length >= 120;
  }, 5);
  const most = Math.max(...times.map((from) => times.filter((time) => time >= from && time < from + 50).length));
  assert.ok(most <= 30, `${most} reads in 50 ms`);
  assert.ok((times[119] ?? 0) - (times[0] ?? 0) > 1_200);
});

test('reads that name a version, lists and HEAD are answered as ever', async (t) => {
  const { gateway } = await nodeAndGateway(t);
  const headers = { accept: 'text/event-stream' };
  for (const path of [`${probe}?ledger_version=890`, '/accounts/0x1/resources', '/blocks/by_height/3']) {
    const { status, headers: got } = await gateway.get(path, headers);
    assert.deepEqual([status, got['content-type']], [200, 'application/json; charset=utf-8'], path);
  }
  const { status, body } = await gateway.send('HEAD', probe, { headers });
  assert.deepEqual([status, body.length], [200, 0]);
  const passed = await gateway.get(probe, { accept: 'application/json, text/event-stream' });
  assert.equal(JSON.parse(passed.text).data.address.length, address.length);
});

// The ledger info.

const latest = { maxStalenessMs: 50 };

testStreams('the ledger info is an event at once, and whenever the shared state moves', async (t, open) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { latest } });
  const readers = await Promise.all(['', '/'].map((path) => open(EventReader.open(`${gateway.url}${path}`))));
  const versions = [900n, 901n, 950n];
  for (const [index, version] of versions.entries()) {
    node.clock.head = version;
    await Promise.all(readers.map((reader) => reader.has(index + 1)));
    const { text } = await gateway.get('');
    for (const { events } of readers) {
      assert.deepEqual(events[index], { event: 'ledger_info', id: String(version), data: text });
    }
  }
  assert.equal(await gateway.metric('ledgergate_streams{kind="ledger_info"}'), 2);
});

testStreams('a stream goes on where nodes fail for a while', async (t, open) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { latest } });
  const reader = await open(EventReader.open(gateway.url));
  await reader.has(1);
  node.fault = { kind: 'unavailable' };
  const failed = node.requestsTo('ledgerInfo');
  node.clock.advance(10n);
  await node.log.next(({ route }) => route === 'ledgerInfo');
  assert.ok(node.requestsTo('ledgerInfo') > failed);
  node.fault = undefined;
  const [, moved] = await reader.has(2);
  assert.equal(moved?.id, '910');
});

testStreams('a malformed demand, and an outage, are answers and no streams', async (t, open) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { latest } });
  const malformed = await open(EventReader.open(gateway.url, { 'ledgergate-min-version': 'x' }));
  const ahead = await open(EventReader.open(gateway.url, { 'ledgergate-min-version': '5000' }));
  node.fault = { kind: 'unavailable' };
  const outage = await open(EventReader.open(gateway.url, { 'ledgergate-max-staleness': '0' }));
  for (const [reader, status] of [
    [malformed, 400],
    [ahead, 503],
    [outage, 503],
  ] as const) {
    assert.deepEqual([reader.status, reader.headers['content-type']], [status, 'application/json']);
  }
});

testStreams('streams go over TLS, and many over one session of HTTP/2', async (t, open) => {
  const ca = authority(t);
  const node = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [node], config: { latest, listen: { tls: ca.certify('gateway') } } });
  const session = await h2Session(t, new URL(gateway.url).origin, ca.ca);
  const overTls = await open(EventReader.open(gateway.url, {}, { ca: ca.ca }));
  const overH2 = await Promise.all(Array.from({ length: 20 }, () => open(EventReader.over(session, '/v1'))));
  for (const [count, version] of [900n, 901n, 902n].entries()) {
    node.clock.head = version;
    await Promise.all([overTls, ...overH2].map((reader) => reader.has(count + 1)));
  }
  for (const { status, ids } of [overTls, ...overH2]) assert.deepEqual([status, ids], [200, ['900', '901', '902']]);
  session.destroy();
});

// Transactions: each version once, in order, with the bytes that the node has for it.

/** `query`: with its question mark. */
function transactionsOf(
  { url }: Pick<TestGateway, 'url'>,
  query = '',
  headers: Readonly<Record<string, string>> = {},
): Promise<EventReader> {
  return EventReader.open(`${url}/transactions${query}`, headers);
}

/** The stream has the transactions from `first` to `last`, as the node has them, and nothing else. */
async function assertHas(reader: EventReader, node: FakeNode, first: number, last: number): Promise<void> {
  const events = await reader.has(last - first + 1);
  assert.deepEqual(
    reader.ids,
    Array.from({ length: last - first + 1 }, (_, index) => String(first + index)),
  );
  for (let start = first; start <= last; start += 100) {
    const limit = Math.min(100, last - start + 1);
    const { text } = await fetchReply(`${node.url}/transactions?start=${start}&limit=${limit}`, { method: 'GET' });
    const sent = events.slice(start - first, start - first + limit).map(({ data }) => data);
    assert.ok(`[${sent.join()}]` === text, `transactions from ${start} on have other bytes`);
  }
  assert.ok(events.every(({ event }) => event === 'transaction'));
}

testStreams('a stream has each transaction from its start on, with the bytes of by_version', async (t, open) => {
  const { node, gateway } = await nodeAndGateway(t);
  const reader = await open(transactionsOf(gateway, '?start=750'));
  assert.deepEqual(
    [reader.status, reader.headers['content-type'], reader.headers['cache-control']],
    [200, 'text/event-stream; charset=utf-8', 'no-store'],
  );
  await assertHas(reader, node, 750, 900);
  for (const head of [903n, 950n, 1_130n]) {
    node.clock.head = head;
    await assertHas(reader, node, 750, Number(head));
  }
  for (const version of [750, 900, 901, 1_130]) {
    const { text } = await fetchReply(`${node.url}/transactions/by_version/${version}`, { method: 'GET' });
    assert.equal(reader.events[version - 750]?.data, text);
  }
});

testStreams('a stream without a start has what follows the state that reads share', async (t, open) => {
  const { node, gateway } = await nodeAndGateway(t);
  const reader = await open(transactionsOf(gateway));
  const other = await open(transactionsOf(gateway, '?start=920'));
  node.clock.head = 910n;
  await assertHas(reader, node, 901, 910);
  // Reads of its client are not older than its last event.
  const { headers } = await gateway.get('/accounts/0x1/resource/0x1::ledgergate_sample::Probe');
  assert.ok(Number(headers['ledgergate-served-version']) >= 910);
  assert.deepEqual(other.ids, []);
  node.clock.head = 925n;
  await assertHas(reader, node, 901, 925);
  await assertHas(other, node, 920, 925);
});

testStreams('a client resumes behind its last event, at another gateway as well', async (t, open) => {
  const { node, gateway } = await nodeAndGateway(t);
  const reader = await open(transactionsOf(gateway, '?start=890'));
  await assertHas(reader, node, 890, 900);
  // The gateway drains: a stream ends at its next event, or without one.
  const closing = gateway.close();
  node.clock.head = 950n;
  await closing;
  await until(() => reader.hasEnded);
  node.clock.head = 1_050n;
  const next = await testGateway(t, { full: [node] });
  // `start` is that of the first request, which a page repeats.
  const resumed = await open(transactionsOf(next, '?start=890', { 'last-event-id': reader.lastId }));
  await assertHas(reader, node, 890, Number(reader.lastId));
  await assertHas(resumed, node, Number(reader.lastId) + 1, 1_050);
  const ahead = await open(transactionsOf(next, '', { 'last-event-id': '1060' }));
  node.clock.head = 1_070n;
  await assertHas(ahead, node, 1_061, 1_070);
});

testStreams('a filter lets through what matches in each part', async (t, open) => {
  const { node, gateway } = await nodeAndGateway(t);
  const queries = [
    'sender=0x00a1',
    'sender=0xa2',
    'function=0x1::m::*',
    'sender=0xa1&function=0x1::m::f',
    'event_type=0x1::m::E',
  ];
  const readers = await Promise.all(queries.map((query) => open(transactionsOf(gateway, `?start=890&${query}`))));
  const whole = await open(transactionsOf(gateway, '?start=890'));
  for (const [index, sender] of ['0xa1', '0xa2', '0xa1'].entries()) {
    await gateway.post('/transactions', submission({ sender, sequenceNumber: index }));
    node.clock.head = BigInt(905 + index * 5);
    node.mempool.commitAll(BigInt(905 + index * 5));
  }
  await assertHas(whole, node, 890, 915);
  const expected = [['905', '915'], ['910'], ['905', '910', '915'], ['905', '915'], []];
  for (const [index, ids] of expected.entries()) {
    await readers[index]?.has(ids.length);
    assert.deepEqual(readers[index]?.ids, ids, queries[index]);
  }
});

testStreams('requests that no stream can answer are refused, or answered as ever', async (t, open) => {
  const { gateway } = await nodeAndGateway(t);
  for (const [query, id] of [['?start=x'], ['?limit=5'], ['?sender=x'], ['', 'x']] as const) {
    const reader = await open(transactionsOf(gateway, query, id === undefined ? {} : { 'last-event-id': id }));
    await until(() => reader.hasEnded);
    assert.equal(reader.status, 400);
    assert.equal((JSON.parse(reader.rest) as { error_code: string }).error_code, 'invalid_input');
  }
  const accept = 'application/x-bcs, text/event-stream';
  const list = await gateway.get('/transactions?start=890&limit=2', { accept });
  assert.equal(list.headers['content-type'], 'application/x-bcs');
  const head = await gateway.send('HEAD', '/transactions?start=890&limit=2', {
    headers: { accept: 'text/event-stream' },
  });
  assert.match(head.headers['content-type'] ?? '', /^application\/json/);
});

testStreams('a node that dies, and one that lags, make neither a gap nor a double', async (t, open) => {
  const nodes = await Promise.all([
    fakeNode(t, { head: 900n }),
    fakeNode(t, { head: 900n }),
    fakeNode(t, { head: 900n }),
  ]);
  const [one, two, lagging] = nodes;
  assert.ok(one && two && lagging);
  // A node that has failed is asked again by a probe.
  const config = { upstream: { probeIntervalMs: 200 } };
  const gateway = await testGateway(t, { full: nodes, config });
  const readers = await Promise.all(
    ['?start=880', '', '?start=900'].map((query) => open(transactionsOf(gateway, query))),
  );
  for (let head = 910; head <= 1_000; head += 10) {
    one.clock.head = BigInt(head);
    two.clock.head = BigInt(head);
    if (head === 940) two.fault = { kind: 'reset' };
    if (head === 960) two.fault = undefined;
    if (head === 970) one.fault = { kind: 'reset' };
    await readers[0]?.has(head - 879);
  }
  one.fault = undefined;
  for (const [index, first] of [880, 901, 900].entries()) {
    await assertHas(readers[index] as EventReader, two, first, 1_000);
  }
});

testStreams('a ledger that goes back is an event, behind which the stream has the other history', async (t, open) => {
  const config = { follow: { mode: 'always' }, upstream: { probeIntervalMs: 200 } } as const;
  const { node, gateway } = await nodeAndGateway(t, { config }, { chainId: 1 });
  await until(async () => (await gateway.metric('ledgergate_follower_pages_total{result="taken"}')) > 0);
  const [old, young] = [
    await open(transactionsOf(gateway, '?start=850')),
    await open(transactionsOf(gateway, '?start=945')),
  ];
  node.clock.head = 960n;
  await assertHas(old, node, 850, 960);
  await assertHas(young, node, 945, 960);
  // As a test network that was recreated.
  node.clock.fork(939n, 'other');
  node.clock.head = 950n;
  node.fault = { kind: 'wrong chain id', chainId: 2 };
  await old.has(111 + 1 + 11);
  node.clock.head = 1_000n;
  await old.has(111 + 1 + 61);
  await young.has(16 + 1 + 56);
  const rollbacks = [old.events[111], young.events[16]];
  assert.deepEqual(rollbacks, [
    { event: 'rollback', id: '939', data: '{"version":"940"}' },
    // It has asked for nothing below.
    { event: 'rollback', id: '944', data: '{"version":"945"}' },
  ]);
  old.events.splice(0, 112);
  young.events.splice(0, 17);
  await assertHas(old, node, 940, 1_000);
  await assertHas(young, node, 945, 1_000);
});
