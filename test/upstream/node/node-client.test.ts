// The connections to one node: their number, their requests, and their end.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import type { Upstream, UpstreamOptions } from '../../../src/upstream/node/upstream.ts';
import { until } from '../../support/eventually.ts';
import { ask, nodeAt, textOf } from '../../support/node-client.ts';
import { listen } from '../../support/listen.ts';

interface Peer {
  readonly node: Upstream;
  /** In the order in which they were opened. */
  readonly sockets: readonly Socket[];
}

type Respond = (request: IncomingMessage, response: ServerResponse) => void;

async function peer(t: TestContext, respond: Respond, options: Partial<UpstreamOptions> = {}): Promise<Peer> {
  const sockets: Socket[] = [];
  const server = createServer({ keepAliveTimeout: 0 }, respond);
  server.on('connection', (socket: Socket) => sockets.push(socket));
  const port = await listen(t, server);
  return { node: nodeAt(t, port, { connections: 4, ...options }), sockets };
}

const echo: Respond = ({ url }, response) => response.end(url);

test('a connection serves one request after another, and each its own answer', async (t) => {
  const { node, sockets } = await peer(t, echo);
  for (let at = 0; at < 20; at += 1) assert.equal(await textOf(ask(node, `/${at}`)), `/${at}`);
  assert.equal(sockets.length, 1);
});

test('more requests than connections wait in turn, and no more connections are opened', async (t) => {
  const { node, sockets } = await peer(t, ({ url }, response) => setImmediate(() => response.end(url)));
  const paths = Array.from({ length: 50 }, (_, at) => `/${at}`);
  assert.deepEqual(await Promise.all(paths.map((path) => textOf(ask(node, path)))), paths);
  assert.equal(sockets.length, 4);
});

test('probes never wait behind reads', async (t) => {
  const { node } = await peer(
    t,
    ({ url }, response) => {
      if (url === '/info') response.end('info');
    },
    { connections: 1 },
  );
  const client = new AbortController();
  const read = assert.rejects(ask(node, '/held', { signal: client.signal }), /given up/);
  assert.equal(await textOf(ask(node, '/info', { purpose: 'probe' })), 'info');
  client.abort(new Error('given up'));
  await read;
});

test('a request carries each header once, with the body behind it', async (t) => {
  const seen: unknown[] = [];
  const { node } = await peer(t, (request, response) => {
    request.setEncoding('utf8').once('data', (body) => {
      seen.push([request.method, request.url, request.rawHeaders, body]);
      response.end('done');
    });
  });
  const headers = { accept: 'a/b', 'x-list': ['1', '2'], host: 'node.example' };
  assert.equal(await textOf(ask(node, '/a?b=c', { method: 'POST', headers, body: Buffer.from('{"é":1}') })), 'done');
  const raw = ['host', 'node.example', 'connection', 'keep-alive', 'accept', 'a/b', 'x-list', '1', 'x-list', '2'];
  assert.deepEqual(seen, [['POST', '/a?b=c', [...raw, 'content-length', '8'], '{"é":1}']]);
});

for (const [name, options] of [
  ['a line break in a header', { headers: { a: 'b\r\nc: d' } }],
  ['a header name that is none', { headers: { 'a b': 'c' } }],
  ['a framing of its own', { headers: { 'transfer-encoding': 'chunked' } }],
  [
    'a length other than that of its body',
    { method: 'POST', headers: { 'content-length': '3' }, body: Buffer.from('a') },
  ],
] as const) {
  test(`a request with ${name} is not sent`, async (t) => {
    const paths: unknown[] = [];
    const { node } = await peer(t, (request, response) => {
      paths.push(request.url);
      response.end();
    });
    await assert.rejects(ask(node, '/bad', options), { code: /^UND_ERR_(INVALID_ARG|REQ_CONTENT_LENGTH_MISMATCH)$/ });
    await ask(node, '/good');
    assert.deepEqual(paths, ['/good']);
  });
}

for (const path of ['/a b', '/a\r\nb']) {
  test(`the path ${JSON.stringify(path)} is not sent`, async (t) => {
    const { node, sockets } = await peer(t, echo);
    await assert.rejects(ask(node, path), { code: 'UND_ERR_INVALID_ARG' });
    assert.equal(sockets.length, 0);
  });
}

test('a request that is given up closes its connection, and no other', async (t) => {
  const held: ServerResponse[] = [];
  const { node } = await peer(t, ({ url }, response) => {
    if (url === '/held') held.push(response);
    else response.end(url);
  });
  const client = new AbortController();
  const first = ask(node, '/held', { signal: client.signal });
  await until(() => held.length === 1);
  const other = textOf(ask(node, '/held'));
  await until(() => held.length === 2);
  client.abort(new Error('given up'));
  await assert.rejects(first, /given up/);
  await until(() => held[0]?.destroyed === true);
  held[1]?.end('late');
  assert.equal(await other, 'late');
  assert.equal(await textOf(ask(node, '/next')), '/next');
});

test('a request that is given up while it waits is never sent, and costs no connection', async (t) => {
  const held: ServerResponse[] = [];
  const { node, sockets } = await peer(t, (_request, response) => void held.push(response), { connections: 1 });
  const first = textOf(ask(node, '/'));
  await until(() => held.length === 1);
  const client = new AbortController();
  const second = ask(node, '/second', { signal: client.signal });
  const third = textOf(ask(node, '/third'));
  client.abort(new Error('given up'));
  await assert.rejects(second, /given up/);
  held[0]?.end('first');
  await until(() => held.length === 2);
  assert.equal(held[1]?.req.url, '/third');
  held[1]?.end('third');
  assert.deepEqual([await first, await third, sockets.length], ['first', 'third', 1]);
});

test('a submission that is given up while its connection opens leaves no idle connection to the next', async (t) => {
  const { node, sockets } = await peer(t, ({ url }, response) => response.end(url), { connections: 1 });
  const client = new AbortController();
  const first = ask(node, '/first', { purpose: 'submission', signal: client.signal });
  // The request is on its way to a connection, which opens in the next poll of the sockets at the earliest.
  await new Promise((resolve) => setImmediate(resolve));
  client.abort(new Error('given up'));
  await assert.rejects(first, /given up/);
  await until(() => sockets.length === 1);
  assert.equal(await textOf(ask(node, '/second', { purpose: 'submission' })), '/second');
  assert.equal(sockets.length, 2);
});

test('a node that is not there fails every request at once', async (t) => {
  const gone = createServer().listen(0, '127.0.0.1');
  await once(gone, 'listening');
  const { port } = gone.address() as AddressInfo;
  gone.close();
  await once(gone, 'close');
  const node = nodeAt(t, port);
  await Promise.all(Array.from({ length: 10 }, () => assert.rejects(ask(node, '/'), { code: 'ECONNREFUSED' })));
});

test('an idle connection is not used, and closed, when the node keeps it for no longer', async (t) => {
  const { node, sockets } = await peer(t, ({ url }, response) => {
    if (url !== '/long') response.setHeader('keep-alive', url === '/none' ? 'timeout=2' : 'timeout=3');
    response.end(url);
  });
  await ask(node, '/none');
  await ask(node, '/short');
  assert.equal(sockets.length, 2, 'the node may close the first one at any moment');
  await until(() => sockets[1]?.destroyed === true);
  await ask(node, '/long');
  await ask(node, '/long');
  assert.equal(sockets.length, 3);
});

test('closed connections fail their requests, and all later ones', async (t) => {
  const { node } = await peer(t, () => undefined, { connections: 1 });
  const failed = [assert.rejects(ask(node, '/')), assert.rejects(ask(node, '/'))];
  await node.close();
  await Promise.all(failed);
  await assert.rejects(ask(node, '/'));
});

test('localhost is found under whichever address the node has', async (t) => {
  const server = createServer((_request, response) => response.end('here'));
  const port = await listen(t, server);
  const url = new URL(`http://localhost:${port}`);
  assert.equal(await textOf(ask(nodeAt(t, port, { url }), '/')), 'here');
});
