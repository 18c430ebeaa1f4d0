import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import { Registry } from 'prom-client';
import type { Access, AdmittedRequest } from '../../../src/access/index.ts';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { familiesOf } from '../../../src/metrics/index.ts';
import { type EventStream, EventStreams, mostUnread } from '../../../src/proxy/http/event-streams.ts';
import { until } from '../../support/eventually.ts';
import { listen } from '../../support/listen.ts';

/** An access that admits while `rights.granted`, and its client. */
function openRights(openStream: () => ReturnType<AdmittedRequest['openStream']> = () => undefined) {
  const rights = { granted: true, bytes: 0 };
  const admitted = { openStream, addBytes: (bytes: number) => (rights.bytes += bytes) };
  const access = { stillAdmits: () => rights.granted };
  return { rights, admitted: admitted as unknown as AdmittedRequest, access: access as unknown as Access };
}

/** A server whose answers are streams. Timers are mocked: `pass` moves them. */
async function streamServer(t: TestContext, { max = 10, rights = openRights(), processes = 1 } = {}) {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const registry = new Registry();
  const settings = { max };
  const { access, admitted } = rights;
  const streams = new EventStreams(settings, access, registry, processes);
  t.after(() => streams.close());
  const opened: EventStream[] = [];
  const server = createServer({ keepAlive: true }, (request, response) => {
    const permit = streams.take(admitted);
    assert.ok(!(permit instanceof Promise));
    response.writeHead(200);
    opened.push(streams.begin('changes', { request, response, admitted }, permit));
  });
  const port = await listen(t, server);
  const read = async (): Promise<IncomingMessage> => {
    const request = get({ port, host: '127.0.0.1', agent: false });
    t.after(() => request.destroy());
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    return response.setEncoding('utf8');
  };
  const closed = async (reason: string): Promise<number> => {
    const family = (await familiesOf(registry)).find(({ name }) => name === 'ledgergate_streams_closed_total');
    const found = family?.values.find(({ labels }) => labels['reason'] === reason && labels['kind'] === 'changes');
    return found?.value ?? 0;
  };
  const pass = (seconds: number): void => {
    for (let tick = 0; tick < seconds * 10; tick += 1) t.mock.timers.tick(100);
  };
  return { streams, settings, opened, port, read, closed, pass, rights: rights.rights };
}

const isRefusal = (error: unknown): boolean => error instanceof GatewayError && error.reason === 'streams';
const frame = Buffer.from('event: change\ndata: {}\n\n');

test('A stream begins with the time of a retry, and passes frames on', async (t) => {
  const { read, opened, streams } = await streamServer(t);
  const answer = await read();
  const [first] = (await once(answer, 'data')) as [string];
  const [, ms] = /^retry: (\d+)\n\n$/.exec(first) ?? [];
  assert.ok(Number(ms) >= 1_000 && Number(ms) <= 3_000, first);
  assert.equal(streams.open, 1);
  assert.equal(opened[0]?.send(frame, 1), true);
  assert.deepEqual(await once(answer, 'data'), [frame.toString()]);
  opened[0]?.end('failed');
  await once(answer, 'end');
  assert.equal(streams.open, 0);
  assert.equal(opened[0]?.send(frame, 1), false);
});

test('A quiet stream gets a comment within 13 to 15 s, one with events none', async (t) => {
  const { read, opened, pass } = await streamServer(t);
  const answer = await read();
  let text = '';
  answer.on('data', (piece: string) => (text += piece));
  pass(12);
  opened[0]?.send(frame, 1);
  pass(13);
  opened[0]?.send(frame, 1);
  await until(() => text.split(frame.toString()).length === 3);
  assert.doesNotMatch(text, /^:/m);
  pass(15);
  await until(() => text.endsWith('\n\n:\n\n'));
});

/** A client that takes nothing of its stream. */
async function pausedReader(t: TestContext, port: number, opened: readonly EventStream[]) {
  const [socket, before] = [connect(port, '127.0.0.1'), opened.length];
  t.after(() => socket.destroy());
  socket.on('error', () => undefined).pause();
  socket.write('GET / HTTP/1.1\r\nhost: here\r\n\r\n');
  await until(() => opened.length > before);
  return { socket, stream: opened[before] as EventStream };
}

test('A reader that takes nothing is cut off beyond 1 MiB, without a hole', async (t) => {
  const { port, opened, closed, streams } = await streamServer(t);
  const { stream } = await pausedReader(t, port, opened);
  const piece = Buffer.alloc(64 * 1024, 'x');
  let ended = 0;
  stream.onEnd = () => (ended += 1);
  let most = 0;
  // The kernel takes some megabytes first.
  for (let sent = 0; sent < 1_000 && stream.send(piece, 1); sent += 1) {
    most = Math.max(most, stream.unread);
    await new Promise(setImmediate);
  }
  assert.ok(most > mostUnread - 2 * piece.length && most <= mostUnread, String(most));
  assert.equal(await closed('slow'), 1);
  assert.deepEqual([stream.isOpen, ended, streams.open], [false, 1, 0]);
});

test('An event above 1 MiB reaches a reader that has taken all before it, and ends one that has not', async (t) => {
  const { port, opened, closed } = await streamServer(t);
  const { socket, stream } = await pausedReader(t, port, opened);
  await until(() => stream.unread === 0);
  const large = Buffer.alloc(16 * 1024 * 1024, 'x');
  assert.equal(stream.send(large, 1), true);
  assert.ok(stream.unread > mostUnread);
  socket.resume();
  await until(() => stream.unread === 0);
  socket.pause();
  assert.equal(stream.send(large, 1), true);
  assert.equal(stream.send(frame, 1), false);
  assert.equal(await closed('slow'), 1);
});

test('Above 128 MiB of unread bytes in all, streams whose clients take nothing end, and no others', async (t) => {
  for (const [processes, ended] of [
    [1, 0],
    [1_024, 2],
  ] as const) {
    const { port, read, opened, closed, pass } = await streamServer(t, { processes });
    const answer = await read();
    for (let count = 0; count < 2; count += 1) await pausedReader(t, port, opened);
    await until(() => opened.every(({ unread }) => unread === 0));
    const large = Buffer.alloc(16 * 1024 * 1024, 'x');
    for (const stream of opened) stream.send(large, 1);
    pass(1);
    assert.equal(await closed('slow'), 0);
    answer.once('data', () => undefined);
    const before = opened[0]?.unread ?? 0;
    await until(() => (opened[0]?.unread ?? 0) < before);
    pass(1);
    assert.deepEqual([await closed('slow'), opened[0]?.isOpen], [ended, true]);
    t.mock.timers.reset();
  }
});

test('A source that learns of the end late learns of it all the same', async (t) => {
  const { read, opened } = await streamServer(t);
  await read();
  opened[0]?.end('failed');
  await new Promise<void>((resolve) => {
    (opened[0] as EventStream).onEnd = resolve;
  });
});

test('A drain ends a stream behind its next event, an idle one within 5 s, and one that comes later, each with a retry', async (t) => {
  const { read, opened, streams, pass, closed } = await streamServer(t);
  const texts = ['', '', ''];
  const follow = async (index: number): Promise<unknown> => {
    const answer = await read();
    answer.on('data', (piece: string) => (texts[index] += piece));
    return once(answer, 'end');
  };
  const first = follow(0);
  await until(() => opened.length === 1);
  const second = follow(1);
  await until(() => opened.length === 2);
  streams.drain();
  assert.equal(opened[0]?.send(frame, 1), false);
  const third = follow(2);
  await until(() => opened.length === 3);
  pass(6);
  await Promise.all([first, second, third]);
  assert.match(texts[0] as string, /^retry: \d+\n\nevent: change\ndata: \{\}\n\nretry: (\d{4}|10000)\n\n$/);
  assert.match(texts[1] as string, /^retry: \d+\n\nretry: (\d{4}|10000)\n\n$/);
  assert.match(texts[2] as string, /^retry: \d+\n\nretry: (\d{4}|10000)\n\n$/);
  assert.equal(await closed('drain'), 3);
});

test('Streams above the bound are refused, and ended ones make room', async (t) => {
  const { read, settings, streams, opened } = await streamServer(t, { max: 1 });
  await read();
  assert.throws(() => streams.take(undefined), isRefusal);
  opened[0]?.end('failed');
  await read();
  assert.throws(() => streams.take(undefined), isRefusal);
  settings.max = 2;
  await read();
});

test('A plan refuses a stream, and gets its place back at the end', async (t) => {
  let places = 1;
  const refusal = new GatewayError('rateLimited', 'over the limits of the plan; try again');
  const rights = openRights(() => (places === 0 ? refusal : ((places -= 1), () => (places += 1))));
  const { read, streams, opened } = await streamServer(t, { rights });
  await read();
  assert.throws(() => streams.take(rights.admitted), refusal);
  opened[0]?.end('failed');
  await read();
  assert.equal(places, 0);
});

test('A stream ends when its right does, and its bytes count for its client', async (t) => {
  const { read, opened, pass, rights, closed } = await streamServer(t);
  const answer = await read();
  answer.resume();
  opened[0]?.send(frame, 1);
  pass(1);
  const head = rights.bytes - frame.length;
  assert.ok(head >= 'retry: 1000\n\n'.length && head <= 'retry: 3000\n\n'.length, String(rights.bytes));
  rights.granted = false;
  pass(1);
  await once(answer, 'end');
  assert.equal(await closed('revoked'), 1);
});
