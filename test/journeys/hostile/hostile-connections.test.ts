// Clients that are slow, read nothing, or exhaust connections.
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, testGateway, type TestGateway } from '../../support/gateway.ts';
import { assertSpecified } from '../../support/hostile.ts';
import { answersIn, exchangeRaw } from '../../support/raw-http.ts';

const json = 'Content-Type: application/json\r\n';
const held = '/v1/accounts/0x1/module/coin?ledger_version=5';
const get = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`;

/** `count` pipelined requests. */
const ahead = (count: number): string =>
  Array.from({ length: count }, (_, index) => get(`/v1/accounts/0x1?ledger_version=${index}&x=1`)).join('');

/** A connection that stays open until the test or the gateway ends it. */
function openSocket(t: TestContext, { port }: TestGateway): Socket {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  t.after(() => socket.destroy());
  return socket;
}

/** Resolves when the connection ends or resets. */
function ended(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()));
}

/** Sends `bytes` one by one, repeatedly; resolves with the bytes received until the gateway ends the connection. */
async function drip(socket: Socket, bytes: string): Promise<string> {
  let received = '';
  socket.on('data', (chunk) => (received += String(chunk)));
  let sent = 0;
  const timer = setInterval(() => {
    socket.write(bytes.charAt(sent) || 'a');
    sent += 1;
  }, 10);
  await ended(socket);
  clearInterval(timer);
  return received;
}

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
    const node = await fakeNode(t, { head: 900n });
    const times = { headMs: 200, requestMs: 300, checkMs: 20 };
    const gateway = await testGateway(t, { full: [node], times });
    const socket = openSocket(t, gateway);
    socket.write(start);

    // Other digits of a size would exceed 64 bits in the end.
    const [answer] = answersIn(await drip(socket, '0'.repeat(1_000)));

    assert.equal(answer?.status, 408);
    assertSpecified(answer);
    assert.equal(node.reads, 0);
  });
}

test('a connection without a byte is closed at its deadline', async (t) => {
  const { gateway } = await nodeAndGateway(t, { times: { headMs: 100, checkMs: 20 } });

  const received = await exchangeRaw(gateway.port, '');

  assert.ok(received === '' || received.startsWith('HTTP/1.1 408 '), received);
});

test('a client that reads none of its answers loses the connection', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { times: { inactivityMs: 1_000 } });
  const target = '/v1/accounts/0x1/resource/0x1::ledgergate_sample::Padded3000000?ledger_version=';
  // A malformed answer becomes a short error, which every client reads.
  assert.equal((await gateway.get(`${target.slice(3)}600`)).text.length, 3_000_000);
  const socket = openSocket(t, gateway);
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
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  t.after(() => release());
  node.fault = { kind: 'hold', until: released };
  const polite = openSocket(t, gateway);
  let received = '';
  polite.on('data', (chunk) => (received += String(chunk)));
  polite.write(ahead(100));
  const flood = openSocket(t, gateway);
  flood.write(ahead(2_000));
  return { node, gateway, polite, received: () => received, flood, release };
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
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  node.fault = { kind: 'hold', until: released };
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
