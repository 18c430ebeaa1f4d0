/** The fast path answers any bytes as the HTTP server does: byte for byte, except the date. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { authority } from '../../../support/tls.ts';
import { bothWays, compareStreams } from './both-ways.ts';
import { exchangeRaw } from '../../../support/raw-http.ts';
import { accessConfig, keysFile, planConfig } from '../../../support/keys.ts';
import { knownTargets, makeBrokenStream, makeKeyedStream, streamKeys } from './streams.ts';

// More streams with other seeds: npm run fuzz:fast-path.
const count = Number(process.env['LEDGERGATE_FAST_PATH_STREAMS'] ?? 600);
const first = Number(process.env['LEDGERGATE_FAST_PATH_SEED'] ?? 0);

test(`${count} streams of all kinds get the same answers with and without the fast path`, async (t) => {
  const both = await bothWays(t);

  assert.equal(await compareStreams(both, { first, count }), undefined);

  // Proves coverage: the fast path answered hits and reads, and handed connections over.
  const shareOf = async (sample: string): Promise<number> =>
    (await both.fastPath.metric(`ledgergate_fast_path_${sample}`)) / count;
  const shares = await Promise.all(
    ['requests_total{kind="known"}', 'requests_total{kind="read"}', 'handovers_total'].map(shareOf),
  );
  assert.ok(
    shares.every((share) => share > 0.1),
    shares.join(),
  );
  const unchanged = await both.fastPath.metric('ledgergate_http_requests_total{route="resource",status="304"}');
  assert.ok(unchanged > count / 100, `${unchanged} answers were 304`);
});

test(`${count} streams of valid requests to a slow node, then malformed bytes, get the same answers with and without the fast path`, async (t) => {
  const both = await bothWays(t, { slowMs: 5 });
  // Fewer than a busy gateway lets wait for its node: a refusal for want of a place is no difference.
  const parallel = 8;

  assert.equal(await compareStreams(both, { first, count, make: makeBrokenStream, parallel }), undefined);
});

test(`${count} streams with keys, good and bad, get the same answers with and without the fast path`, async (t) => {
  const { path } = keysFile(t, Object.values(streamKeys));
  const plans = { free: planConfig({ requests: 1_000_000, burst: 1_000_000, concurrency: 10_000 }) };
  const access = accessConfig({ keys: { file: path, redis: false }, plans });
  const both = await bothWays(t, { access });

  assert.equal(await compareStreams(both, { first, count, make: makeKeyedStream }), undefined);
  assert.ok((await both.fastPath.metric('ledgergate_fast_path_requests_total{kind="known"}')) > count / 10);
});

test(`${count} streams over TLS get the same answers with and without the fast path`, async (t) => {
  const root = authority(t);
  const both = await bothWays(t, { tls: { ...root.certify('node'), ca: root.ca } });

  assert.equal(await compareStreams(both, { first, count }), undefined);
});

const body = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';
const post = `POST /v1/view?ledger_version=1000 HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`;
const get = `GET ${knownTargets[0]} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n`;
const split = {
  view: `${post}Content-Length: ${body.length}\r\n\r\n${body}`,
  request: get + get.replace('GET', 'HEAD'),
};

for (const [what, plain] of Object.entries(split)) {
  test(`a ${what} split at any byte gets the same answer with and without the fast path`, async (t) => {
    const both = await bothWays(t);
    const bytes = Buffer.from(plain + plain.replace('Host', 'Connection: close\r\nHost'));

    for (let at = 0; at <= bytes.length; at += 1) {
      assert.equal(await both.differenceOf([bytes.subarray(0, at), bytes.subarray(at)]), undefined, `cut at ${at}`);
    }
  });
}

test('an expectation behind other requests is met with and without the fast path', async (t) => {
  const both = await bothWays(t);
  const [first = '', , , large = ''] = knownTargets;
  const head = 'HTTP/1.1\r\nHost: a\r\n';
  // Two spaces: the server's, and every request behind it.
  const before = `GET  ${large} ${head}\r\nHEAD ${large} ${head}\r\nGET ${first} ${head}\r\n`;
  const json = 'Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}';
  const last = `GET ${first} ${head}Connection: close\r\n\r\n`;
  const bytes = Buffer.from(`${before}POST /v1/tables/0x1/raw_item?ledger_version=1000 ${head}${json}${last}`);

  assert.equal(await both.differenceOf([bytes]), undefined);
  const received = await exchangeRaw(both.fastPath.port, bytes);
  const statuses = [...received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => status);
  assert.deepEqual(statuses, ['200', '200', '200', '100', '400', '200']);
});

test('answers ahead of a PRI without a version are sent, with and without the fast path', async (t) => {
  const both = await bothWays(t);
  const bytes = Buffer.from(
    `GET  ${knownTargets[3]} HTTP/1.1\r\nHost: a\r\n\r\nPRI ${knownTargets[0]}\r\nHost: a\r\n\r\n`,
  );

  assert.equal(await both.differenceOf([bytes]), undefined);
  const received = await exchangeRaw(both.server.port, bytes);
  const statuses = [...received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => status);
  assert.deepEqual(statuses, ['200', '400']);
});
