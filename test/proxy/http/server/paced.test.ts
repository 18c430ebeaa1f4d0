/** Pipelines wait for their turn: none is cut off, and no answer is lost or out of order. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { after, test } from 'node:test';
import { paceInput } from '../../../../src/proxy/http/server/paced-input.ts';
import { TurnShares } from '../../../../src/proxy/http/server/turn-shares.ts';
import { until } from '../../../support/eventually.ts';
import { nodeAndGateway, probeAt, patient } from '../../../support/gateway.ts';
import { frame, headOf, rawH2 } from '../../../support/h2-frames.ts';
import { listen } from '../../../support/listen.ts';
import { answersIn, rawClient } from '../../../support/raw-http.ts';
import { askH1, authority, askH2, h2Session } from '../../../support/tls.ts';

const root = authority({ after });
const { ca } = root;
/** For all tests of HTTP/2 streams, with the fast path and without it. */
const secure = [
  [true, await overTls(true)],
  [false, await overTls(false)],
] as const;

const count = 400;
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
    const isSecure = way.endsWith('TLS');
    const listen = { fastPath: way !== 'without the fast path', ...(isSecure && { tls: root.certify('served') }) };
    const { node, gateway } = await nodeAndGateway(t, { config: { listen } });
    const { origin } = new URL(gateway.url);
    for (let at = 0; at < versions; at += 1) {
      await askH1(origin, { path: `/v1${probeAt(versionOf(at))}` }, isSecure ? ca : undefined);
    }
    const before = node.reads;
    const { socket, text } = rawClient(t, gateway.port, isSecure ? ca : undefined);
    for (let at = 0; at < count; at += 1) socket.write(requestOf(at, lines));
    await until(() => text().split('HTTP/1.1 200 ').length > count && text().endsWith('}'));

    const answered = answersIn(text()).map(({ body }) => body);
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
  const { socket, text } = rawClient(t, port);
  socket.write(`GET / HTTP/1.1\r\nHost: a\r\n${fields}\r\n`.repeat(20));
  await until(() => answersIn(text()).length === 20);
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
    socket.resume();
    await until(() => socket.bytesRead >= 60 * bytes);
    assert.equal(begun, 60);
  });
}

// Streams of HTTP/2 wait for their turn: reset ones cost nothing, and no other is lost.

for (const [fastPath, { node, gateway }] of secure) {
  test(`streams that are reset as soon as they begin reach no node, fastPath: ${fastPath}`, async (t) => {
    const before = node.reads;
    const hostile = await rawH2(t, gateway.port, ca);
    hostile.socket.write(Buffer.concat([...resets(1, 20), frame(6, 0, 0, Buffer.alloc(8))]));
    // The answer to the ping; the connection goes on.
    await hostile.until((type, flags) => type === 6 && flags === 1);
    const answered = await askH2(await h2Session(t, new URL(gateway.url).origin, ca), {
      path: `/v1${probeAt(800)}`,
    });
    assert.equal(answered.status, 200);
    assert.equal(node.reads, before + 1);
    assert.equal(hostile.socket.closed, false);
  });

  test(`a read full of reset streams ends the connection, and reaches no node, fastPath: ${fastPath}`, async (t) => {
    const before = node.reads;
    const hostile = await rawH2(t, gateway.port, ca);
    // Fewer than the 200 of node:http2's own bound.
    hostile.socket.write(Buffer.concat(resets(1, 64)));
    await hostile.ended;
    assert.equal(node.reads, before);
  });

  test(`an answer ends ahead of the reset for a body that nothing reads, fastPath: ${fastPath}`, async (t) => {
    const client = await rawH2(t, gateway.port, ca);
    const requests = Array.from({ length: 60 }, (_, at) => ({ id: 2 * at + 1, kind: at % 4 }));
    // A 304 ends with its head.
    const unchanged = Buffer.concat([headOf(`/v1${probeAt(800)}`), Buffer.from('\0\x0dif-none-match\x01*')]);
    const head = [unchanged, headOf('/v1/unknown')] as const;
    client.socket.write(Buffer.concat(requests.map(({ id, kind }) => frame(1, 4, id, head[kind < 2 ? 0 : 1]))));
    await client.until((type, flags) => type === 1 && flags > 0);
    // An empty body, and one that does not end.
    client.socket.write(
      Buffer.concat(requests.map(({ id, kind }) => frame(0, kind % 2, id, Buffer.alloc(1 - (kind % 2))))),
    );
    const ends = (id: number) => client.frames().find((it) => it.id === id && (it.type === 3 || it.flags % 2 === 1));
    await until(() => requests.every(({ id }) => ends(id) !== undefined));
    assert.deepEqual(
      requests.filter(({ id }) => ends(id)?.type === 3),
      [],
    );
  });

  test(`${count} requests over one session are all answered, fastPath: ${fastPath}`, async (t) => {
    const session = await h2Session(t, new URL(gateway.url).origin, ca);
    const ask = async (at: number): Promise<void> => {
      const version = 500 + (at % 300);
      const stream = session.request({ ':path': `/v1${probeAt(version)}` });
      let body = '';
      stream.on('data', (chunk) => (body += String(chunk)));
      await once(stream, 'end');
      assert.match(body, new RegExp(`"ledger_version":"${version}"`));
    };
    await Promise.all(Array.from({ length: count }, (_, at) => ask(at)));
  });
}

/** HEADERS and RST_STREAM (CANCEL) of so many misses. */
function resets(first: number, count: number): Buffer[] {
  return Array.from({ length: count }, (_, at) => 2 * (first + at) - 1).flatMap((id) => [
    frame(1, 5, id, headOf(`/v1${probeAt(500 + id)}`)),
    frame(3, 0, id, Buffer.from([0, 0, 0, 8])),
  ]);
}

function overTls(fastPath: boolean) {
  const listen = { fastPath, tls: root.certify('gateway') };
  return nodeAndGateway({ after }, { config: { listen, upstream: { connections: 200, ...patient } } });
}
