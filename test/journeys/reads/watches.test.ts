/** Reads of the latest state as streams: an event where the answer changed, and one read of a node for all who watch. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { purge } from '../../support/admin.ts';
import { distortingNode } from '../../support/distorting-node.ts';
import { EventReader, testStreams } from '../../support/event-reader.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { fetchReply, nodeAndGateway, probe, testGateway, type TestGateway } from '../../support/gateway.ts';
import { accessConfig, keysFile, planConfig, testKey, type TestKey } from '../../support/keys.ts';
import { readResource } from '../../support/reads.ts';

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

testStreams('an interval has one read of a node for each key, however often the ledger moves', async (t, open) => {
  const config = { ...quick, streams: { intervalMs: 400 } };
  const { node, gateway } = await nodeAndGateway(t, { config }, { keepRequests: 1_000 });
  const reader = await open(watch(gateway));
  const startMs = performance.now();
  await until(() => {
    node.clock.advance(1n);
    return reader.events.length === 4;
  }, 5);
  const rounds = (performance.now() - startMs) / 400;
  const reads = node.requestsTo('resource') - 1;
  assert.ok(reads >= 3 && reads <= rounds + 1, `${reads} reads in ${rounds.toFixed(1)} rounds`);
});

testStreams('an answer that becomes an error is an event, and its recovery, too', async (t, open) => {
  const { node, gateway } = await nodeAndGateway(t, { config: quick });
  const reader = await open(watch(gateway));
  await reader.has(1);
  node.faults.add({ kind: 'unavailable' }, { when: ({ route }) => route === 'resource' });
  node.clock.advance(1n);
  const [, failure] = await reader.has(2);
  assert.deepEqual([failure?.event, failure?.id], ['failure', '900']);
  assert.match(failure?.data ?? '', /^\{"message":".*","error_code":"internal_error","vm_error_code":null\}$/);
  node.faults.clear();
  const [, , change] = await reader.has(3);
  assert.deepEqual([change?.event, change?.id, versionIn(change?.data)], ['change', '901', 901]);
});

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

testStreams('a ledger that went back is an event, and the stream goes on from there', async (t, open) => {
  const { node, gateway } = await nodeAndGateway(t, { config: quick }, { chainId: 1 });
  const reader = await open(watch(gateway));
  const info = await open(watch(gateway, '/'));
  await Promise.all([reader.has(1), info.has(1)]);
  node.clock.head = 500n;
  node.fault = { kind: 'wrong chain id', chainId: 2 };
  const [, rollback, change] = await reader.has(3);
  assert.deepEqual(rollback, { event: 'rollback', id: '500', data: '{"version":"500"}' });
  assert.deepEqual([change?.event, change?.id, versionIn(change?.data)], ['change', '500', 500]);
  const [, infoRollback, moved] = await info.has(3);
  assert.deepEqual([infoRollback?.event, moved?.event, moved?.id], ['rollback', 'ledger_info', '500']);
});

testStreams(
  'another client pays once the plan of the oldest is used up, and when its key is revoked',
  async (t, open) => {
    const node = await fakeNode(t, { head: 900n });
    const [poor, rich, late] = [testKey('poor', { plan: 'poor' }), testKey('rich'), testKey('late')];
    const file = keysFile(t, [poor, rich, late]);
    const plans = { free: planConfig(), poor: planConfig({ requests: 3, windowMs: 3_600_000 }) };
    const access = accessConfig({ keys: { file: file.path, redis: false }, plans });
    const gateway = await testGateway(t, { full: [node], access, config: quick });
    const ofPoor = await open(watch(gateway, probe, poor));
    const ofRich = await open(watch(gateway, probe, rich));
    for (let count = 1; count <= 5; count += 1) {
      await Promise.all([ofPoor, ofRich].map((reader) => reader.has(count)));
      node.clock.advance(1n);
    }
    assert.equal((await open(watch(gateway, probe, poor))).status, 429);

    const ofLate = await open(watch(gateway, probe, late));
    file.write([poor, late]);
    await until(() => ofRich.hasEnded);
    assert.equal(ofPoor.hasEnded, false);
    const before = ofLate.events.length;
    node.clock.advance(1n);
    await ofLate.has(before + 1);
  },
);

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

testStreams('a key that nodes answer slowly holds up no other', async (t, open) => {
  const { node, gateway } = await nodeAndGateway(t, { config: quick });
  const reader = await open(watch(gateway));
  await open(watch(gateway, '/accounts/0x1/module/coin'));
  node.faults.add({ kind: 'latency', ms: 5_000 }, { when: ({ route }) => route === 'module' });
  node.clock.advance(1n);
  await reader.has(2);
  const startMs = performance.now();
  node.clock.advance(1n);
  await reader.has(3);
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
