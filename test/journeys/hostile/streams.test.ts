// Event streams over every transport, and clients that leave them in every way: half-closed, reset, behind other requests.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { constants, type IncomingHttpHeaders } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { until } from '../../support/eventually.ts';
import { EventReader, testStreams } from '../../support/event-reader.ts';
import { nodeAndGateway, type TestGateway } from '../../support/gateway.ts';
import { heldBytes } from '../../support/heap.ts';
import { authority, h2Session } from '../../support/tls.ts';

const path = '/v1/transactions?start=898';
const accept = 'text/event-stream';
/** The events that the path begins with, in order. */
const whole = /^retry: \d{4}\n\n(?:id: \d+\nevent: transaction\ndata: \{.*\}\n\n)*$/;

const open = (gateway: TestGateway) => gateway.metric('ledgergate_streams{kind="transactions"}');
const left = (gateway: TestGateway) =>
  gateway.metric('ledgergate_streams_closed_total{kind="transactions",reason="client"}');

/** A stream over a plain socket, with its first event read. */
async function rawStream(gateway: TestGateway, head = `GET ${path} HTTP/1.1`) {
  const socket: Socket = connect({ port: gateway.port, host: '127.0.0.1', allowHalfOpen: true });
  let text = '';
  socket.setEncoding('latin1').on('data', (piece: string) => (text += piece));
  socket.on('error', () => undefined);
  socket.write(`${head}\r\nHost: here\r\nAccept: ${accept}\r\n\r\n`);
  await until(() => text.includes('id: 900\n'));
  return { socket, read: () => text, close: () => socket.destroy() };
}

testStreams('a stream has the same head and events over HTTP/1.1, HTTP/1.0, TLS and HTTP/2', async (t, track) => {
  const ca = authority(t);
  const plain = await nodeAndGateway(t);
  const secure = await nodeAndGateway(t, { config: { listen: { tls: ca.certify('gateway') } } });

  const origin = 'https://wallet.example';
  const [h1, h1s] = await Promise.all([
    track(EventReader.open(`${plain.gateway.url}/transactions?start=898`, { origin, 'accept-encoding': 'gzip, br' })),
    track(EventReader.open(`${secure.gateway.url}/transactions?start=898`, { origin }, { ca: ca.ca })),
  ]);
  const session = await h2Session(t, new URL(secure.gateway.url).origin, ca.ca);
  const stream = session.request({ ':path': path, accept, origin });
  const [h2] = (await once(stream, 'response')) as [IncomingHttpHeaders];
  let text = '';
  stream.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  await Promise.all([h1.shows('id: 900\n'), h1s.shows('id: 900\n'), until(() => text.includes('id: 900\n'))]);

  const events = [h1.text, h1s.text, text].map((all) => all.slice(all.indexOf('id:')));
  for (const all of [h1.text, h1s.text, text]) assert.match(all, whole);
  assert.equal(new Set(events).size, 1);
  for (const headers of [h1.headers, h1s.headers, h2]) {
    assert.equal(headers['content-type'], 'text/event-stream; charset=utf-8');
    assert.equal(headers['cache-control'], 'no-store');
    assert.equal(headers['x-accel-buffering'], 'no');
    assert.equal(headers['access-control-allow-origin'], origin);
    assert.match(String(headers['vary']), /Accept/);
    assert.equal(headers['content-encoding'], undefined);
    assert.equal(headers['content-length'], undefined);
    assert.equal(headers['x-node-ledger-version'], '900');
  }
  const old = await track(rawStream(plain.gateway, `GET ${path} HTTP/1.0`));
  assert.match(old.read(), /^HTTP\/1\.1 200 OK\r\n/);
  assert.match(old.read(), /\r\nConnection: close\r\n/);
  assert.match(old.read().slice(old.read().indexOf('\r\n\r\n') + 4), whole);

  stream.close(constants.NGHTTP2_CANCEL);
  h1s.close();
  await until(async () => (await left(secure.gateway)) === 2);
  assert.equal(await open(secure.gateway), 0);
});

testStreams('only a GET that prefers events opens a stream; others have the answer of a read', async (t, track) => {
  const { gateway } = await nodeAndGateway(t);
  // In memory, where a hit would be answered ahead of the routes.
  const json = await gateway.get('/transactions?start=898');
  for (const given of ['application/json, text/event-stream', 'text/event-stream;q=1', 'text/html']) {
    const { headers, text } = await gateway.get('/transactions?start=898', { accept: given });
    assert.match(headers['content-type'] ?? '', /^application\/json/);
    assert.equal(text, json.text);
  }
  const head = await gateway.send('HEAD', '/transactions?start=898', { headers: { accept } });
  assert.match(head.headers['content-type'] ?? '', /^application\/json/);
  const pinned = await gateway.get('/accounts/0x1/module/coin?ledger_version=5', { accept });
  assert.match(pinned.headers['content-type'] ?? '', /^application\/json/);
  const stream = await track(
    EventReader.open(`${gateway.url}/transactions?start=898`, {
      accept: 'TEXT/Event-Stream, application/json',
    }),
  );
  assert.match(stream.headers['content-type'] ?? '', /^text\/event-stream/);
  await stream.shows('id: 900\n');
});

testStreams(
  'a hit and a stream in one pipeline are answered in turn; a request behind the stream waits',
  async (t, track) => {
    const { gateway } = await nodeAndGateway(t);
    const hit = '/v1/accounts/0x1/module/coin?ledger_version=5';
    await gateway.get(hit.slice('/v1'.length));
    const first = `GET ${hit} HTTP/1.1\r\nHost: here\r\n\r\n`;
    const { socket, read } = await track(rawStream(gateway, `${first}GET ${path} HTTP/1.1`));
    assert.deepEqual(read().match(/Content-Type: [a-z/-]+/g), [
      'Content-Type: application/json',
      'Content-Type: text/event-stream',
    ]);
    socket.write(`${first}GET ${path} HTTP/1.1\r\nHost: here\r\nAccept: ${accept}\r\n\r\n`);
    await until(async () => (await open(gateway)) === 2);
    assert.equal(read().match(/HTTP\/1\.1 200/g)?.length, 2);
    socket.destroy();
    await until(async () => (await open(gateway)) === 0);
  },
);

testStreams(
  'a half-close is a hang-up, and a reset, and the end of a process; each gives its place back',
  async (t, track) => {
    const { gateway } = await nodeAndGateway(t, { config: { streams: { max: 1 } } });
    const leaves: readonly ((socket: Socket) => unknown)[] = [
      (socket) => socket.end(),
      (socket) => socket.resetAndDestroy(),
      (socket) => socket.destroy(),
    ];
    for (const [index, leave] of leaves.entries()) {
      const { socket } = await track(rawStream(gateway));
      const refused = await gateway.get('/transactions?start=898', { accept });
      assert.equal(refused.status, 503);
      assert.match(refused.text, /too many event streams are open/);
      leave(socket);
      await until(async () => (await left(gateway)) === index + 1);
      assert.equal(await open(gateway), 0);
    }
    assert.equal(await gateway.metric('ledgergate_streams_refused_total{reason="max"}'), 3);
  },
);

testStreams('streams that open and close leave nothing in memory', async (t) => {
  const { gateway } = await nodeAndGateway(t);
  const openOne = async (): Promise<Socket> => {
    const socket = connect(gateway.port, '127.0.0.1');
    socket.write(`GET ${path} HTTP/1.1\r\nHost: here\r\nAccept: ${accept}\r\n\r\n`);
    await once(socket, 'data');
    return socket;
  };
  const round = async (count: number): Promise<void> => {
    for (let opened = 0; opened < count; opened += 20) {
      const sockets = await Promise.all(Array.from({ length: 20 }, openOne));
      for (const socket of sockets) socket.destroy();
    }
    await until(async () => (await open(gateway)) === 0);
  };
  await round(400);
  const before = heldBytes();
  await round(600);
  const grown = heldBytes() - before;
  // One that stayed would have its request, response and socket: more than 5 kB.
  assert.ok(grown < 600 * 2_000, `${grown} bytes are held`);
});

testStreams(
  'a client that takes nothing is cut off at 1 MiB, with whole events up to there; others get each event',
  async (t, track) => {
    const config = { latest: { maxStalenessMs: 50 }, streams: { intervalMs: 100 } };
    const { node, gateway } = await nodeAndGateway(t, { config });
    const watched = '/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded500000';
    const good = await track(EventReader.open(gateway.url + watched));
    const slow = connect(gateway.port, '127.0.0.1');
    t.after(() => slow.destroy());
    slow.on('error', () => undefined).pause();
    slow.write(`GET /v1${watched} HTTP/1.1\r\nHost: here\r\nAccept: ${accept}\r\n\r\n`);
    const cut = () => gateway.metric('ledgergate_streams_closed_total{kind="changes",reason="slow"}');
    await until(async () => (await gateway.metric('ledgergate_streams{kind="changes"}')) === 2);
    let head = 900;
    for (; (await cut()) === 0; head += 1) {
      await good.has(head - 899);
      assert.ok(head < 960, 'the kernel takes no 30 MB');
      node.clock.advance(1n);
    }
    let text = '';
    slow
      .setEncoding('latin1')
      .on('data', (piece: string) => (text += piece))
      .resume();
    await once(slow, 'close');
    const ids = [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
    assert.deepEqual(
      ids,
      ids.map((_, index) => 900 + index),
    );
    assert.ok(ids.length < head - 900);
    assert.ok(!text.endsWith('0\r\n\r\n'), 'the answer is not whole');
  },
);
