/** Pipelines wait for their turn: none is cut off, and no answer is lost or out of order. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { TurnShares } from '../../../../src/proxy/http/server/turn-shares.ts';
import { paceInput } from '../../../../src/proxy/http/server/paced-input.ts';
import { until } from '../../../support/eventually.ts';
import { nodeAndGateway, probeAt } from '../../../support/gateway.ts';
import { listen } from '../../../support/listen.ts';
import { answersIn } from '../../../support/raw-http.ts';
import { askH1, authority } from '../../../support/tls.ts';

const count = 1_000;
const versions = 20;
const versionOf = (at: number): number => 500 + ((at * 7) % versions);
const fields = Array.from({ length: 60 }, (_, at) => `X-Field-${at}: some value of a usual length\r\n`).join('');
const requestOf = (at: number, lines = ''): string =>
  `GET /v1${probeAt(versionOf(at))} HTTP/1.1\r\nHost: a\r\n${lines}\r\n`;

type Way = 'on the fast path' | 'without the fast path' | 'handed over' | 'handed over under TLS';
const ways: readonly (readonly [Way, string])[] = [
  ['on the fast path', ''],
  ['without the fast path', ''],
  ['handed over', `TE: trailers\r\n${fields}`],
  ['handed over under TLS', `TE: trailers\r\n${fields}`],
];

for (const [way, lines] of ways) {
  test(`${way}, ${count} pipelined hits are all answered in order`, async (t) => {
    const root = way.endsWith('TLS') ? authority(t) : undefined;
    const listen = { fastPath: way !== 'without the fast path', ...(root && { tls: root.certify('served') }) };
    const { node, gateway } = await nodeAndGateway(t, { config: { listen } });
    const { origin } = new URL(gateway.url);
    for (let at = 0; at < versions; at += 1) {
      await askH1(origin, { path: `/v1${probeAt(versionOf(at))}` }, root?.ca);
    }
    const before = node.reads;
    const tcp = connect(gateway.port, '127.0.0.1');
    const socket = root === undefined ? tcp : connectTls({ socket: tcp, ca: root.ca, ALPNProtocols: ['http/1.1'] });
    const received = receive(t, socket);
    for (let at = 0; at < count; at += 1) socket.write(requestOf(at, lines));
    await until(() => received().split('HTTP/1.1 200 ').length > count);
    await until(() => received().endsWith('}'));

    const answered = answersIn(received()).map(({ body }) => body);
    assert.deepEqual(
      answered.map((body) => Number(/"ledger_version":"(\d+)"/.exec(body)?.[1])),
      Array.from({ length: count }, (_, at) => versionOf(at)),
    );
    assert.equal(node.reads, before);
    assert.equal(socket.readableEnded, false);
  });
}

test('one read begins few requests in a turn, and those of another client are not behind them', async (t) => {
  let nowMs = 0;
  let turn = 0;
  const begun = new Map<number, number>();
  const server = createServer((_request, response) => {
    begun.set(turn, (begun.get(turn) ?? 0) + 1);
    // A hit of many lines costs a part of that.
    nowMs += 1;
    response.end('x');
  });
  paceInput(server, new TurnShares(() => nowMs));
  const port = await listen(t, server);
  const counting = setInterval(() => undefined, 1);
  t.after(() => clearInterval(counting));
  let isOver = false;
  const next = (): void => {
    turn += 1;
    if (!isOver) setImmediate(next);
  };
  setImmediate(next);
  const received = receive(t, connect(port, '127.0.0.1'), (socket) => {
    socket.write(`GET / HTTP/1.1\r\nHost: a\r\n${fields}\r\n`.repeat(20));
  });
  await until(() => answersIn(received()).length === 20);
  isOver = true;
  // Two of a share, and the one that comes with the read.
  assert.ok(Math.max(...begun.values()) <= 3, JSON.stringify([...begun]));
});

for (const bytes of [100, 3_000_000]) {
  test(`answers of ${bytes} bytes that are not read pause their pipeline, which goes on when they are`, async (t) => {
    let begun = 0;
    const server = createServer((_request, response) => {
      begun += 1;
      response.end(Buffer.alloc(bytes, 'x'));
    });
    paceInput(server, new TurnShares());
    const socket = connect(await listen(t, server), '127.0.0.1');
    t.after(() => socket.destroy());
    socket.pause();
    socket.write(`GET / HTTP/1.1\r\nHost: a\r\n${fields}\r\n`.repeat(60));
    await until(() => begun >= (bytes > 1_000 ? 1 : 60));
    let received = 0;
    socket.on('data', (chunk: Buffer) => (received += chunk.length)).resume();
    await until(() => received >= 60 * bytes);
    assert.equal(begun, 60);
  });
}

/** Everything the connection has received so far. */
function receive(t: TestContext, socket: Socket, onConnect?: (socket: Socket) => void): () => string {
  t.after(() => socket.destroy());
  let received = '';
  socket.on('data', (chunk) => (received += chunk.toString('latin1')));
  socket.once('connect', () => onConnect?.(socket));
  return () => received;
}
