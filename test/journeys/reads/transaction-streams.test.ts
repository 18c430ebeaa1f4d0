/** Streams of transactions: each version once, in order, with the bytes that the node has for it. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { EventReader, type StreamEvent } from '../../support/event-reader.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { fetchReply, nodeAndGateway, testGateway, type TestGateway } from '../../support/gateway.ts';
import { until } from '../../support/eventually.ts';
import { submission } from '../../support/submission.ts';

/** Opens a stream of transactions. `query`: with its question mark. */
type Open = (
  gateway: Pick<TestGateway, 'url'>,
  query?: string,
  headers?: Readonly<Record<string, string>>,
) => Promise<EventReader>;

/** A test whose streams end ahead of its gateway, which would wait for them as it drains. */
function testStreams(name: string, run: (t: TestContext, open: Open) => Promise<void>): void {
  test(name, async (t) => {
    const readers: EventReader[] = [];
    try {
      await run(t, async (gateway, query = '', headers = {}) => {
        const reader = await EventReader.open(`${gateway.url}/transactions${query}`, headers);
        readers.push(reader);
        return reader;
      });
    } finally {
      for (const reader of readers) reader.close();
    }
  });
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

/** Drops each rollback, with the transactions that it withdraws. */
function withdraw(events: StreamEvent[]): void {
  const kept: StreamEvent[] = [];
  for (const event of events.splice(0)) {
    if (event.event !== 'rollback') kept.push(event);
    else while (Number(kept.at(-1)?.id ?? -1) > Number(event.id)) kept.pop();
  }
  events.push(...kept);
}

testStreams('a stream has each transaction from its start on, with the bytes of by_version', async (t, open) => {
  const { node, gateway } = await nodeAndGateway(t);
  const reader = await open(gateway, '?start=750');
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
  const reader = await open(gateway);
  const other = await open(gateway, '?start=920');
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
  const reader = await open(gateway, '?start=890');
  await assertHas(reader, node, 890, 900);
  // The gateway drains: a stream ends at its next event, or without one.
  const closing = gateway.close();
  node.clock.head = 950n;
  await closing;
  await until(() => reader.hasEnded);
  node.clock.head = 1_050n;
  const next = await testGateway(t, { full: [node] });
  // `start` is that of the first request, which a page repeats.
  const resumed = await open(next, '?start=890', { 'last-event-id': reader.lastId });
  await assertHas(reader, node, 890, Number(reader.lastId));
  await assertHas(resumed, node, Number(reader.lastId) + 1, 1_050);
  const ahead = await open(next, '', { 'last-event-id': '1060' });
  node.clock.head = 1_070n;
  await assertHas(ahead, node, 1_061, 1_070);
});

testStreams('what no node holds any more is the answer that a read gets', async (t, open) => {
  const { gateway } = await nodeAndGateway(t, {}, { oldest: 500n });
  const reader = await open(gateway, '?start=100');
  const read = await gateway.get('/transactions?start=100&limit=100');
  await until(() => reader.hasEnded);
  assert.deepEqual([reader.status, reader.rest], [410, read.text]);
  const resumed = await open(gateway, '', { 'last-event-id': '498' });
  assert.equal(resumed.status, 410);
  const held = await open(gateway, '', { 'last-event-id': '499' });
  assert.equal((await held.has(401)).length, 401);
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
  const readers = await Promise.all(queries.map((query) => open(gateway, `?start=890&${query}`)));
  const whole = await open(gateway, '?start=890');
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
    const reader = await open(gateway, query, id === undefined ? {} : { 'last-event-id': id });
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

testStreams('without a follower there are no streams of transactions', async (t, open) => {
  const { gateway } = await nodeAndGateway(t, { config: { follow: { mode: 'off' } } });
  const reader = await open(gateway);
  assert.equal(reader.status, 403);
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
  const readers = await Promise.all(['?start=880', '', '?start=900'].map((query) => open(gateway, query)));
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
  const [old, young] = [await open(gateway, '?start=850'), await open(gateway, '?start=945')];
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

testStreams('what a node on a fork alone has had is withdrawn', async (t, open) => {
  const nodes = await Promise.all([1, 2, 3].map(() => fakeNode(t, { head: 900n })));
  const [one, , forked] = nodes as [FakeNode, FakeNode, FakeNode];
  const config = { follow: { mode: 'always' }, upstream: { probeIntervalMs: 50 } } as const;
  const gateway = await testGateway(t, { full: nodes, config, forkTimes: { intervalMs: 400, pauseMs: 0 } });
  await until(async () => (await gateway.metric('ledgergate_follower_pages_total{result="taken"}')) > 0);
  const reader = await open(gateway, '?start=890');
  for (const { clock } of nodes) clock.head = 950n;
  await assertHas(reader, one, 890, 950);
  forked.clock.fork(950n, 'fork');
  forked.clock.head = 980n;
  // Its word is that of one node, and the freshest.
  await reader.has(61 + 30);
  for (const { clock } of nodes) clock.head = 1_000n;
  await until(() => gateway.fleet()[2]?.forkedAt === '951');
  await until(() => reader.events.some(({ event }) => event === 'rollback') && reader.lastId === '1000');
  for (const { clock } of nodes) clock.head = 1_020n;
  await until(() => reader.lastId === '1020');
  withdraw(reader.events);
  await assertHas(reader, one, 890, 1_020);
});
