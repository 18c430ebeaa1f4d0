// Bodies of 16 to 64 kB stay on the fast path, within the bound of all bodies.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { startServing } from '../../../../src/gateway/serving.ts';
import { until } from '../../../support/eventually.ts';
import { fakeNode } from '../../../support/fake-node.ts';
import { testConfig, testGateway } from '../../../support/gateway.ts';
import { answersIn } from '../../../support/raw-http.ts';

const body = JSON.stringify({
  function: '0x1::ledgergate_sample::version',
  type_arguments: [],
  arguments: ['a'.repeat(60_000)],
});
const head = `POST /v1/view?ledger_version=800 HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
const handovers = 'ledgergate_fast_path_handovers_total';
const held = 'ledgergate_http_body_bytes';

function open(t: TestContext, port: number): Socket {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  t.after(() => socket.destroy());
  return socket;
}

/** Resolves to what has come once it holds `count` answers. */
async function answers(socket: Socket, count: number) {
  let received = '';
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    received += chunk.toString('latin1');
    if (received.split('HTTP/1.1 ').length > count && received.endsWith('}')) break;
  }
  return answersIn(received);
}

async function write(socket: Socket, bytes: string): Promise<void> {
  await new Promise<void>((resolve) => socket.write(bytes, () => resolve()));
  await new Promise(setImmediate);
}

for (const [title, piece] of [
  ['at once', 100_000],
  ['in pieces', 7_000],
] as const) {
  test(`a body of 60 kB that comes ${title} is answered on the fast path, and counted until then`, async (t) => {
    const node = await fakeNode(t, { head: 900n });
    const gateway = await testGateway(t, { full: [node], config: { listen: { fastPath: true } } });
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    t.after(() => release());
    node.faults.add({ kind: 'hold', until: released }, { when: ({ route }) => route === 'view' });
    const socket = open(t, gateway.port);
    const bytes = head + body;
    const received = once(socket, 'data') as Promise<[Buffer]>;

    for (let at = 0; at < bytes.length; at += piece) await write(socket, bytes.slice(at, at + piece));
    await until(() => node.requestsTo('view') === 1);
    const whileAsked = await gateway.metric(held);
    release();
    const [answer] = await received;

    assert.match(answer.toString(), /^HTTP\/1\.1 200 /);
    assert.ok(whileAsked >= body.length && whileAsked <= bytes.length, String(whileAsked));
    assert.equal(await gateway.metric(held), 0);
    assert.equal(await gateway.metric(handovers), 0);
  });
}

test('a body of 60 kB whose client hangs up frees its memory', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [node], config: { listen: { fastPath: true } } });
  const socket = open(t, gateway.port);
  socket.write(head + body.slice(0, 50_000));
  await until(async () => (await gateway.metric(held)) > 0);

  socket.destroy();

  await until(async () => (await gateway.metric(held)) === 0);
});

test('a body of 60 kB that does not arrive in time is answered 408', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const times = { headMs: 200, requestMs: 200, checkMs: 20 };
  const gateway = await testGateway(t, { full: [node], times, config: { listen: { fastPath: true } } });
  const socket = open(t, gateway.port);
  socket.write(head + body.slice(0, 50_000));

  const [answer] = (await once(socket, 'data')) as [Buffer];

  assert.match(answer.toString(), /^HTTP\/1\.1 408 /);
  await until(async () => (await gateway.metric(held)) === 0);
  assert.equal(await gateway.metric(handovers), 0);
});

test('when memory for bodies is short, an arriving body is answered 503, its rest is dropped, and its connection goes on', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const config = testConfig({ full: [node], config: { listen: { fastPath: true, maxConnections: 1_000_000 } } });
  // With so many processes, the share of this one is the least: 8 MiB for all bodies.
  const serving = await startServing(config, { processes: 1_000 });
  t.after(() => serving.close());
  const sockets = Array.from({ length: 150 }, () => open(t, serving.port));
  const sent = 58_000;

  const refused = await new Promise<Socket>((resolve) => {
    for (const socket of sockets) {
      socket.once('readable', () => resolve(socket));
      socket.write(head + body.slice(0, sent));
    }
  });
  const received = answers(refused, 2);
  await write(refused, body.slice(sent, 59_000));
  // The rest of a body is no request, even if it looks like one.
  await write(refused, 'GET /v1/spec HTTP/1.1\r\nHost: a\r\n\r\n'.padEnd(body.length - 59_000, ' '));
  await write(refused, 'GET /v1/nowhere/%zz HTTP/1.1\r\nHost: a\r\n\r\n');

  const statuses = (await received).map(({ status }) => status);
  // A drain would wait for the other bodies.
  for (const socket of sockets) socket.destroy();
  assert.deepEqual(statuses, [503, 400]);
  const metrics = await serving.registry.metrics();
  assert.match(metrics, /^ledgergate_fast_path_handovers_total 0$/m);
  assert.match(metrics, /^ledgergate_http_bodies_ended_total [1-9]/m);
});
