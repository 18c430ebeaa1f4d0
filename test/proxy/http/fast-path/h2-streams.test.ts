/** Hits over HTTP/2: windows, resets, time-outs and the count of streams. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import { test, type TestContext } from 'node:test';
import { until } from '../../../support/eventually.ts';
import { nodeAndGateway, probe, type TestGateway, type TestGatewayOptions } from '../../../support/gateway.ts';
import { frame, headOf } from '../../../support/h2-frames.ts';
import { askH2, authority, tlsSocket } from '../../../support/tls.ts';
import { h2Client } from './h2-requests.ts';

const path = `/v1${probe}?ledger_version=700`;
const known = 'ledgergate_fast_path_requests_total{kind="known"}';
const held = 'ledgergate_answers_held_bytes';

test('a hit larger than its window comes whole, at the pace of the client', async (t) => {
  const { gateway, ca } = await hitsOverTls(t);
  const whole = await askH2(h2Client(t, gateway, ca), { path });
  const before = await gateway.metric(known);
  const narrow = await askH2(h2Client(t, gateway, ca, 10), { path });
  assert.deepEqual([narrow.status, narrow.body], [200, whole.body]);
  assert.ok(whole.body.length > 20);
  assert.equal(await gateway.metric(known), before + 1);
});

test('a hit whose client takes nothing is reset at the time-out', async (t) => {
  const { gateway, ca } = await hitsOverTls(t, { times: { inactivityMs: 300 } });
  const session = h2Client(t, gateway, ca, 0);
  const stalled = await stall(session);
  await once(stalled, 'close');
  assert.equal(stalled.rstCode, cancel);
  openWindow(session);
  assert.equal((await askH2(session, { path })).status, 200);
});

for (const code of [0, 1, 2, 7, 8, 11]) {
  test(`a client that resets a hit with code ${code} ends that stream alone`, async (t) => {
    const { gateway, ca } = await hitsOverTls(t);
    const session = h2Client(t, gateway, ca, 0);
    const stalled = await stall(session);
    stalled.close(code);
    // Another one is reset ahead of its answer.
    const early = session.request({ ':path': path });
    early.on('error', () => undefined);
    early.close(code);
    await Promise.all([stalled, early].map(closed));
    openWindow(session);
    assert.equal((await askH2(session, { path })).status, 200);
    assert.equal((await askH2(h2Client(t, gateway, ca), { path })).status, 200);
  });
}

test('a client that closes its connection with hits in flight harms no other one', async (t) => {
  const { gateway, ca } = await hitsOverTls(t);
  for (let turn = 0; turn < 5; turn += 1) {
    const session = h2Client(t, gateway, ca, turn % 2 === 0 ? 0 : undefined);
    const streams = Array.from({ length: 20 }, () => session.request({ ':path': path }));
    for (const stream of streams) stream.on('error', () => undefined);
    await once(streams[0] as ClientHttp2Stream, 'response');
    session.destroy();
  }
  assert.equal((await askH2(h2Client(t, gateway, ca), { path })).status, 200);
});

test('a connection has at most 100 hits in flight', async (t) => {
  const { gateway, ca } = await hitsOverTls(t);
  const session = h2Client(t, gateway, ca, 0);
  await once(session, 'remoteSettings');
  assert.equal(session.remoteSettings.maxConcurrentStreams, 100);
  const before = await gateway.metric(known);
  const answers = Array.from({ length: 150 }, () => askH2(session, { path }));
  await until(async () => (await gateway.metric(known)) === before + 100);
  // Unread answers are in the budget, as those of the server are.
  await until(async () => (await gateway.metric(held)) > 100 * 20);
  openWindow(session);
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  assert.deepEqual(new Set(statuses), new Set([200]));
  assert.equal(await gateway.metric(known), before + 150);
  await until(async () => (await gateway.metric(held)) === 0);
});

test('a drain waits for the hits that clients still read, then every connection ends', async (t) => {
  const { gateway, ca } = await hitsOverTls(t);
  const idle = h2Client(t, gateway, ca);
  assert.equal((await askH2(idle, { path })).status, 200);
  const before = await gateway.metric(known);
  const slow = h2Client(t, gateway, ca, 0);
  const answer = askH2(slow, { path });
  await until(async () => (await gateway.metric(known)) > before);
  const [sinceMs, closing] = [performance.now(), gateway.close()];
  await once(idle, 'close');
  assert.equal(slow.destroyed, false);
  openWindow(slow);
  assert.equal((await answer).status, 200);
  await closing;
  // The drain's own bound is 10 s.
  assert.ok(performance.now() - sinceMs < 5_000);
});

test('rapid resets of hits and misses cost their client the connection, and no other client anything', async (t) => {
  const { gateway, ca } = await hitsOverTls(t);
  const hostile = await tlsSocket(t, gateway.port, { ca, ALPNProtocols: ['h2'] });
  hostile.on('error', () => undefined);
  hostile.resume();
  // `once` would reject with the error of a late write.
  const gone = new Promise<void>((resolve) => hostile.once('close', () => resolve()));
  hostile.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  hostile.write(frame(4, 0, 0, Buffer.alloc(0)));
  let made = 0;
  for (; made < 100_000 && !hostile.destroyed; made += 1) {
    const id = 2 * made + 1;
    const asked = made % 2 === 0 ? path : `/v1${probe}?ledger_version=${made % 700}`;
    const reset = frame(3, 0, id, Buffer.from([0, 0, 0, made % 12]));
    if (hostile.writable) hostile.write(Buffer.concat([frame(1, 5, id, headOf(asked)), reset]));
    if (made % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await gone;
  assert.ok(made < 100_000, `${made} requests`);
  assert.ok((await gateway.metric('ledgergate_upstream_attempts_total{upstream="full-0",outcome="answered"}')) < 1_000);
  assert.equal((await askH2(h2Client(t, gateway, ca), { path })).status, 200);
});

interface HitsOverTls {
  readonly gateway: TestGateway;
  readonly ca: string;
}

/** A gateway with TLS whose memory holds `path`. */
async function hitsOverTls(t: TestContext, options: Omit<TestGatewayOptions, 'full'> = {}): Promise<HitsOverTls> {
  const root = authority(t);
  const listen = { fastPath: true, ...options.config?.listen, tls: root.certify('gateway') };
  const { gateway } = await nodeAndGateway(t, { ...options, config: { ...options.config, listen } });
  const session = h2Client(t, gateway, root.ca);
  await until(async () => {
    const { headers } = await askH2(session, { path });
    return new Map(headers).get('cache-status')?.includes('hit') === true;
  });
  session.close();
  await closed(session);
  return { gateway, ca: root.ca };
}

/** A stream that has the head of its answer, in a session without a window. */
async function stall(session: ClientHttp2Session): Promise<ClientHttp2Stream> {
  const stream = session.request({ ':path': path });
  stream.on('error', () => undefined);
  await once(stream, 'response');
  return stream;
}

function openWindow(session: ClientHttp2Session): void {
  session.settings({ initialWindowSize: 65_535 });
}

function closed(one: ClientHttp2Session | ClientHttp2Stream): Promise<unknown> {
  return new Promise((resolve) => one.once('close', resolve));
}

/** CANCEL (RFC 9113 7). */
const cancel = 8;
