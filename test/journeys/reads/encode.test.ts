import assert from 'node:assert/strict';
import { request, type IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import { groups, moduleText, moduleTexts, readGroup, type Vector } from '../../encode/vectors.ts';
import { errorBody } from '../../support/error-body.ts';
import { until } from '../../support/eventually.ts';
import { fetchReply, testGateway, type Reply, type TestGateway } from '../../support/gateway.ts';
import { exchangeRaw } from '../../support/raw-http.ts';
import { encodeRequest } from '../../support/submission.ts';
import { moduleWith, refusal, vectorNode, type VectorNode } from '../../support/vector-node.ts';

const path = '/transactions/encode_submission';

interface Scene {
  readonly node: VectorNode;
  readonly gateway: TestGateway;
}

/** One node and a gateway in front of it. No ABI is fresh with the usual clock: vectors give modules other ABIs. */
async function scene(t: TestContext, chainId = 4, now = leapingClock()): Promise<Scene> {
  const node = await vectorNode(t, chainId);
  const gateway = await testGateway(t, { full: [node], now });
  return { node, gateway };
}

/** Each look is a minute after the last one. */
function leapingClock(): () => number {
  let timeMs = 0;
  return () => (timeMs += 60_000);
}

/** Puts the framework's modules and the vector's own on the node. */
function publish(node: VectorNode, abi: unknown): void {
  for (const text of moduleTexts) node.publish(text);
  if (abi !== null) node.publish(moduleText(abi));
}

function find(group: string, name: string): Vector {
  const vector = readGroup(group).find((candidate) => candidate.name === name);
  assert.ok(vector !== undefined, name);
  return vector;
}

function shown({ status, text }: Reply): unknown {
  return { status, body: text };
}

const coinTransfer = find('13-framework.json', 'coin transfer');

/** The bytes of every vector are in test/encode/vectors.test.ts: here some of each group, and what only nodes encode. */
const some = groups.flatMap((group) => {
  const encoded = readGroup(group).filter(({ expected_hex: hex }) => hex !== undefined);
  return encoded.slice(0, 3).concat(encoded.filter(({ beyond_spec: isBeyond }) => isBeyond === true).slice(0, 2));
});

for (const [chainId, vectors] of Map.groupBy(some, ({ chain_id: id }) => id)) {
  test(`chain ${chainId}: the gateway answers the bytes of vectors, without a node for those of the interface`, async (t) => {
    const { node, gateway } = await scene(t, chainId);
    for (const vector of vectors) {
      publish(node, vector.abi);
      const answer = JSON.stringify(vector.expected_hex);
      node.encode = () => ({ status: 200, body: answer });
      node.encodes.length = 0;
      const body = JSON.stringify(vector.request);

      const reply = await gateway.post(path, body);

      assert.deepEqual(shown(reply), { status: 200, body: answer }, vector.name);
      assert.equal(reply.headers['content-type']?.startsWith('application/json'), true);
      assert.equal(reply.headers['x-node-chain-id'], String(chainId));
      if (vector.beyond_spec !== true) assert.equal(node.encodes.length, 0, vector.name);
      for (const forwarded of node.encodes) assert.equal(forwarded.body.toString(), body, vector.name);
    }
  });
}

const invalid = ['15-invalid.json', '15-invalid-recorded.json'].flatMap(readGroup);

test('a node\u2019s refusal reaches the client byte for byte', async (t) => {
  const { node, gateway } = await scene(t);
  for (const { name, abi, request, expected_error: expected } of invalid) {
    publish(node, abi);
    const code = expected?.error_code ?? '';
    const body =
      expected?.body === undefined ? errorBody(code, `${name} \u2013 said the node`) : JSON.stringify(expected.body);
    node.encode = () => ({ status: 400, body });
    node.encodes.length = 0;
    const sent = JSON.stringify(request);

    const reply = await gateway.post(path, sent);

    assert.deepEqual(shown(reply), { status: 400, body }, name);
    assert.deepEqual(
      node.encodes.map((received) => received.body.toString()),
      [sent],
      name,
    );
  }
  assert.equal(await gateway.metric('ledgergate_encode_requests_total{outcome="local",reason=""}'), 0);
});

/** Some nodes may accept these, so that the gateway does not refuse them itself. */
const leftToNodes = new Set([
  'type argument nested nine deep',
  'parameter that is a reference to a struct',
  'invalid_payload_type',
]);

test('without a node, certain refusals are still answered with status, code and the specified body', async (t) => {
  const { node, gateway } = await scene(t);
  node.encode = () => 'reset';
  for (const { name, abi, request, expected_error: expected } of invalid) {
    publish(node, abi);

    const reply = await gateway.post(path, JSON.stringify(request));

    const error = JSON.parse(reply.text) as Record<string, unknown>;
    assert.deepEqual(Object.keys(error), ['message', 'error_code', 'vm_error_code'], name);
    const { error_code: code, vm_error_code: vmCode } = error;
    const wanted = leftToNodes.has(name)
      ? { status: 503, code: 'internal_error' }
      : { status: 400, code: expected?.error_code };
    assert.deepEqual({ status: reply.status, code, vmCode }, { ...wanted, vmCode: null }, name);
  }
  const refused = await gateway.metric('ledgergate_encode_requests_total{outcome="refused",reason="no node"}');
  assert.equal(refused, invalid.length - leftToNodes.size);
});

test('without a node, the gateway encodes and refuses for as long as the ABI is fresh', async (t) => {
  const { node, gateway } = await scene(t, coinTransfer.chain_id, () => 0);
  publish(node, coinTransfer.abi);
  const body = JSON.stringify(coinTransfer.request);
  await gateway.post(path, body);
  await node.close();

  const good = await gateway.post(path, body);
  const malformed = await gateway.post(path, body.slice(1));
  const badAmount = await gateway.post(path, body.replace('"100000000"', '100000000'));
  const unknownFunction = await gateway.post(path, body.replace('coin::transfer', 'coin::no_such'));

  assert.deepEqual(shown(good), { status: 200, body: JSON.stringify(coinTransfer.expected_hex) });
  assert.deepEqual([malformed.status, codeOf(malformed)], [400, 'web_framework_error']);
  assert.deepEqual([badAmount.status, codeOf(badAmount)], [400, 'invalid_input']);
  // The module may have been upgraded, and no node can be asked: no certain refusal.
  assert.equal(unknownFunction.status, 503);
});

function codeOf(reply: Reply): unknown {
  return (JSON.parse(reply.text) as { error_code: unknown }).error_code;
}

test('a request that the gateway does not encode goes to a node byte for byte, counted by reason', async (t) => {
  const { node, gateway } = await scene(t, coinTransfer.chain_id);
  publish(node, coinTransfer.abi);
  const answer = { status: 200, body: '"0x00"' };
  node.encode = () => answer;
  const body = JSON.stringify(coinTransfer.request, undefined, 1);
  const script = JSON.stringify({ ...(coinTransfer.request as object), payload: { type: 'script_payload' } });
  const cases: readonly (readonly [reason: string, body: string | Buffer, headers: Record<string, string>])[] = [
    ['bcs accept', body, { accept: 'application/x-bcs' }],
    ['encoded body', Buffer.from([1, 2, 3]), { 'content-encoding': 'gzip' }],
    ['script payload', script, {}],
    ['encrypted payload', script.replace('script_payload', 'encrypted_transaction_payload'), {}],
    ['duplicate key', body.replace('{', '{"sender":"0x1",'), {}],
    ['doubtful text', body.replace('{', '{"x":{"\\u0024serde_json::private::Number":"abc"},'), {}],
    ['refused locally', `\ufeff${body}`, {}],
    ['refused locally', Buffer.from([0x7b, 0xff]), {}],
    ['refused locally', '', {}],
  ];
  for (const [reason, sent, headers] of cases) {
    const sample = `ledgergate_encode_requests_total{outcome="forwarded",reason="${reason}"}`;
    const before = await gateway.metric(sample);
    node.encodes.length = 0;

    const reply = await gateway.post(path, sent, headers);

    assert.deepEqual(shown(reply), answer, reason);
    const [received] = node.encodes;
    assert.deepEqual(received?.body, Buffer.from(sent), reason);
    for (const [name, value] of Object.entries(headers)) assert.equal(received?.headers[name], value, reason);
    assert.equal((await gateway.metric(sample)) - before, 1, reason);
  }
});

test('a call of an absent module costs one read of it, whatever its name', async (t) => {
  const { node, gateway } = await scene(t, coinTransfer.chain_id);
  node.encode = () => refusal('invalid_input', "Module can't be found");
  const body = JSON.stringify(coinTransfer.request);

  const replies: unknown[] = [];
  for (const address of ['0xdead', '0xdead1', '0xdead2']) {
    replies.push(codeOf(await gateway.post(path, body.replace('0x1::coin::', `${address}::coin::`))));
  }

  assert.deepEqual(replies, ['invalid_input', 'invalid_input', 'invalid_input']);
  assert.deepEqual([node.moduleReads, node.encodes.length], [3, 3]);
});

test('media types of this path are compared as nodes do', async (t) => {
  const { node, gateway } = await scene(t, coinTransfer.chain_id);
  publish(node, coinTransfer.abi);
  const body = JSON.stringify(coinTransfer.request);
  // test/proxy/routes/parsed-reads.test.ts has the rest.
  const cases = [
    ['application/vnd.wallet+json;charset=utf-8', 200],
    ['text/json', 415],
    [undefined, 415],
  ] as const;
  for (const [contentType, status] of cases) {
    const headers: Record<string, string> = contentType === undefined ? {} : { 'content-type': contentType };
    const reply = await gateway.send('POST', path, { body, headers });
    assert.equal(reply.status, status, contentType);
    if (status === 415) assert.equal(codeOf(reply), 'web_framework_error');
  }
  assert.equal(node.encodes.length, 0);
});

test('nodes answer other methods on the path, and other spellings of it', async (t) => {
  const { node, gateway } = await scene(t, coinTransfer.chain_id);
  publish(node, coinTransfer.abi);
  node.encode = () => ({ status: 200, body: '"0x01"' });

  const get = await gateway.get(path);
  const head = await gateway.send('HEAD', path);
  const options = await gateway.send('OPTIONS', path, {
    headers: { origin: 'https://wallet.example', 'access-control-request-method': 'POST' },
  });
  const crossOrigin = await gateway.post(path, JSON.stringify(coinTransfer.request), { origin: 'https://a.example' });

  assert.deepEqual([get.status, head.status, head.body.length], [404, 404, 0]);
  assert.equal(options.status, 204);
  assert.equal(crossOrigin.text, JSON.stringify(coinTransfer.expected_hex));
  assert.equal(crossOrigin.headers['access-control-allow-origin'], 'https://a.example');
});

/** A request whose one argument is `bytes`, in hex. */
function requestOf(bytes: string): string {
  const [vector] = readGroup('04-bytes.json');
  assert.ok(vector !== undefined);
  const request = vector.request as { payload: object };
  const payload = { ...request.payload, function: '0xcafe::kinds::one_bytes', arguments: [`0x${bytes}`] };
  return JSON.stringify({ ...request, payload });
}

test('bodies come chunked or whole, and are refused without a length or above the limit', async (t) => {
  const { node, gateway } = await scene(t);
  publish(node, readGroup('04-bytes.json')[0]?.abi);
  const bytes = 'ab'.repeat(60_000);
  const body = requestOf(bytes);

  const long = await gateway.post(path, body);
  const chunked = await fetchReply(gateway.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: Readable.from([body.slice(0, 1000), body.slice(1000)]),
  });
  const withoutLength = await exchangeRaw(
    gateway.port,
    `POST /v1${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n`,
  );
  const tooLong = await gateway.post(path, Buffer.alloc(8 * 1024 * 1024 + 1, 0x20));

  assert.equal(long.status, 200);
  assert.ok(long.text.includes(bytes));
  assert.equal(chunked.text, long.text);
  assert.match(withoutLength, /^HTTP\/1.1 411 /);
  assert.deepEqual([tooLong.status, codeOf(tooLong)], [413, 'web_framework_error']);
  assert.equal(node.encodes.length, 0);
});

test('a body above 128 kB goes to a node unchanged and unparsed', async (t) => {
  const { node, gateway } = await scene(t);
  publish(node, readGroup('04-bytes.json')[0]?.abi);
  const answer = { status: 200, body: '"0x01"' };
  node.encode = () => answer;
  const largest = requestOf('ab'.repeat(60_000)).padEnd(128 * 1024, ' ');
  const large = [`${largest} `, requestOf('ab'.repeat(4_000_000)), '['.repeat(200_000)];

  const local = await gateway.post(path, largest);
  const replies = await Promise.all(large.map((body) => gateway.post(path, body)));

  assert.notDeepEqual(shown(local), answer);
  assert.deepEqual(replies.map(shown), [answer, answer, answer]);
  assert.deepEqual(new Set(node.encodes.map(({ body }) => body.toString())), new Set(large));
  assert.equal(await gateway.metric('ledgergate_encode_requests_total{outcome="forwarded",reason="large body"}'), 3);
  assert.equal(node.moduleReads, 1);
});

test('with encode.enabled: false nodes answer every request', async (t) => {
  const node = await vectorNode(t, coinTransfer.chain_id);
  publish(node, coinTransfer.abi);
  node.encode = () => refusal('invalid_input', 'text of the node');
  const gateway = await testGateway(t, { full: [node], config: { encode: { enabled: false } } });

  const reply = await gateway.post(path, JSON.stringify(coinTransfer.request));

  assert.match(reply.text, /text of the node/);
  assert.deepEqual({ encodes: node.encodes.length, moduleReads: node.moduleReads }, { encodes: 1, moduleReads: 0 });
});

// Modules that the encoder needs are read in the turn of the client whose request needs them.

const greedy = '127.0.0.2';
const modest = '127.0.0.3';

/** Two places at the only node. A read of a module keeps its place until `release`. */
async function busyScene(t: TestContext) {
  const node = await vectorNode(t);
  const functions = { buy: ['&signer', 'u64'] };
  for (let at = 0; at < 8; at += 1) node.publish(moduleWith(`shop${at}`, functions));
  node.encode = () => ({ status: 200, body: '"0x00"' });
  const upstream = { connections: 2, timeoutMs: 20_000, deadlineMs: 20_000 };
  const gateway = await testGateway(t, { full: [node], config: { upstream }, now: () => 0 });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  node.holdModules = released;
  const waiting = (): Promise<number> => gateway.metric('ledgergate_upstream_queue_requests');
  return { node, gateway, release, waiting };
}

/** Asks from a loopback address of its own, which is another client. Resolves to the body. */
function sign(address: string, { port }: TestGateway, module: string): Promise<string> {
  const body = encodeRequest(`0xcafe::${module}::buy`, ['5']);
  return new Promise((resolve, reject) => {
    const target = {
      host: '127.0.0.1',
      port,
      method: 'POST',
      path: '/v1/transactions/encode_submission',
      headers: { 'content-type': 'application/json', 'content-length': body.length },
      localAddress: address,
    };
    request(target, (answer: IncomingMessage) => void text(answer).then(resolve, reject))
      .on('error', reject)
      .end(body);
  });
}

const isLocal = (answer: string): boolean => /^"0x[0-9a-f]{300,}"$/.test(answer);

test('a client whose modules no node answers waits alone; another client\u2019s request is encoded locally', async (t) => {
  const { gateway, release, waiting } = await busyScene(t);
  const crowd = Array.from({ length: 66 }, (_, at) => sign(greedy, gateway, `absent${at}`));
  await until(async () => (await waiting()) >= 64);

  const answers = Array.from({ length: 8 }, (_, at) => sign(modest, gateway, `shop${at}`));
  await until(async () => (await gateway.metric('ledgergate_upstream_queue_refusals_total{reason="full"}')) >= 8);
  release();

  assert.deepEqual(
    (await Promise.all(answers)).map(isLocal),
    Array.from({ length: 8 }, () => true),
  );
  await Promise.all(crowd);
});

test('a module that a greedy client\u2019s flight waits for is read in the first turn that comes', async (t) => {
  const { gateway, node, release, waiting } = await busyScene(t);
  const order: string[] = [];
  const from = async (address: string, module: string): Promise<void> => {
    const answer = await sign(address, gateway, module);
    order.push(`${address} ${isLocal(answer) ? 'local' : 'node'}`);
  };
  const crowd = Array.from({ length: 50 }, (_, at) => from(greedy, `absent${at}`));
  await until(async () => (await waiting()) >= 48);
  crowd.push(from(greedy, 'shop0'));
  await until(async () => (await waiting()) >= 49);

  const answer = from(modest, 'shop0');
  await until(async () => (await waiting()) >= 50);
  release();
  await Promise.all([...crowd, answer]);

  const turn = order.indexOf(`${modest} local`);
  assert.ok(turn >= 0 && turn < 10, `it came as number ${turn + 1} of ${order.length}`);
  // Both clients are given the one answer.
  assert.ok(order.indexOf(`${greedy} local`) < 12, order.join());
  assert.equal(node.moduleReads, 51);
});
