import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { LoopLag } from '../../../../src/proxy/http/client-port.ts';
import { enterPipeline, stateOf } from '../../../../src/proxy/http/server/connection-state.ts';
import { Connections } from '../../../../src/proxy/http/server/connections.ts';
import { TurnShares, type PacedWork } from '../../../../src/proxy/http/server/turn-shares.ts';
import { until } from '../../../support/eventually.ts';
import { listen } from '../../../support/listen.ts';

/** A server with a bound and a manual clock; `/held` gets no answer. */
async function boundedServer(t: TestContext, max: number) {
  const clock = { nowMs: 0 };
  const counts = { refused: 0, displaced: 0 };
  const server = createServer((request, response: ServerResponse) => {
    enterPipeline(request.socket, response);
    if (stateOf(request.socket).isRefused) response.writeHead(503, { connection: 'close' }).end();
    else if (request.url !== '/held') response.end('ok');
  });
  const connections = new Connections(server, {
    max,
    now: () => clock.nowMs,
    onRefused: () => (counts.refused += 1),
    onDisplaced: () => (counts.displaced += 1),
  });
  const port = await listen(t, server);
  /** Both ends of a new connection. */
  const openBoth = async (): Promise<readonly [socket: Socket, accepted: Socket]> => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    const [[accepted]] = await Promise.all([once(server, 'connection') as Promise<[Socket]>, once(socket, 'connect')]);
    return [socket, accepted];
  };
  /** Resolves when the server has accepted it. */
  const open = async (): Promise<Socket> => (await openBoth())[0];
  return {
    connections,
    clock,
    counts,
    open,
    openBoth,
    async ask(socket: Socket): Promise<string> {
      socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
      return String((await once(socket, 'data'))[0]);
    },
    /** Sends a request that gets no answer. */
    async hold(socket: Socket): Promise<void> {
      socket.write('GET /held HTTP/1.1\r\nHost: a\r\n\r\n');
      await once(server, 'request');
    },
  };
}

test('at the bound the longest idle connection is displaced', async (t) => {
  const server = await boundedServer(t, 3);
  const [first, second, third] = [await server.open(), await server.open(), await server.open()];
  server.clock.nowMs = 5_000;
  await server.ask(first);
  server.connections.sample();
  server.clock.nowMs = 6_000;
  server.connections.sample();

  const gone = once(second, 'close');
  const newcomer = await server.open();
  await gone;

  assert.match(await server.ask(newcomer), /^HTTP\/1\.1 200 /);
  assert.match(await server.ask(first), /^HTTP\/1\.1 200 /);
  assert.match(await server.ask(third), /^HTTP\/1\.1 200 /);
  assert.deepEqual(server.counts, { refused: 0, displaced: 1 });
  assert.equal(server.connections.open, 3);
});

test('a connection with a request in flight is never displaced; the newcomer is refused', async (t) => {
  const server = await boundedServer(t, 2);
  const busy = [await server.open(), await server.open()];
  for (const socket of busy) await server.hold(socket);
  server.connections.sample();
  server.clock.nowMs = 60_000;
  server.connections.sample();

  const newcomer = await server.open();

  assert.match(await server.ask(newcomer), /^HTTP\/1\.1 503 /);
  assert.deepEqual(server.counts, { refused: 1, displaced: 0 });
  assert.equal(server.connections.open, 2);
  assert.ok(busy.every((socket) => !socket.destroyed));
});

test('a connection with an unread answer is not idle, whichever path wrote it', async (t) => {
  const server = await boundedServer(t, 1);
  const [socket, accepted] = await server.openBoth();
  // Bypasses the HTTP server, as the fast path does.
  accepted.write(Buffer.alloc(32 * 1024 * 1024));
  server.clock.nowMs = 60_000;

  const refused = await server.open();
  assert.match(await server.ask(refused), /^HTTP\/1\.1 503 /);
  assert.ok(!socket.destroyed);

  socket.resume();
  await until(() => accepted.writableLength === 0);
  server.clock.nowMs = 120_000;
  assert.match(await server.ask(await server.open()), /^HTTP\/1\.1 200 /);
  assert.deepEqual(server.counts, { refused: 1, displaced: 1 });
});

test('a connection with recent bytes is not idle', async (t) => {
  const server = await boundedServer(t, 1);
  const socket = await server.open();
  server.clock.nowMs = 60_000;
  await server.ask(socket);

  const refused = await server.open();
  assert.match(await server.ask(refused), /^HTTP\/1\.1 503 /);
  assert.match(await server.ask(socket), /^HTTP\/1\.1 200 /);
});

test('newcomers above the bound of pending refusals are destroyed without an answer', async (t) => {
  const server = await boundedServer(t, 1);
  await server.hold(await server.open());
  const waiting: Socket[] = [];
  for (let count = 0; count < 16; count += 1) waiting.push(await server.open());

  const dropped = await server.open();
  await once(dropped.resume(), 'close');

  assert.equal(server.counts.refused, 17);
  assert.ok(waiting.every((socket) => !socket.destroyed));
  const [first] = waiting as [Socket];
  assert.match(await server.ask(first), /^HTTP\/1\.1 503 /);
});

/** Shares whose clock moves with each piece of work; pieces are noted by their names. */
function world() {
  let nowMs = 0;
  const done: string[] = [];
  const shares = new TurnShares(() => nowMs);
  const workOf = (client: string, name: string, pieces: number, pieceMs: number): PacedWork => {
    let left = pieces;
    return {
      client,
      work(isOver) {
        do {
          done.push(name);
          nowMs += pieceMs;
          left -= 1;
        } while (left > 0 && !isOver());
        return left > 0;
      },
    };
  };
  /** The pieces since the last call. */
  const taken = (): string[] => done.splice(0);
  return { shares, workOf, taken };
}

test('work above the share of its client waits for the next turn, and work of another client does not', async () => {
  const { shares, workOf, taken } = world();
  shares.begin(workOf('hostile', 'one', 5, 1));
  shares.begin(workOf('hostile', 'two', 1, 1));
  shares.begin(workOf('quiet', 'other', 1, 1));
  // The share of two clients is 2 ms each; `two` comes behind the rest of `one`.
  assert.deepEqual(taken(), ['one', 'other']);
  await nextTurn();
  assert.deepEqual(taken(), ['one', 'two']);
  await nextTurn();
  assert.deepEqual(taken(), ['one', 'one']);
});

test('connections of one client take turns within its share, and none is lost', async () => {
  const { shares, workOf, taken } = world();
  for (const name of ['a', 'b', 'c']) shares.begin(workOf('hostile', name, 4, 0.25));
  const all: string[][] = [taken()];
  for (let turn = 0; turn < 3; turn += 1) {
    await nextTurn();
    all.push(taken());
  }
  // Half a millisecond each.
  assert.deepEqual(
    all.map((turn) => turn.join('')),
    ['aa', 'aabbccbb', 'cc', ''],
  );
});

test('many clients share a turn', async () => {
  const { shares, workOf, taken } = world();
  for (let client = 0; client < 16; client += 1) shares.begin(workOf(`client ${client}`, 'x', 10, 0.5));
  taken();
  await nextTurn();
  // 8 ms for all.
  assert.equal(taken().length, 16);
});

test('work that is charged without a measurement uses the share up', () => {
  const { shares, workOf, taken } = world();
  const charges = Array.from({ length: 4 }, () => shares.charge('hostile', 0.75));
  assert.deepEqual(charges, [true, true, false, false]);
  shares.begin(workOf('hostile', 'late', 1, 1));
  assert.deepEqual(taken(), []);
});

/** Takes samples at these intervals, in milliseconds. */
function lagAfter(gapsMs: readonly number[]): LoopLag {
  let nowMs = 1_000;
  const lag = new LoopLag(() => nowMs);
  for (const gapMs of gapsMs) {
    nowMs += gapMs;
    lag.sample();
  }
  return lag;
}

const repeated = (gapMs: number, times: number): readonly number[] => Array.from({ length: times }, () => gapMs);

const rows: readonly (readonly [string, readonly number[], boolean])[] = [
  ['a loop that is in time', repeated(50, 100), false],
  ['a loop that is a little late all the time', repeated(140, 100), false],
  ['a stall of ten seconds', [50, 10_000, 50], false],
  ['a stall of ten seconds, just over', [50, 10_000], false],
  ['three stalls one after the other', [...repeated(50, 10), ...repeated(1_000, 3)], false],
  ['half a second of stalls, with a turn in time between them', [...repeated(200, 3), 60, ...repeated(200, 3)], false],
  ['less than half a second of stalls', [50, ...repeated(150, 3)], false],
  ['half a second in which every turn is late', [50, ...repeated(150, 4)], true],
  ['many late turns', repeated(300, 20), true],
  ['many late turns, and one in time', [...repeated(300, 20), 50], false],
];

for (const [what, gapsMs, isOverloaded] of rows) {
  test(`${what} is ${isOverloaded ? '' : 'not '}overload`, () => {
    assert.equal(lagAfter(gapsMs).isOverloaded, isOverloaded);
  });
}

test('the lag is the delay of the newest sample', () => {
  assert.equal(lagAfter([50, 80]).lagMs, 30);
  assert.equal(lagAfter([49]).lagMs, 0);
});
