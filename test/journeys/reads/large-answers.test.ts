/** Large answers: the gateway writes them in a moment, and clients read them for long afterwards. */
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { nodeAndGateway, type TestGateway } from '../../support/gateway.ts';
import { answersIn } from '../../support/raw-http.ts';

/** More than the kernel takes at once. */
const bytes = 8_000_000;
const large = `/v1/accounts/0x1/resource/0x1::ledgergate_sample::Padded${bytes}?ledger_version=600`;
const get = (target: string, header = ''): string => `GET ${target} HTTP/1.1\r\nHost: a\r\n${header}\r\n`;

const ofModule = ({ url }: { readonly url: string }): boolean => url.includes('/module/');

/** A client that reads nothing until `resume`, and all that it received when its connection is over. */
function openClient(t: TestContext, { port }: TestGateway): { socket: Socket; received: Promise<string> } {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  t.after(() => socket.destroy());
  const chunks: Buffer[] = [];
  socket.on('data', (chunk) => chunks.push(chunk));
  socket.on('error', () => undefined);
  socket.on('end', () => socket.end());
  socket.pause();
  const received = new Promise<string>((resolve) => {
    socket.once('close', () => resolve(Buffer.concat(chunks).toString('latin1')));
  });
  return { socket, received };
}

/** Resolves when an answer is on its way, most of which the client has not taken. */
function begun(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('readable', () => resolve()));
}

test('a client that reads steadily receives all answers, however long that takes', async (t) => {
  const { gateway } = await nodeAndGateway(t, { times: { inactivityMs: 800, checkMs: 20 } });
  const { socket, received } = openClient(t, gateway);
  // At most 64 kB at a time, so that it takes three times as long as the bound.
  socket.on('data', () => {
    socket.pause();
    setTimeout(() => socket.resume(), 10);
  });

  socket.write(get(large) + get(large, 'Connection: close\r\n'));
  socket.resume();
  const answers = answersIn(await received);

  assert.deepEqual(
    answers.map(({ body }) => body.length),
    [bytes, bytes],
  );
});

test('a request behind Connection: close is not executed, however long the answer ahead of it takes', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const { socket, received } = openClient(t, gateway);
  socket.write(get(large, 'Connection: close\r\n'));
  await begun(socket);

  const submission = 'POST /v1/transactions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2';
  await new Promise((resolve) => socket.write(`${submission}\r\n\r\n{}`, resolve));
  socket.resume();
  const answers = answersIn(await received);
  // The submission would have reached the node before this read.
  await gateway.get('/accounts/0x1/module/coin?ledger_version=601');

  assert.deepEqual(
    answers.map(({ body }) => body.length),
    [bytes],
  );
  assert.deepEqual(
    node.log.received.filter(({ method }) => method === 'POST'),
    [],
  );
});

test('a client that half-closes while a node works loses no earlier answer', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  t.after(() => release());
  node.faults.add({ kind: 'hold', until: released }, { when: ofModule });
  const asked = node.log.next(ofModule);
  const { socket, received } = openClient(t, gateway);

  socket.write(get(large) + get('/v1/accounts/0x1/module/coin?ledger_version=602'));
  await Promise.all([begun(socket), asked]);
  await new Promise<void>((resolve) => socket.end(resolve));
  // An answer to this one proves that the gateway read the one before.
  await gateway.metric('ledgergate_http_connections');
  release();
  socket.resume();

  const [answer] = answersIn(await received);
  assert.equal(answer?.body.length, bytes);
});
