// Event streams under keys and plans: how many a client has, and their end with the key, its time or its origin.
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { AccessConfig } from '../../../src/config/config.ts';
import { eventually, until } from '../../support/eventually.ts';
import { EventReader, testStreams } from '../../support/event-reader.ts';
import { fetchReply, nodeAndGateway } from '../../support/gateway.ts';
import { accessConfig, keysFile, planConfig, testKey, type TestKey } from '../../support/keys.ts';

/** Closes a stream with its test. */
type Track = (opening: Promise<EventReader>) => Promise<EventReader>;

/** The key with another record. */
const changed = ({ text, entry }: TestKey, more: TestKey['entry']): TestKey => ({
  text,
  entry: { ...entry, ...more },
});

async function keyedGateway(t: TestContext, track: Track, keys: readonly TestKey[], more: Partial<AccessConfig> = {}) {
  const file = keysFile(t, keys);
  const access = accessConfig({ keys: { file: file.path, redis: false }, ...more });
  const { node, gateway } = await nodeAndGateway(t, { access });
  const open = ({ text }: TestKey, headers: Record<string, string> = {}) =>
    track(EventReader.open(`${gateway.url}/transactions?start=890`, { authorization: `Bearer ${text}`, ...headers }));
  const closed = (reason: string) =>
    gateway.metric(`ledgergate_streams_closed_total{kind="transactions",reason="${reason}"}`);
  return { node, file, gateway, open, closed };
}

testStreams('a plan bounds the streams of a tenant, and an ended one makes room', async (t, track) => {
  const [one, other] = [testKey('one', { tenant: 'acme' }), testKey('other', { tenant: 'acme' })];
  const plans = { free: planConfig({ streams: 2, requests: 100 }) };
  const { gateway, open } = await keyedGateway(t, track, [one, other], { plans });
  const streams = [await open(one), await open(other)];
  assert.deepEqual(
    streams.map(({ status }) => status),
    [200, 200],
  );
  assert.match(streams[0]?.headers['ratelimit'] as string, /^"requests";r=99/);

  const refused = await open(other);
  await refused.ended;
  assert.equal(refused.status, 429);
  assert.equal(JSON.parse(refused.text).error_code, 'rate_limited');
  assert.ok(refused.headers['retry-after']);
  assert.equal(await gateway.metric('ledgergate_streams_refused_total{reason="plan"}'), 1);
  assert.equal(await gateway.metric('ledgergate_limits_refusals_total{plan="free",bound="streams"}'), 1);

  streams[0]?.close();
  await until(async () => (await gateway.metric('ledgergate_streams{kind="transactions"}')) === 1);
  assert.equal((await open(one)).status, 200);
});

testStreams(
  'streams end with their key, with its time, and with its right; those of others go on',
  async (t, track) => {
    const [stays, goes, narrowed] = [testKey('stays'), testKey('goes'), testKey('narrowed')];
    const late = testKey('late');
    const { file, open, closed } = await keyedGateway(t, track, [stays, goes, narrowed, late]);
    const streams = [await open(stays), await open(goes), await open(narrowed), await open(late)];
    assert.deepEqual(
      streams.map(({ status }) => status),
      [200, 200, 200, 200],
    );
    const expires = new Date(Date.now() + 500).toISOString();
    file.write([stays, changed(narrowed, { operations: ['view'] }), changed(late, { expires })]);
    const ends = await Promise.all(streams.slice(1).map(({ ended }) => ended));
    assert.deepEqual(ends, [true, true, true]);
    assert.equal(await closed('revoked'), 3);
    assert.equal(streams[0]?.hasEnded, false);
  },
);

testStreams('a stream needs the origin of its key, and ends when the key has lost it', async (t, track) => {
  const [own, foreign] = ['https://wallet.example', 'https://other.example'];
  const key = testKey('page', { origins: [own] });
  const { file, open, closed } = await keyedGateway(t, track, [key]);
  assert.equal((await open(key, { origin: foreign })).status, 403);
  const stream = await open(key, { origin: own });
  assert.equal(stream.status, 200);
  assert.equal(stream.headers['access-control-allow-origin'], own);
  file.write([{ ...key, entry: { ...key.entry, origins: [foreign] } }]);
  await stream.ended;
  assert.equal(await closed('revoked'), 1);
});

testStreams('bytes of a stream are usage of its key', async (t, track) => {
  const key = testKey('reader');
  const { gateway, open } = await keyedGateway(t, track, [key]);
  const stream = await open(key);
  await stream.shows('id: 900\n');
  const usage = async (): Promise<{ requests: number; bytes: number }> => {
    const { text } = await fetchReply(`${gateway.operationsUrl}/admin/usage`, { method: 'GET' });
    const { rows } = JSON.parse(text) as { rows: { requests: number; bytes: number }[] };
    const sum = (of: 'requests' | 'bytes'): number => rows.reduce((all, row) => all + row[of], 0);
    return { requests: sum('requests'), bytes: sum('bytes') };
  };
  const { requests } = await eventually(usage, ({ bytes }) => bytes >= Buffer.byteLength(stream.text));
  // The request, and the page that was read for it.
  assert.equal(requests, 2);
});

testStreams('an open stream is charged to the plan that its key has by now', async (t, track) => {
  const key = testKey('moved');
  const plans = { free: planConfig({ requests: 100 }), slow: planConfig({ requests: 100 }) };
  const { node, file, gateway, open } = await keyedGateway(t, track, [key], { plans });
  const stream = await open(key);
  await stream.shows('id: 900\n');
  const plansOf = async (): Promise<ReadonlySet<string>> => {
    const { text } = await fetchReply(`${gateway.operationsUrl}/admin/usage`, { method: 'GET' });
    const { rows } = JSON.parse(text) as { rows: { plan: string; bytes: number }[] };
    return new Set(rows.filter(({ bytes }) => bytes > 0).map(({ plan }) => plan));
  };
  assert.deepEqual([...(await eventually(plansOf, (found) => found.size > 0))], ['free']);
  file.write([changed(key, { plan: 'slow' })]);
  const found = await eventually(plansOf, (names) => {
    node.clock.head += 1n;
    return names.has('slow');
  });
  assert.equal(found.has('slow'), true);
  assert.equal(stream.hasEnded, false);
});
