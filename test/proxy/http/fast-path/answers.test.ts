// Under TLS, Node reports each write as done in a later turn, also one that the kernel accepted at once.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Socket, connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { createServer, type TLSSocket } from 'node:tls';
import {
  AnswerQueue,
  AnswerTurn,
  FastResponse,
  type Arena,
} from '../../../../src/proxy/http/fast-path/answer-queue.ts';
import { UnsentAnswers } from '../../../../src/proxy/http/unsent-answers.ts';
import { ByteBudget } from '../../../../src/upstream/byte-budget.ts';
import { until } from '../../../support/eventually.ts';
import { nodeAndGateway, type TestGateway } from '../../../support/gateway.ts';
import { listen } from '../../../support/listen.ts';
import { authority, tlsSocket } from '../../../support/tls.ts';

/** Answers towards one TLS client. */
async function encryptedQueue(t: TestContext) {
  const root = authority(t);
  const { cert, key } = root.certify('server');
  const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) });
  const { promise: accepted, resolve: accept } = Promise.withResolvers<TLSSocket>();
  server.on('secureConnection', (socket) => accept(socket.on('error', () => undefined)));
  const client = await tlsSocket(t, await listen(t, server), { ca: root.ca });
  const budget = new ByteBudget({ largest: 64 * 1024 * 1024, all: 256 * 1024 * 1024 });
  const unsent = new UnsentAnswers(budget, { refused: () => undefined, ended: () => undefined });
  const answers = new AnswerTurn();
  const queue = new AnswerQueue(await accepted, answers, unsent);
  const send = (text: string): void => {
    const arena = answers.withRoom(text.length);
    const from = arena.used;
    arena.used += arena.bytes.write(text, from, 'latin1');
    queue.sendFrom(arena, from);
  };
  return { queue, client, budget, send };
}

test('under TLS, an answer behind a write that is not reported yet is not counted as unread', async (t) => {
  const { queue, client, budget, send } = await encryptedQueue(t);
  let received = '';
  client.on('data', (bytes: Buffer) => void (received += bytes.toString('latin1')));
  send('first ');
  queue.flush();
  const isReported = queue.socket.writableLength === 0;

  send('second');
  const heldBehind = budget.held;
  await turn();
  await until(() => received === 'first second');

  assert.ok(!isReported);
  assert.equal(heldBehind, 0);
  assert.equal(budget.held, 0);
});

test('under TLS, unread short answers count until the client reads them', async (t) => {
  const { queue, client, budget, send } = await encryptedQueue(t);
  client.pause();
  for (let count = 0; budget.held === 0; count += 1) {
    assert.ok(count < 10_000);
    send('a'.repeat(32 * 1024));
    await turn();
  }

  assert.ok(budget.held >= 32 * 1024);
  client.resume();
  await until(() => budget.held === 0 && queue.isEmpty);
});

/** Reserves `size` bytes for an answer. */
function take(arenas: AnswerTurn, size: number): Arena {
  const arena = arenas.withRoom(size);
  arena.used += size;
  arena.waiting += 1;
  return arena;
}

test('answers of one turn lie behind one another, and the next turn begins at offset 0', () => {
  const arenas = new AnswerTurn();
  const first = take(arenas, 1_000);
  assert.equal(take(arenas, 1_000), first);
  assert.equal(first.used, 2_000);
  arenas.release(first, true);
  assert.equal(first.used, 2_000, 'one of them is still to be sent');
  arenas.release(first, true);
  assert.equal(arenas.withRoom(1_000), first);
  assert.equal(first.used, 0);
});

test('an answer without room begins another arena, and the full one is reused once it is sent', () => {
  const arenas = new AnswerTurn();
  const full = take(arenas, 60_000);
  const next = take(arenas, 60_000);
  assert.notEqual(next, full);
  arenas.release(full, true);
  assert.equal(take(arenas, 60_000), full);
});

test('bytes that the kernel has not accepted are never overwritten', () => {
  const arenas = new AnswerTurn();
  const lent = take(arenas, 1_000);
  take(arenas, 1_000);
  arenas.release(lent, false);
  assert.notEqual(arenas.withRoom(1_000), lent);
  arenas.release(lent, true);
  for (let at = 0; at < 100; at += 1) {
    const arena = take(arenas, 60_000);
    assert.notEqual(arena, lent);
    if (at % 3 > 0) arenas.release(arena, true);
  }
});

test('a head that HTTP forbids throws before anything is sent, so an error answer remains possible', () => {
  const connection = new AnswerQueue(new Socket(), new AnswerTurn(), undefined as never);
  const response = new FastResponse(connection, false, () => undefined);

  assert.throws(() => response.writeHead(200, ['X-Node-Cursor', 'a\r\nX: b']), /forbids/);

  assert.equal(connection.isEmpty, true);
  assert.equal(response.headersSent, false);
  assert.equal(response.statusCode, 200);
  response.writeHead(500, ['Content-Type', 'application/json']);
  assert.equal(response.headersSent, true);
});

/** Requests that each need a node, 64 kB or more in total. */
function* requests(): Generator<string> {
  for (let version = 0; ; version += 1_000) {
    const targets = Array.from({ length: 1_000 }, (_, at) => `0x1/module/coin?ledger_version=${version + at}`);
    yield targets.map((target) => `GET /v1/accounts/${target} HTTP/1.1\r\nHost: a\r\n\r\n`).join('');
  }
}

test('an endless pipeline is read only as fast as it is answered', async (t) => {
  const { gateway } = await nodeAndGateway(t, { config: { listen: { fastPath: true } } }, { head: 1_000_000n });
  const client = connect(gateway.port, '127.0.0.1');
  t.after(() => client.destroy());
  let answers = 0;
  client.on('data', (chunk) => (answers += chunk.toString('latin1').split('HTTP/1.1 200 ').length - 1));
  const pieces = requests();
  const send = (): void => {
    while (client.write(pieces.next().value ?? ''));
  };
  client.on('drain', send);
  /** Bytes that the kernel or the gateway accepted. */
  const taken = (): number => client.bytesWritten - client.writableLength;

  send();
  await until(() => answers >= 20);
  const before = taken();
  await until(() => answers >= 120);

  // 64 kB for each answer would be 6 MB.
  const more = taken() - before;
  assert.ok(more < 2_000_000, `${more} bytes for 100 answers`);
  assert.equal(await gateway.metric('ledgergate_fast_path_handovers_total'), 0);
});

// Variants of hits are prepared hits; that none answers for another, differential.test.ts shows.

const path = '/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded2000?ledger_version=800';
const known = 'ledgergate_fast_path_requests_total{kind="known"}';
const options = { config: { listen: { fastPath: true }, latest: { maxStalenessMs: 10_000 } } };

type Headers = Record<string, string>;

async function isPrepared(gateway: TestGateway, method: 'GET' | 'HEAD', headers: Headers): Promise<boolean> {
  // The first request may have to code the body, or to prepare the head.
  await gateway.send(method, path, { headers });
  const before = await gateway.metric(known);
  await gateway.send(method, path, { headers });
  return (await gateway.metric(known)) === before + 1;
}

test('HEAD, 304, CORS and coded bodies are prepared hits', async (t) => {
  const { gateway } = await nodeAndGateway(t, options);
  const { headers } = await gateway.get(path);
  const rows: readonly (readonly ['GET' | 'HEAD', Headers])[] = [
    ['GET', {}],
    ['HEAD', {}],
    ['GET', { 'if-none-match': headers['etag'] ?? '' }],
    ['HEAD', { 'if-none-match': '*' }],
    ['GET', { 'if-none-match': '"old"' }],
    ['GET', { origin: 'https://page.example' }],
    ['GET', { 'accept-encoding': 'gzip' }],
    ['HEAD', { 'accept-encoding': 'gzip', origin: 'https://page.example' }],
  ];
  for (const [method, given] of rows) {
    assert.ok(await isPrepared(gateway, method, given), `${method} ${JSON.stringify(given)}`);
  }
});

test('the ledger info is a prepared answer, but not for a client that demands a version', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, options);
  const first = await gateway.get('');
  const before = await gateway.metric(known);

  const second = await gateway.get('', { origin: 'https://page.example' });
  const head = await gateway.send('HEAD', '');
  const prepared = (await gateway.metric(known)) - before;
  node.clock.advance(1n);
  const newer = await gateway.get('', { 'ledgergate-min-version': '901' });
  const shared = await gateway.get('');

  assert.deepEqual([second.text, head.text, prepared], [first.text, '', 2]);
  assert.equal(second.headers['access-control-allow-origin'], 'https://page.example');
  assert.equal(head.headers['content-length'], String(first.text.length));
  assert.equal(newer.headers['ledgergate-served-version'], '901');
  // The shared version never goes backward.
  assert.equal(shared.headers['ledgergate-served-version'], '901');
  assert.match(shared.text, /"ledger_version": ?"901"/);
});
