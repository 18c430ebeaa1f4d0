/** Heads of requests on the fast path: blocks of headers, and fields of HTTP/2 read as header lines of HTTP/1.1. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { test, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import { startServing } from '../../../../src/gateway/serving.ts';
import { KnownFields } from '../../../../src/proxy/http/fast-path/h2-hits.ts';
import { HeaderBlocks, readHead } from '../../../../src/proxy/http/fast-path/request-head.ts';
import { encodeVectors } from '../../../../src/sample/recorded.ts';
import { until } from '../../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../../support/fake-node.ts';
import { fetchReply, nodeAndGateway, testConfig, testGateway, type TestGateway } from '../../../support/gateway.ts';
import { heldBytes } from '../../../support/heap.ts';
import { accessConfig, keysFile, planConfig } from '../../../support/keys.ts';
import { ledgerHeaders } from '../../../support/ledger-info.ts';
import { listen } from '../../../support/listen.ts';
import { answersIn, exchangeRaw, rawClient, type RawClient } from '../../../support/raw-http.ts';
import { submission } from '../../../support/submission.ts';

const count = 400;
const chunkBytes = 64 * 1024;

test('a condition is no part of the block that targets share, and two of them are unsupported', () => {
  const blocks = new HeaderBlocks();
  const read = (lines: string) => readHead(`GET /v1/a HTTP/1.1\r\n${lines}\r\n\r\n`, 0, blocks)?.block;

  const [one, other] = ['"a"', 'W/"b", "c"'].map((tag) => read(`Host: a\r\nIf-None-Match: ${tag}\r\nAccept: */*`));

  assert.deepEqual([one?.condition, other?.condition], ['"a"', 'W/"b", "c"']);
  assert.equal(other?.headers['if-none-match'], 'W/"b", "c"');
  assert.equal(one?.known, read('Host: a\r\nAccept: */*')?.known);
  assert.equal(read('Host: a\r\nAccept: */*')?.condition, undefined);
  assert.equal(read('If-None-Match:\r\nHost: a')?.condition, '');
  assert.equal(read('Host: a\r\nIf-None-Match: "a"\r\nif-none-match: "b"'), undefined);
  assert.equal(read('Host: a\r\nIf-None-Match:  "a"'), undefined);
  assert.equal(read('Host: a\r\nIf-None-Match: "a" '), undefined);
  assert.equal(read('If-None-Match: "a"'), undefined);
});

test('a cached header block does not keep its chunk in memory', () => {
  const blocks = new HeaderBlocks();
  const before = heldBytes();

  for (let index = 0; index < count; index += 1) {
    const head = `GET /v1/a HTTP/1.1\r\nHost: a\r\nUser-Agent: somebody who is ${index}\r\n\r\n`;
    const text = Buffer.from(head.padEnd(chunkBytes)).toString('latin1');
    assert.equal(readHead(text, 0, blocks)?.block.headers['user-agent'], `somebody who is ${index}`);
  }

  const taken = heldBytes() - before;
  // The surrounding chunks would take 26 MB.
  assert.ok(taken < 2_000_000, `${taken} bytes`);
  assert.notEqual(blocks.find('Host: a'), undefined);
});

const pseudo = [':method', 'GET', ':scheme', 'https', ':authority', 'a', ':path', '/v1/x'];

function readFields(raw: readonly string[]): KnownFields | undefined {
  return KnownFields.read(raw, new HeaderBlocks());
}

test('plain fields are a block of headers with the authority as host', () => {
  const fields = readFields([...pseudo, 'accept', 'application/x-bcs', 'accept-encoding', 'gzip']);
  assert.equal(fields?.pathAt, 7);
  const { headers, form, coding, isPlain } = fields.block;
  assert.deepEqual({ ...headers }, { host: 'a', accept: 'application/x-bcs', 'accept-encoding': 'gzip' });
  assert.deepEqual([form, coding, isPlain], ['bcs', 'gzip', true]);
  assert.equal(readFields([...pseudo, 'origin', 'https://page.example'])?.block.isPlain, false);
});

test('fields match a request that differs in its target alone', () => {
  const raw = [...pseudo, 'accept', '*/*'];
  const fields = readFields(raw);
  assert.equal(fields?.matches(raw.with(7, '/v1/y')), true);
  for (const [at, text] of raw.entries()) {
    if (at !== 7) assert.equal(fields?.matches(raw.with(at, `${text}x`)), false, text);
  }
  assert.equal(fields?.matches([...raw, 'x', 'y']), false);
  assert.equal(fields?.matches(pseudo), false);
});

const unsupported: readonly (readonly [string, readonly string[]])[] = [
  ['another method', pseudo.with(1, 'HEAD')],
  ['no path', pseudo.slice(0, 6)],
  ['no authority', pseudo.toSpliced(4, 2)],
  ['an authority with a user', pseudo.with(5, 'b@a')],
  ['an authority that ends a line', pseudo.with(5, 'a\r\nx: y')],
  ['a second host', [...pseudo, 'host', 'a']],
  ['a field twice', [...pseudo, 'x', 'y', 'x', 'z']],
  ['a value that ends a line', [...pseudo, 'x', 'y\nz: 1']],
  ['a name that ends a line', [...pseudo, 'x\n', 'y']],
  ['a value with blanks around it', [...pseudo, 'x', ' y']],
  ['a value that is no ASCII', [...pseudo, 'x', 'caf\u00e9']],
  ['an expectation', [...pseudo, 'expect', '100-continue']],
  ['a part', [...pseudo, 'range', 'bytes=0-3']],
  ['a connection that closes', [...pseudo, 'connection', 'close']],
  ['too many fields', [...pseudo, ...Array.from({ length: 65 }, (_, at) => [`x${at}`, 'y']).flat()]],
  ['too long a block', [...pseudo, 'x', 'y'.repeat(5_000)]],
];

for (const [name, raw] of unsupported) {
  test(`unsupported: ${name}`, () => {
    assert.equal(readFields(raw), undefined);
  });
}

// Order of answers, names of requests and headers of hits at the edges of the fast path.

const hit = '/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded400?ledger_version=800';
const view = '/v1/view?ledger_version=800';

function post(target: string, length: number): string {
  return `POST ${target} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
}

/** Statuses of the answers to `bytes`, which the client's FIN follows. */
async function statusesOf(t: TestContext, port: number, bytes: string): Promise<readonly number[]> {
  const { socket, received } = rawClient(t, port);
  socket.end(bytes, 'latin1');
  return answersIn(await received).map(({ status }) => status);
}

for (const fastPath of [true, false]) {
  const by = fastPath ? 'with' : 'without';
  const options = { config: { listen: { fastPath } } };

  // A read of 64 kB fills Node's buffer, so the FIN behind it is read in the same turn.
  test(`the refusal of a body that ends early follows the answers ahead of it, ${by} the fast path`, async (t) => {
    const { gateway } = await nodeAndGateway(t, options);
    await gateway.get(hit.slice(3));
    const ahead = `GET ${hit} HTTP/1.1\r\nHost: a\r\n\r\n${post(view, 65_500)}`;

    assert.deepEqual(await statusesOf(t, gateway.port, ahead.padEnd(65_536, 'x')), [200, 400]);
  });

  test(`a line feed moved from the body into the target is no name of a cached view, ${by} the fast path`, async (t) => {
    const { gateway } = await nodeAndGateway(t, options);
    const rest = '"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';
    const cached = `{\n${rest}`;
    for (let count = 0; count < 3; count += 1) {
      const headers = { 'content-type': 'application/json' };
      assert.equal((await gateway.send('POST', view.slice(3), { headers, body: cached })).status, 200);
    }
    assert.deepEqual(await statusesOf(t, gateway.port, post(view, cached.length) + cached), [200]);

    assert.deepEqual(await statusesOf(t, gateway.port, post(`${view}\n{`, rest.length) + rest), [400]);
  });
}

/** `Connection` of the answers to `bytes`, whose end is followed by a FIN once the node has the last request. */
async function connectionsOf(fastPath: boolean, t: TestContext, bytes: string, isHalfClosed: boolean) {
  const { node, gateway } = await nodeAndGateway(t, { config: { listen: { fastPath } } });
  const release = node.hold({ when: ({ route }) => route === 'submit' });
  const { socket, text } = rawClient(t, gateway.port);
  const first = node.log.next(({ route }) => route === 'submit');
  socket.write(bytes, 'latin1');
  if (isHalfClosed) {
    await first;
    socket.end();
    // The gateway has read the FIN by the end of these.
    for (let count = 0; count < 3; count += 1) await gateway.get('/a//b');
  }
  release();
  const expected = bytes.split('HTTP/1.1').length - 1;
  await until(() => answersIn(text()).length === expected);
  return answersIn(text()).map(({ head }) => /^Connection: (.*)\r$/im.exec(head)?.[1]);
}

test('the answer to a submission behind whose bytes the client ends its side: close, and keep-alive of the server', async (t) => {
  const body = submission({ sequenceNumber: 1 });
  const bytes = post('/v1/transactions', body.length) + body;

  const [fast, server] = [await connectionsOf(true, t, bytes, true), await connectionsOf(false, t, bytes, true)];

  assert.deepEqual([fast, server], [['close'], ['keep-alive']]);
});

test('a prepared hit lists the header of keys that is in force', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const { path: file } = keysFile(t, []);
  const configOf = (header: string) => {
    const plans = { free: planConfig() };
    const access = accessConfig({ header, keys: { file, redis: false }, plans, anonymous: 'free' });
    return testConfig({ full: [node], config: { listen: { fastPath: true } }, access });
  };
  const serving = await startServing(configOf('x-one'), {
    isOverloaded: () => false,
  });
  t.after(() => serving.close());
  const vary = async (): Promise<string | undefined> =>
    (await fetchReply(`http://127.0.0.1:${serving.port}${hit}`, { method: 'GET' })).headers['vary'];
  // Asked of the node, put into the target cache, prepared.
  for (let count = 0; count < 3; count += 1) await vary();
  assert.match((await vary()) ?? '', /, x-one$/);

  await serving.apply(configOf('x-two'));

  assert.match((await vary()) ?? '', /, x-two$/);
});

// Bodies of 16 to 64 kB stay on the fast path, within the bound of all bodies.

const body = JSON.stringify({
  function: '0x1::ledgergate_sample::version',
  type_arguments: [],
  arguments: ['a'.repeat(60_000)],
});
const head = `POST /v1/view?ledger_version=800 HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
const handovers = 'ledgergate_fast_path_handovers_total';
const onFastPath = { config: { listen: { fastPath: true } } } as const;
const held = 'ledgergate_http_body_bytes';

async function write(socket: Socket, bytes: string): Promise<void> {
  await new Promise<void>((resolve) => socket.write(bytes, () => resolve()));
  await new Promise(setImmediate);
}

for (const [title, piece] of [
  ['at once', 100_000],
  ['in pieces', 7_000],
] as const) {
  test(`a body of 60 kB that comes ${title} is answered on the fast path, and counted until then`, async (t) => {
    const { node, gateway } = await nodeAndGateway(t, onFastPath);
    const release = node.hold({ when: ({ route }) => route === 'view' });
    t.after(() => release());
    const { socket } = rawClient(t, gateway.port);
    const bytes = head + body;
    const received = once(socket, 'data') as Promise<[Buffer]>;

    for (let at = 0; at < bytes.length; at += piece) await write(socket, bytes.slice(at, at + piece));
    await until(() => node.requestsTo('view') === 1);
    const whileAsked = await gateway.metric(held);
    release();
    const [answer] = await received;

    assert.match(answer.toString(), /^HTTP\/1\.1 200 /);
    assert.ok(whileAsked >= body.length && whileAsked <= bytes.length, String(whileAsked));
    assert.equal(await gateway.metric(held), 0);
    assert.equal(await gateway.metric(handovers), 0);
  });
}

test('a body of 60 kB whose client hangs up frees its memory', async (t) => {
  const { gateway } = await nodeAndGateway(t, onFastPath);
  const { socket } = rawClient(t, gateway.port);
  socket.write(head + body.slice(0, 50_000));
  await until(async () => (await gateway.metric(held)) > 0);

  socket.destroy();

  await until(async () => (await gateway.metric(held)) === 0);
});

test('a body of 60 kB that does not arrive in time is answered 408', async (t) => {
  const { gateway } = await nodeAndGateway(t, { ...onFastPath, times: { headMs: 200, requestMs: 200, checkMs: 20 } });
  const { socket } = rawClient(t, gateway.port);
  socket.write(head + body.slice(0, 50_000));

  const [answer] = (await once(socket, 'data')) as [Buffer];

  assert.match(answer.toString(), /^HTTP\/1\.1 408 /);
  await until(async () => (await gateway.metric(held)) === 0);
  assert.equal(await gateway.metric(handovers), 0);
});

test('when memory for bodies is short, an arriving body is answered 503, its rest is dropped, and its connection goes on', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const config = testConfig({ full: [node], config: { listen: { fastPath: true, maxConnections: 1_000_000 } } });
  // With so many processes, the share of this one is the least: 8 MiB for all bodies.
  const serving = await startServing(config, { processes: 1_000 });
  t.after(() => serving.close());
  const clients = Array.from({ length: 150 }, () => rawClient(t, serving.port));
  const sent = 58_000;

  const { socket: refused, text } = await new Promise<RawClient>((resolve) => {
    for (const client of clients) {
      client.socket.once('data', () => resolve(client));
      client.socket.write(head + body.slice(0, sent));
    }
  });
  await write(refused, body.slice(sent, 59_000));
  // The rest of a body is no request, even if it looks like one.
  await write(refused, 'GET /v1/spec HTTP/1.1\r\nHost: a\r\n\r\n'.padEnd(body.length - 59_000, ' '));
  await write(refused, 'GET /v1/nowhere/%zz HTTP/1.1\r\nHost: a\r\n\r\n');

  await until(() => text().split('HTTP/1.1 ').length > 2 && text().endsWith('}'));
  // A drain would wait for the other bodies.
  for (const { socket } of clients) socket.destroy();
  const statuses = answersIn(text()).map(({ status }) => status);
  assert.deepEqual(statuses, [503, 400]);
  const metrics = await serving.registry.metrics();
  assert.match(metrics, /^ledgergate_fast_path_handovers_total 0$/m);
  assert.match(metrics, /^ledgergate_http_bodies_ended_total [1-9]/m);
});

// Requests that nodes answer, and those for signing messages, stay on the fast path.

const ledger = ledgerHeaders({ version: 900n, chainId: 1 });
const list = '/v1/transactions?start=5&limit=100&x=1';
/** Too large, also in its coding, to be read whole ahead of the answer's head. */
const page = JSON.stringify(Array.from({ length: 20_000 }, (_, index) => Math.imul(index, 2_654_435_761)));
const coin = encodeVectors.find(({ name, chainId }) => name === 'coin transfer' && chainId === 1)?.request ?? '';

function request(method: string, target: string, fields: readonly string[] = [], body?: string): string {
  const head = [`${method} ${target} HTTP/1.1`, 'Host: a', ...fields];
  if (body !== undefined) head.push('Content-Type: application/json', `Content-Length: ${body.length}`);
  return `${head.join('\r\n')}\r\n\r\n${body ?? ''}`;
}

const requests = {
  'a signing message': request('POST', '/v1/transactions/encode_submission', [], coin),
  'a signing message that a node refuses': request('POST', '/v1/transactions/encode_submission', [], '{}'),
  'a signing message in another type': request('POST', '/v1/transactions/encode_submission', [
    'Content-Type: a/b',
    'Content-Length: 0',
  ]),
  'a simulation': request('POST', '/v1/transactions/simulate', [], submission()),
  'a submission': request('POST', '/v1/transactions', [], submission()),
  'a batch': request('POST', '/v1/transactions/batch', [], `[${submission()}]`),
  'a passed list, decoded': request('GET', list),
  'a passed list in its coding': request('GET', list, ['Accept-Encoding: gzip']),
  'the head of a passed list': request('HEAD', list),
  'the head of a passed list in its coding': request('HEAD', list, ['Accept-Encoding: gzip']),
  'an empty answer': request('GET', '/v1/empty'),
  'an answer without change': request('GET', '/v1/unchanged', ['If-None-Match: "a"']),
  'ledger info in BCS': request('GET', '/v1', ['Accept: application/x-bcs']),
  'an unknown path': request('GET', '/nowhere'),
  'an unknown path with a body': request('POST', '/nowhere', [], '{}'),
  'a path in another form': request('POST', '/v1//transactions', [], submission()),
};

/** A node whose list is coded whatever the client accepts: the gateway decodes it, and sends it in chunks. */
async function codingNode(t: TestContext): Promise<FakeNode> {
  const node = await fakeNode(t, { head: 900n });
  const coded = { ...ledger, 'content-encoding': 'gzip' };
  const answers = [
    ['/transactions?', { kind: 'answer', status: 200, body: gzipSync(page), headers: coded }],
    ['/empty', { kind: 'answer', status: 204, body: '', headers: ledger }],
    ['/unchanged', { kind: 'answer', status: 304, body: '', headers: { ...ledger, etag: '"a"' } }],
  ] as const;
  for (const [part, answer] of answers) node.faults.add(answer, { when: ({ url }) => url.includes(part) });
  return node;
}

const gatewayOver = (t: TestContext, node: FakeNode, fastPath: boolean): Promise<TestGateway> =>
  testGateway(t, { full: [node], config: { listen: { fastPath }, latest: { maxStalenessMs: 3_600_000 } } });

/** Without the date and the sizes of chunks, which depend on the moment. */
function comparable(received: string): string {
  return received
    .replaceAll(/^Date: .*\r\n/gim, '')
    .replaceAll(/(?<=chunked\r\n\r\n)(?:[\da-f]+\r\n[^\r]*\r\n)+/g, (chunks) => dechunked(chunks));
}

function dechunked(chunks: string): string {
  let [rest, body] = [chunks, ''];
  while (rest !== '') {
    const from = rest.indexOf('\r\n') + 2;
    const end = from + Number.parseInt(rest, 16);
    assert.equal(rest.slice(end, end + 2), '\r\n');
    body += rest.slice(from, end);
    rest = rest.slice(end + 2);
  }
  return body;
}

test('nodes and the encoder answer on the fast path as on the server, and no connection is handed over', async (t) => {
  const node = await codingNode(t);
  const [fastPath, server] = [await gatewayOver(t, node, true), await gatewayOver(t, node, false)];
  for (const gateway of [fastPath, server]) await gateway.get('');

  for (const [what, bytes] of Object.entries(requests)) {
    await t.test(what, async () => {
      const closing = bytes.replace('Host', 'Connection: close\r\nHost');
      const received = await Promise.all(
        [fastPath, server].map(async ({ port }) => comparable(await exchangeRaw(port, bytes + closing))),
      );
      assert.equal(received[0], received[1]);
      assert.equal(received[0]?.match(/HTTP\/1\.1 \d{3} /g)?.length, 2);
    });
  }

  assert.equal(await fastPath.metric('ledgergate_fast_path_handovers_total'), 0);
});

test('a request that is refused whatever its body gets its answer ahead of the body', async (t) => {
  const gateway = await gatewayOver(t, await codingNode(t), true);
  const rows = [
    ['/nowhere', 'application/json', 404],
    ['/v1/view', 'text/html', 415],
    ['/v1/transactions/encode_submission', 'text/html', 415],
    ['/v1//transactions', 'application/json', 400],
  ] as const;
  for (const [target, type, status] of rows) {
    const { socket } = rawClient(t, gateway.port);
    socket.write(`POST ${target} HTTP/1.1\r\nHost: a\r\nContent-Type: ${type}\r\nContent-Length: 100\r\n\r\n{`);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    assert.match(answer.toString(), new RegExp(`^HTTP/1\\.1 ${status} `), target);
  }
});

test('a node waits while its client reads nothing, and ends its answer once the client is gone', async (t) => {
  let sent = 0;
  const left = Promise.withResolvers<void>();
  const megabyte = Buffer.alloc(1_000_000, 'a');
  const server = createServer((incoming, response) => {
    const isList = incoming.url?.includes('/transactions?') === true;
    const head = { ...ledger, 'content-type': 'application/json' };
    response.writeHead(200, isList ? { ...head, 'content-length': 200_000_000 } : head);
    if (!isList) {
      response.end('{}');
      return;
    }
    response.once('close', () => left.resolve());
    const pieces = Array.from({ length: 200 }, () => megabyte);
    Readable.from(pieces)
      .on('data', ({ length }: Buffer) => (sent += length))
      .pipe(response);
  });
  const url = `http://127.0.0.1:${await listen(t, server)}/v1`;
  const gateway = await testGateway(t, { full: [{ url }], config: { listen: { fastPath: true } } });
  const { socket } = rawClient(t, gateway.port);
  socket.write(request('GET', list));
  await once(socket, 'data');
  socket.pause();

  let before = -1;
  await until(async () => {
    const isStill = sent === before;
    before = sent;
    for (let count = 0; count < 3; count += 1) await gateway.get('/a//b');
    return isStill;
  });
  assert.ok(sent < 50_000_000, `${sent} bytes`);

  socket.destroy();
  await left.promise;
  assert.equal(await gateway.metric('ledgergate_fast_path_handovers_total'), 0);
});
