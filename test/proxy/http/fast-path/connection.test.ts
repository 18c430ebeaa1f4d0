import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import { connect, createServer, type Socket } from 'node:net';
import { after, test, type TestContext } from 'node:test';
import { AnswerTurn, arenaBytes, FastResponse } from '../../../../src/proxy/http/fast-path/answer-queue.ts';
import { FastConnection, type FastPath } from '../../../../src/proxy/http/fast-path/fast-path.ts';
import { HeaderBlocks } from '../../../../src/proxy/http/fast-path/request-head.ts';
import { pieceBytes, UnsentAnswers } from '../../../../src/proxy/http/unsent-answers.ts';
import { ByteBudget } from '../../../../src/upstream/byte-budget.ts';
import { until } from '../../../support/eventually.ts';
import { nodeAndGateway, probe, type TestGateway, type TestGatewayOptions } from '../../../support/gateway.ts';
import { frame, headOf, rawH2 } from '../../../support/h2-frames.ts';
import { listen } from '../../../support/listen.ts';
import { answersIn, rawClient } from '../../../support/raw-http.ts';
import type { Ending } from '../../../support/temporary-folder.ts';
import { askH2, authority } from '../../../support/tls.ts';
import { h2Client } from './h2-requests.ts';

const path = `/v1${probe}?ledger_version=700`;
const known = 'ledgergate_fast_path_requests_total{kind="known"}';
const held = 'ledgergate_answers_held_bytes';

const root = authority({ after });
const { ca } = root;
const tls = root.certify('gateway');
/** For the tests of HTTP/2 that leave it as it is. */
const shared = await hitsOverTls({ after });

const unexpected = (): never => assert.fail('the connection ends');

/** A connection of the fast path and its client, without the parts that answer reads. */
async function fastConnection(t: TestContext) {
  const server = createServer();
  const client = connect(await listen(t, server), '127.0.0.1');
  const [socket] = (await once(server, 'connection')) as [Socket];
  t.after(() => client.destroy());
  const blocks = new HeaderBlocks();
  const budget = new ByteBudget({ largest: 64 * 1024 * 1024, all: 256 * 1024 * 1024 });
  const unsent = new UnsentAnswers(budget, { refused: () => undefined, ended: () => undefined });
  const ends = { handOver: unexpected, refuse: unexpected, onClose: () => undefined };
  const path = { ...ends, proxy: { unsent }, blocks, turn: new AnswerTurn() } as unknown as FastPath;
  return { connection: new FastConnection(socket, path), client, unsent, budget };
}

/** Sends short answers until the kernel's buffer is full. */
function fillWithShort({ connection }: { readonly connection: FastConnection }): void {
  while (connection.socket.writableLength === 0) {
    connection.queue.send('a'.repeat(32 * 1024), 'latin1');
    connection.queue.flush();
  }
}

/** Sends an answer in pieces; the kernel accepts all but the last. */
function sendLong({ connection, unsent }: Awaited<ReturnType<typeof fastConnection>>): void {
  const response = new FastResponse(connection.queue, false, () => undefined);
  const body = Buffer.alloc(pieceBytes + 1_000, 'a');
  unsent.hold(response, body);
  response.writeHead(200, ['Content-Length', String(body.length)]);
  response.write(body.subarray(0, pieceBytes));
  assert.equal(connection.socket.writableLength, 0);
  // Simulates a full kernel buffer: the last piece stays in the socket.
  connection.socket.cork();
  response.end(body.subarray(pieceBytes));
}

test('unsent short answers count until the kernel accepts them, not until the connection ends', async (t) => {
  const fast = await fastConnection(t);
  const { connection, client, budget } = fast;
  fillWithShort(fast);
  const heldBefore = budget.held;

  client.resume();
  await until(() => connection.isIdle && budget.held === 0);

  assert.equal(heldBefore, arenaBytes);
  fillWithShort(fast);
  assert.equal(budget.held, arenaBytes);
});

test('an answer in pieces counts until the kernel accepts its short last piece', async (t) => {
  const fast = await fastConnection(t);
  sendLong(fast);
  const heldBefore = fast.budget.held;

  fast.connection.socket.uncork();
  await until(() => fast.budget.held === 0);

  assert.ok(heldBefore > pieceBytes, `${heldBefore} bytes`);
});

const unread = { 'unsent short answers': fillWithShort, 'the pieces of an answer': sendLong };

for (const [what, send] of Object.entries(unread)) {
  test(`${what} count until their client is gone`, async (t) => {
    const fast = await fastConnection(t);
    send(fast);

    fast.client.resetAndDestroy();
    await until(() => fast.budget.held === 0);
  });
}

test('a connection is quiet from the moment its answer is read, not from the write', async (t) => {
  const { connection, client } = await fastConnection(t);
  connection.queue.send('a'.repeat(32 * 1024 * 1024), 'latin1');
  connection.queue.flush();
  assert.equal(connection.quietMs(0), 0);
  assert.equal(connection.quietMs(80_000), 0);

  client.resume();
  await until(() => connection.isIdle);

  assert.equal(connection.quietMs(82_500), 2_500);
  assert.equal(connection.quietMs(85_000), 5_000);
});

test('a connection has a timeout once an answer has been in flight from one check to the next', async (t) => {
  const { connection, client } = await fastConnection(t);
  connection.queue.send('a'.repeat(32 * 1024 * 1024), 'latin1');
  connection.queue.flush();
  const timeouts = [0, 2_500, 5_000].map((nowMs) => {
    connection.watch(90_000);
    connection.quietMs(nowMs);
    return connection.socket.timeout ?? 0;
  });

  client.resume();
  await until(() => connection.isIdle);
  connection.watch(90_000);

  assert.deepEqual([...timeouts, connection.socket.timeout], [0, 90_000, 90_000, 0]);
});

// Hits share arenas: every client must get its own answers, however slowly others read.

const connections = 40;
const rounds = 12;
const perRound = 8;
/** Body sizes below, at and above the largest that is copied behind its head. */
const sizes = [60, 400, 2_000, 9_000, 20_000];
const accounts = 12;

function targetOf(index: number): string {
  const size = sizes[index % sizes.length];
  const account = (index % accounts).toString(16).padStart(6, '0');
  return `/v1/accounts/0x5a${account}/resource/0x1::ledgergate_sample::Padded${size}?ledger_version=1000`;
}

test('concurrent clients each get their own answers, in order', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { listen: { fastPath: true } } }, { head: 5_000n });
  const all = Array.from({ length: sizes.length * accounts }, (_, index) => targetOf(index));
  const bodies = new Map<string, string>();
  for (const target of all) {
    const answer = await gateway.get(target.slice('/v1'.length));
    assert.equal(answer.status, 200);
    bodies.set(target, answer.text);
  }
  const reads = node.requests;
  const crowd = Array.from({ length: connections }, (_, client) => talk(t, gateway.port, client));
  for (const [client, received] of (await Promise.all(crowd)).entries()) {
    const asked = questionsOf(client).flat();
    const answers = answersIn(received);
    assert.equal(answers.length, asked.length);
    for (const [at, { status, body }] of answers.entries()) {
      assert.deepEqual([status, body], [200, bodies.get(asked[at] ?? '')], `client ${client}, answer ${at}`);
    }
  }
  assert.equal(node.requests, reads);
  const asked = connections * rounds * perRound;
  assert.ok((await gateway.metric('ledgergate_fast_path_requests_total{kind="known"}')) > asked / 2);
});

/** Requests of one client, round by round. */
function questionsOf(client: number): string[][] {
  return Array.from({ length: rounds }, (_, round) =>
    Array.from({ length: perRound }, (_, at) => targetOf(client * 7 + round * 3 + at * 11)),
  );
}

/** Everything one client receives. Every fourth client pauses its reading after a request. */
async function talk(t: TestContext, port: number, client: number): Promise<string> {
  const { socket, text, received } = rawClient(t, port);
  let awaited = 0;
  for (const [round, targets] of questionsOf(client).entries()) {
    const heads = targets.map((target, at) => {
      const close = round === rounds - 1 && at === targets.length - 1 ? 'Connection: close\r\n' : '';
      return `GET ${target} HTTP/1.1\r\nHost: a\r\n${close}\r\n`;
    });
    awaited += targets.length;
    socket.write(heads.join(''));
    if (client % 4 === 0) {
      socket.pause();
      setTimeout(() => socket.resume(), 5);
    }
    await until(() => text().split('HTTP/1.1 ').length > awaited && isWhole(text()));
  }
  return received;
}

function isWhole(received: string): boolean {
  const head = received.lastIndexOf('HTTP/1.1 ');
  const body = received.indexOf('\r\n\r\n', head) + 4;
  const length = Number(/^content-length: (\d+)/im.exec(received.slice(head, body))?.[1]);
  return body > 3 && received.length - body >= length;
}

// Hits over HTTP/2: windows, resets, time-outs and the count of streams.

test('a hit larger than its window comes whole, at the pace of the client', async (t) => {
  const whole = await askH2(h2Client(t, shared, ca), { path });
  const before = await shared.metric(known);
  const narrow = await askH2(h2Client(t, shared, ca, 10), { path });
  assert.deepEqual([narrow.status, narrow.body], [200, whole.body]);
  assert.ok(whole.body.length > 20);
  assert.equal(await shared.metric(known), before + 1);
});

test('a hit whose client takes nothing is reset at the time-out', async (t) => {
  const gateway = await hitsOverTls(t, { times: { inactivityMs: 300 } });
  const session = h2Client(t, gateway, ca, 0);
  const stalled = await stall(session);
  await once(stalled, 'close');
  assert.equal(stalled.rstCode, cancel);
  openWindow(session);
  assert.equal((await askH2(session, { path })).status, 200);
});

for (const code of [0, 1, 2, 7, 8, 11]) {
  test(`a client that resets a hit with code ${code} ends that stream alone`, async (t) => {
    const session = h2Client(t, shared, ca, 0);
    const stalled = await stall(session);
    stalled.close(code);
    // Another one is reset ahead of its answer.
    const early = session.request({ ':path': path });
    early.on('error', () => undefined);
    early.close(code);
    await Promise.all([stalled, early].map(closed));
    openWindow(session);
    assert.equal((await askH2(session, { path })).status, 200);
    assert.equal((await askH2(h2Client(t, shared, ca), { path })).status, 200);
  });
}

test('a client that closes its connection with hits in flight harms no other one', async (t) => {
  for (let turn = 0; turn < 5; turn += 1) {
    const session = h2Client(t, shared, ca, turn % 2 === 0 ? 0 : undefined);
    const streams = Array.from({ length: 20 }, () => session.request({ ':path': path }));
    for (const stream of streams) stream.on('error', () => undefined);
    await once(streams[0] as ClientHttp2Stream, 'response');
    session.destroy();
  }
  assert.equal((await askH2(h2Client(t, shared, ca), { path })).status, 200);
});

test('a connection has at most 100 hits in flight', async (t) => {
  const session = h2Client(t, shared, ca, 0);
  await once(session, 'remoteSettings');
  assert.equal(session.remoteSettings.maxConcurrentStreams, 100);
  const before = await shared.metric(known);
  const answers = Array.from({ length: 150 }, () => askH2(session, { path }));
  await until(async () => (await shared.metric(known)) === before + 100);
  // Unread answers are in the budget, as those of the server are.
  await until(async () => (await shared.metric(held)) > 100 * 20);
  openWindow(session);
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  assert.deepEqual(new Set(statuses), new Set([200]));
  assert.equal(await shared.metric(known), before + 150);
  await until(async () => (await shared.metric(held)) === 0);
});

test('a drain waits for the hits that clients still read, then every connection ends', async (t) => {
  const gateway = await hitsOverTls(t);
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
  const { socket: hostile, ended } = await rawH2(t, shared.port, ca);
  let made = 0;
  for (; made < 100_000 && !hostile.destroyed; made += 1) {
    const id = 2 * made + 1;
    const asked = made % 2 === 0 ? path : `/v1${probe}?ledger_version=${made % 700}`;
    const reset = frame(3, 0, id, Buffer.from([0, 0, 0, made % 12]));
    if (hostile.writable) hostile.write(Buffer.concat([frame(1, 5, id, headOf(asked)), reset]));
    if (made % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await ended;
  assert.ok(made < 100_000, `${made} requests`);
  assert.ok((await shared.metric('ledgergate_upstream_attempts_total{upstream="full-0",outcome="answered"}')) < 1_000);
  assert.equal((await askH2(h2Client(t, shared, ca), { path })).status, 200);
});

/** A gateway with TLS whose memory holds `path`. */
async function hitsOverTls(t: Ending, { times = {} }: Pick<TestGatewayOptions, 'times'> = {}): Promise<TestGateway> {
  const { gateway } = await nodeAndGateway(t, { times, config: { listen: { fastPath: true, tls } } });
  const session = h2Client(t, gateway, ca);
  await until(async () => {
    const { headers } = await askH2(session, { path });
    return new Map(headers).get('cache-status')?.includes('hit') === true;
  });
  session.close();
  await closed(session);
  return gateway;
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
