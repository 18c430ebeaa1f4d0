/** The ledger info as a stream, over each transport. */
import assert from 'node:assert/strict';
import { EventReader, testStreams } from '../../support/event-reader.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, testGateway } from '../../support/gateway.ts';
import { authority, h2Session } from '../../support/tls.ts';

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
