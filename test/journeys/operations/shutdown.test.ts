import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { once } from 'node:events';
import { test } from 'node:test';
import { Agent, request as send } from 'undici';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { type LogLine, nodeAndGateway, probeAt, testGateway } from '../../support/gateway.ts';

test('closing turns readiness off, finishes what is in flight and asks its client to close', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  node.fault = { kind: 'hold', until: released };
  const arrived = node.log.next();
  const reply = fetch(gateway.url + probeAt(600));
  await arrived;

  const closed = gateway.close();
  const readiness = await fetch(`${gateway.operationsUrl}/readyz`);
  release();

  const answer = await reply;
  assert.equal(readiness.status, 503);
  assert.equal(((await readiness.json()) as { status: string }).status, 'draining');
  assert.deepEqual([answer.status, answer.headers.get('connection')], [200, 'close']);
  await closed;
  await assert.rejects(fetch(gateway.url + probeAt(600)));
});

test('a request during the drain delay is answered, and its client asked to close', async (t) => {
  const { gateway } = await nodeAndGateway(t, { drainDelayMs: 2_000 });
  const kept = new Agent({ connections: 1, pipelining: 1 });
  t.after(() => kept.close());
  await (await send(gateway.url + probeAt(600), { dispatcher: kept })).body.dump();

  const closed = gateway.close();
  const readiness = await fetch(`${gateway.operationsUrl}/readyz`);
  const onNew = await fetch(gateway.url + probeAt(600));
  const onKept = await send(gateway.url + probeAt(600), { dispatcher: kept });
  await onKept.body.dump();

  assert.equal(readiness.status, 503);
  assert.deepEqual([onNew.status, onNew.headers.get('connection')], [200, 'close']);
  assert.deepEqual([onKept.statusCode, onKept.headers['connection']], [200, 'close']);
  await closed;
  await assert.rejects(fetch(gateway.url + probeAt(600)));
});

test('a connection whose answer began before the end is closed with it', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, { full: [node], onLog: (line) => lines.push(line) });
  node.fault = { kind: 'slow body', chunkBytes: 60, everyMs: 20 };
  const kept = new Agent({ connections: 1, pipelining: 1 });
  t.after(() => kept.close());
  const answer = await send(`${gateway.url}/blocks/by_version/500?x=1`, { dispatcher: kept });
  assert.notEqual(answer.headers['connection'], 'close');

  const startedMs = performance.now();
  const closed = gateway.close();
  JSON.parse(await answer.body.text());
  await closed;

  assert.ok(performance.now() - startedMs < 5_000);
  assert.ok(!lines.some(({ msg }) => String(msg).includes('still in flight')));
});

test('a request whose end arrives after the listener was closed is answered', async (t) => {
  const { gateway } = await nodeAndGateway(t);
  const socket = connect(gateway.port, '127.0.0.1');
  socket.write(`GET /v1/accounts/0x1 HTTP/1.1\r\nHost: a\r\n`);
  await gateway.get(probeAt(600));

  const closed = gateway.close();
  await fetch(`${gateway.operationsUrl}/readyz`);
  socket.write('\r\n');
  const [answer] = (await once(socket, 'data')) as [Buffer];

  assert.match(answer.toString(), /^HTTP\/1\.1 200 /);
  assert.match(answer.toString(), /connection: close/i);
  await closed;
});

test('a first request that comes with the end of the listener is answered', async (t) => {
  const { gateway } = await nodeAndGateway(t);
  const late = connect(gateway.port, '127.0.0.1');
  t.after(() => late.destroy());
  await until(async () => (await gateway.metric('ledgergate_http_connections')) === 1);

  const closed = gateway.close();
  late.write(`GET /v1${probeAt(600)} HTTP/1.1\r\nHost: a\r\n\r\n`);
  const [answer] = (await once(late, 'data')) as [Buffer];

  assert.match(answer.toString(), /^HTTP\/1\.1 200 [^]*\r\nConnection: close\r\n/);
  await closed;
});

test('idle and silent connections do not hold up the end', async (t) => {
  const { gateway } = await nodeAndGateway(t);
  const silent = connect(gateway.port, '127.0.0.1');
  await once(silent, 'connect');
  const idle = connect(gateway.port, '127.0.0.1');
  idle.write(`GET /v1${probeAt(600)} HTTP/1.1\r\nHost: a\r\n\r\n`);
  await once(idle, 'data');
  const startedMs = performance.now();

  await gateway.close();

  assert.ok(performance.now() - startedMs < 5_000);
  assert.ok(idle.destroyed || idle.readableEnded || (await once(idle, 'close')).length >= 0);
  silent.destroy();
});
