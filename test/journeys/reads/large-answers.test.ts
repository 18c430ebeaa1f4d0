/** Large answers: the gateway writes them in a moment, and clients read them for long afterwards, or not at all. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { test, type TestContext } from 'node:test';
import { startGateway } from '../../../src/gateway/gateway.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import {
  fetchReply,
  nodeAndGateway,
  patient,
  probeAt,
  testConfig,
  type TestGateway,
  testGateway,
} from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { listen } from '../../support/listen.ts';
import { answersIn, rawClient, type RawClient } from '../../support/raw-http.ts';
import { metric } from '../../support/workers.ts';

/** More than the kernel takes at once. */
const bytes = 8_000_000;
const large = `/v1/accounts/0x1/resource/0x1::ledgergate_sample::Padded${bytes}?ledger_version=600`;
const requestOf = (target: string, header = ''): string => `GET ${target} HTTP/1.1\r\nHost: a\r\n${header}\r\n`;

const ofModule = ({ url }: { readonly url: string }): boolean => url.includes('/module/');

/** A client that reads nothing until `resume`, and all that it received when its connection is over. */
function openClient(t: TestContext, { port }: TestGateway): RawClient {
  const client = rawClient(t, port);
  client.socket.pause();
  return client;
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

  socket.write(requestOf(large) + requestOf(large, 'Connection: close\r\n'));
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
  socket.write(requestOf(large, 'Connection: close\r\n'));
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
  const release = node.hold({ when: ofModule });
  t.after(() => release());
  const asked = node.log.next(ofModule);
  const { socket, received } = openClient(t, gateway);

  socket.write(requestOf(large) + requestOf('/v1/accounts/0x1/module/coin?ledger_version=602'));
  await Promise.all([begun(socket), asked]);
  await new Promise<void>((resolve) => socket.end(resolve));
  // An answer to this one proves that the gateway read the one before.
  await gateway.metric('ledgergate_http_connections');
  release();
  socket.resume();

  const [answer] = answersIn(await received);
  assert.equal(answer?.body.length, bytes);
});

// Clients that ask for large answers and do not read them.

/** A node with head 900, whose other answers than its ledger info are those of `answer`. */
async function nodeOf(
  t: TestContext,
  answer: (url: string, response: ServerResponse) => void,
): Promise<{ url: string }> {
  const server = createServer(({ url = '' }, response) => {
    if (!/^\/v1\/?$/.test(url)) return answer(url, response);
    response.writeHead(200, { ...ledgerHeaders({ version: 900n }), 'content-type': 'application/json' }).end('{}');
  });
  return { url: `http://127.0.0.1:${await listen(t, server)}/v1` };
}

function begin(response: ServerResponse, length?: number): ServerResponse {
  const announced = length === undefined ? {} : { 'content-length': length };
  return response.writeHead(200, {
    ...ledgerHeaders({ version: 900n }),
    'content-type': 'application/json',
    ...announced,
  });
}

function pour(response: ServerResponse): void {
  const block = Buffer.alloc(256 * 1024, ' ');
  const more = (): void => {
    while (!response.destroyed && response.write(block));
  };
  response.on('drain', more);
  more();
}

/** The answer of a client at another address: its turn comes before clients with many waiting requests. */
async function statusFor(localAddress: string, url: string): Promise<number | undefined> {
  const [response] = (await once(get(url, { localAddress }), 'response')) as [IncomingMessage];
  response.resume();
  return response.statusCode;
}

test('clients that do not read lose their answers; reads go on meanwhile, and others are served after', async (t) => {
  let blocks = 0;
  const node = await nodeOf(t, (url, response) => {
    if (!url.startsWith('/v1/blocks/by_height/1')) return void begin(response).end('{"bytecode":"0x"}');
    blocks += 1;
    pour(begin(response));
  });
  const config = testConfig({ full: [node], config: { upstream: { connections: 4, timeoutMs: 4_000 } } });
  const gateway = await startGateway(config, { stallMs: 500 });
  t.after(() => gateway.close());
  const slow = Array.from({ length: 6 }, () => {
    const socket = connect(gateway.port, '127.0.0.1');
    socket.write('GET /v1/blocks/by_height/1?x=1 HTTP/1.1\r\nHost: a\r\n\r\n');
    socket.on('error', () => undefined);
    return { socket, closed: once(socket, 'close') };
  });
  await until(() => blocks >= 3);

  const read = await fetchReply(`${gateway.url}/accounts/0x1/module/coin?ledger_version=800`, { method: 'GET' });
  const blocksThen = blocks;
  const passed = await statusFor('127.0.0.2', `${gateway.url}/blocks/by_height/2?x=1`);

  assert.deepEqual([read.status, blocksThen, passed], [200, 3, 200]);
  assert.equal(gateway.fleet()[0]?.state, 'usable');
  // A client that reads again before the bound is served on.
  const metrics = () => fetchReply(`${gateway.operationsUrl}/metrics`, { method: 'GET' });
  await until(async () => /^ledgergate_upstream_in_flight_requests\{.*\} 0$/m.test((await metrics()).text));
  for (const { socket, closed } of slow) {
    socket.resume();
    await closed;
  }
});

test('large unread answers stay within their bound and make room', async (t) => {
  const body = Buffer.from(JSON.stringify({ type: '0x1::a::B', data: 'a'.repeat(40_000_000) }));
  const node = await nodeOf(t, (url, response) => {
    const sent = url.includes('/resource/') ? body : Buffer.from('{"bytecode":"0x"}');
    begin(response, sent.length).end(sent);
  });
  const gateway = await startGateway(testConfig({ full: [node] }));
  t.after(() => gateway.close());
  const count = async (name: string): Promise<number> => (await metric(gateway, name)) ?? Number.NaN;
  const ask = async (version: number): Promise<string> => {
    const socket = connect(gateway.port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.on('error', () => undefined);
    socket.write(`GET /v1/accounts/0x1/resource/0x1::a::B?ledger_version=${version} HTTP/1.1\r\nHost: a\r\n\r\n`);
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    socket.pause();
    return chunk.toString('latin1', 9, 12);
  };

  let mostHeld = 0;
  for (let version = 100; version < 108; version += 1) {
    await ask(version);
    mostHeld = Math.max(mostHeld, await count('ledgergate_answers_held_bytes'));
  }
  const hit = await fetchReply(`${gateway.url}/accounts/0x1/module/coin?ledger_version=800`, { method: 'GET' });
  // Clients that have stood still for a second make room for one that has not.
  await until(async () => (await ask(200)) === '200');

  assert.ok(mostHeld > 200_000_000 && mostHeld <= 256 * 1024 * 1024, `${mostHeld} bytes`);
  assert.equal(hit.status, 200);
  assert.ok((await count('ledgergate_http_slow_connections_ended_total')) >= 1);
});

// Lists that are larger than any answer that is read whole: they are streamed, as if they had no cache.

/** Above the bound of 64 MiB. */
const size = 70_000_000;
const chunk = Buffer.alloc(1_000_000, ' ');

/** A node whose answers have `size` bytes of JSON, and the targets that it was asked for. */
async function listNode(t: TestContext, isAnnounced: boolean) {
  const targets: string[] = [];
  const node = await nodeOf(t, (url, response) => {
    targets.push(url);
    const body = Array.from({ length: size / chunk.length }, (_, at) => (at === 0 ? firstOf(chunk) : chunk));
    void pipeline(Readable.from(body), begin(response, isAnnounced ? size : undefined)).catch(() => undefined);
  });
  return { ...node, targets };
}

function firstOf(block: Buffer): Buffer {
  return Buffer.concat([Buffer.from('[]'), block.subarray(2)]);
}

/** Status and bytes of the answer. */
async function readAll(url: string): Promise<readonly [status: number | undefined, bytes: number]> {
  const [response] = (await once(get(url, { agent: false }), 'response')) as [IncomingMessage];
  let bytes = 0;
  response.on('data', (part: Buffer) => (bytes += part.length));
  await once(response, 'end');
  return [response.statusCode, bytes];
}

/** Status of an answer whose body the client gives up. */
async function askHead(url: string): Promise<number | undefined> {
  const [response] = (await once(get(url, { agent: false }), 'response')) as [IncomingMessage];
  response.destroy();
  return response.statusCode;
}

const lists = {
  'a page of resources': '/accounts/0x1/resources?ledger_version=5',
  'a list of transactions': '/transactions?start=5&limit=100',
  'a block with transactions': '/blocks/by_height/5?with_transactions=true',
};

for (const isAnnounced of [true, false]) {
  for (const fastPath of [true, false]) {
    const how = `${isAnnounced ? 'with an announced length' : 'in chunks'}, ${fastPath ? 'with' : 'without'} the fast path`;

    test(`lists that are too large to be read whole are streamed, ${how}`, async (t) => {
      const node = await listNode(t, isAnnounced);
      const gateway = await testGateway(t, { full: [node], config: { listen: { fastPath }, upstream: patient } });
      // Each list meets both ways of answering; an answer in chunks is read to the bound each time, so one list meets it.
      const some = isAnnounced ? Object.entries(lists) : Object.entries(lists).slice(0, 1);
      for (const [index, [what, target]] of some.entries()) {
        node.targets.length = 0;
        if (index === 0) assert.deepEqual(await readAll(gateway.url + target), [200, size], what);
        else assert.equal(await askHead(gateway.url + target), 200, what);
        assert.equal(await askHead(gateway.url + target), 200, what);
        // One that the gateway began to read whole, and one for each client.
        assert.equal(node.targets.length, 3, what);
      }
      // At every version.
      node.targets.length = 0;
      assert.equal(await askHead(`${gateway.url}/accounts/0x1/resources?ledger_version=6`), 200);
      assert.equal(node.targets.length, 1);
      if (some.length > 1) assert.equal(await askHead(`${gateway.url}/accounts/0x1/transactions`), 200);
    });
  }
}

test('a resource that is too large at one node is read from another', async (t) => {
  const broken = await listNode(t, true);
  const whole = await fakeNode(t, { head: 900n, chainId: 4 });
  const gateway = await testGateway(t, { full: [broken], archival: [whole], config: { upstream: patient } });
  const reply = await gateway.get(probeAt(600));
  assert.deepEqual([reply.status, broken.targets.length, whole.reads], [200, 1, 1]);
});
