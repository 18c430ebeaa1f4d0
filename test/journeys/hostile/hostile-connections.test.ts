// Clients that are slow, read nothing, or exhaust connections.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, test, type TestContext } from 'node:test';
import { EventReader, testStreams } from '../../support/event-reader.ts';
import { until } from '../../support/eventually.ts';
import { nodeAndGateway, type TestGateway } from '../../support/gateway.ts';
import { heldBytes } from '../../support/heap.ts';
import { assertSpecified } from '../../support/hostile.ts';
import { answersIn, exchangeRaw, rawClient } from '../../support/raw-http.ts';
import { authority, h2Session } from '../../support/tls.ts';

const json = 'Content-Type: application/json\r\n';
const held = '/v1/accounts/0x1/module/coin?ledger_version=5';
const get = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`;

/** `count` pipelined requests. */
const ahead = (count: number): string =>
  Array.from({ length: count }, (_, index) => get(`/v1/accounts/0x1?ledger_version=${index}&x=1`)).join('');

/** The deadlines of its clients come soon; for the tests that wait for one. */
const hasty = await nodeAndGateway({ after }, { times: { headMs: 200, requestMs: 300, checkMs: 20 } });

const slow: readonly (readonly [title: string, bytes: string])[] = [
  ['a target', 'GET /v1/'],
  ['a head', `GET ${held} HTTP/1.1\r\nHost: a\r\nX-A: `],
  ['a body', `POST /v1/view HTTP/1.1\r\nHost: a\r\n${json}Content-Length: 100000\r\n\r\n`],
  ['the size of a chunk', `POST /v1/view HTTP/1.1\r\nHost: a\r\n${json}Transfer-Encoding: chunked\r\n\r\n`],
  ['a chunk', `POST /v1/transactions HTTP/1.1\r\nHost: a\r\n${json}Transfer-Encoding: chunked\r\n\r\nfffff\r\n`],
  [
    'a chunk of 2^64 bytes',
    `POST /v1/x HTTP/1.1\r\nHost: a\r\n${json}Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n`,
  ],
];

for (const [title, start] of slow) {
  test(`${title} sent byte by byte gets 408 at its deadline, and reaches no node`, async (t) => {
    const { socket, received } = rawClient(t, hasty.gateway.port);
    socket.write(start);
    // Other digits of a size would exceed 64 bits in the end.
    const dripping = setInterval(() => socket.write('0'), 10);
    const [answer] = answersIn(await received);
    clearInterval(dripping);

    assert.equal(answer?.status, 408);
    assertSpecified(answer);
    assert.equal(hasty.node.reads, 0);
  });
}

test('a connection without a byte is closed at its deadline', async () => {
  const received = await exchangeRaw(hasty.gateway.port, '');

  assert.ok(received === '' || received.startsWith('HTTP/1.1 408 '), received);
});

test('a client that reads none of its answers loses the connection', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { times: { inactivityMs: 1_000 } });
  const target = '/v1/accounts/0x1/resource/0x1::ledgergate_sample::Padded3000000?ledger_version=';
  // A malformed answer becomes a short error, which every client reads.
  assert.equal((await gateway.get(`${target.slice(3)}600`)).text.length, 3_000_000);
  const { socket } = rawClient(t, gateway.port);
  socket.pause();
  const connections = () => gateway.metric('ledgergate_http_connections');
  const asked = node.log.next(({ url }) => url.includes('Padded'));
  // The kernel takes 4 MB of them, and 16 MB where it is tuned.
  socket.write(get(`${target}601`).repeat(8));
  // The connection exists from here on; the count of connections may be read after its end.
  await asked;

  await until(async () => (await connections()) === 0);
});

/** A gateway whose node holds every answer, a client with 100 requests ahead, and one with 2,000. */
async function twoPipelines(t: TestContext, fastPath: boolean) {
  const config = { upstream: { connections: 1_000 }, listen: { fastPath } };
  const { node, gateway } = await nodeAndGateway(t, { config }, { head: 9_000n });
  const release = node.hold();
  t.after(() => release());
  const polite = rawClient(t, gateway.port);
  polite.socket.write(ahead(100));
  const { socket: flood } = rawClient(t, gateway.port);
  flood.write(ahead(2_000));
  return { node, gateway, received: polite.text, flood, release };
}

for (const [fastPath, most] of [
  [false, 64],
  [true, 2],
] as const) {
  test(`${most / 2} requests of a pipeline at a time reach a node, and all are answered, fastPath: ${fastPath}`, async (t) => {
    const { node, gateway, received, flood, release } = await twoPipelines(t, fastPath);

    await until(() => node.reads === most);
    // The gateway has read the bytes ahead by the end of these.
    for (let count = 0; count < 3; count += 1) await gateway.get('/a//b');
    assert.equal(node.reads, most);

    flood.destroy();
    release();
    await until(() => answersIn(received()).length === 100);

    assert.deepEqual(new Set(answersIn(received()).map(({ status }) => status)), new Set([200]));
  });
}

test('endless pipelines of hits do not delay other clients', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  await gateway.get(held.slice(3));
  const over = new AbortController();
  let pipelined = 0;
  const flood = async (): Promise<void> => {
    const last = get(held).replace('Host: a', 'Host: a\r\nConnection: close');
    while (!over.signal.aborted) {
      const received = await exchangeRaw(gateway.port, get(held).repeat(100) + last);
      pipelined += answersIn(received).length;
    }
  };
  const floods = [flood(), flood(), flood(), flood()];

  const statuses: number[] = [];
  for (let count = 0; count < 20; count += 1) statuses.push((await gateway.get(held.slice(3))).status);
  over.abort();
  await Promise.all(floods);

  assert.deepEqual(new Set(statuses), new Set([200]));
  assert.ok(pipelined >= 128, `${pipelined} answers to those who pipeline`);
  assert.equal(node.reads, 1);
});

test('a connection above the bound gets 503 and is counted, and the others are served', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { listen: { maxConnections: 4 } } });
  const release = node.hold();
  const busy = [1, 2, 3, 4].map((index) => gateway.get(`/accounts/0x1?ledger_version=${index}`));
  await until(() => node.reads === 4);

  const [refused] = answersIn(await exchangeRaw(gateway.port, get(held)));
  release();

  assert.equal(refused?.status, 503);
  assertSpecified(refused);
  assert.match(refused.head, /^Retry-After: 1\r$/im);
  assert.match(refused.head, /^Connection: close\r$/im);
  for (const reply of await Promise.all(busy)) assert.equal(reply.status, 200);
  assert.equal(await gateway.metric('ledgergate_http_connections_refused_total'), 1);
  assert.equal((await gateway.get(held.slice(3))).status, 200);
});

// Event streams over every transport, and clients that leave them in every way: half-closed, reset, behind other requests.

const path = '/v1/transactions?start=898';
const accept = 'text/event-stream';
/** The events that the path begins with, in order. */
const whole = /^retry: \d{4}\n\n(?:id: \d+\nevent: transaction\ndata: \{.*\}\n\n)*$/;

const open = (gateway: TestGateway) => gateway.metric('ledgergate_streams{kind="transactions"}');
const left = (gateway: TestGateway) =>
  gateway.metric('ledgergate_streams_closed_total{kind="transactions",reason="client"}');

/** A stream over a plain socket, with its first event read. */
async function rawStream(t: TestContext, gateway: TestGateway, head = `GET ${path} HTTP/1.1`) {
  const { socket, text } = rawClient(t, gateway.port);
  socket.write(`${head}\r\nHost: here\r\nAccept: ${accept}\r\n\r\n`);
  await until(() => text().includes('id: 900\n'));
  return { socket, read: text, close: () => socket.destroy() };
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
  const h2 = await track(EventReader.over(session, path, { origin }));
  const readers = [h1, h1s, h2];
  await Promise.all(readers.map((reader) => reader.shows('id: 900\n')));

  assert.equal(new Set(readers.map(({ text }) => text.slice(text.indexOf('id:')))).size, 1);
  for (const { headers, text } of readers) {
    assert.match(text, whole);
    assert.equal(headers['content-type'], 'text/event-stream; charset=utf-8');
    assert.equal(headers['cache-control'], 'no-store');
    assert.equal(headers['x-accel-buffering'], 'no');
    assert.equal(headers['access-control-allow-origin'], origin);
    assert.match(String(headers['vary']), /Accept/);
    assert.equal(headers['content-encoding'], undefined);
    assert.equal(headers['content-length'], undefined);
    assert.equal(headers['x-node-ledger-version'], '900');
  }
  const old = await track(rawStream(t, plain.gateway, `GET ${path} HTTP/1.0`));
  assert.match(old.read(), /^HTTP\/1\.1 200 OK\r\n/);
  assert.match(old.read(), /\r\nConnection: close\r\n/);
  assert.match(old.read().slice(old.read().indexOf('\r\n\r\n') + 4), whole);

  h2.close();
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
    const { socket, read } = await track(rawStream(t, gateway, `${first}GET ${path} HTTP/1.1`));
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
      const { socket } = await track(rawStream(t, gateway));
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
    const { socket: slow, received } = rawClient(t, gateway.port);
    slow.pause();
    slow.write(`GET /v1${watched} HTTP/1.1\r\nHost: here\r\nAccept: ${accept}\r\n\r\n`);
    const cut = () => gateway.metric('ledgergate_streams_closed_total{kind="changes",reason="slow"}');
    await until(async () => (await gateway.metric('ledgergate_streams{kind="changes"}')) === 2);
    let head = 900;
    for (; (await cut()) === 0; head += 1) {
      await good.has(head - 899);
      assert.ok(head < 960, 'the kernel takes no 30 MB');
      node.clock.advance(1n);
    }
    slow.resume();
    const text = await received;
    const ids = [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
    assert.deepEqual(
      ids,
      ids.map((_, index) => 900 + index),
    );
    assert.ok(ids.length < head - 900);
    assert.ok(!text.endsWith('0\r\n\r\n'), 'the answer is not whole');
  },
);
