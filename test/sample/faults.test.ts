import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeNode, type FakeNode } from '../support/fake-node.ts';

const probe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe';

async function read(node: FakeNode, path = probe): Promise<{ status: number; headers: Headers; text: string }> {
  const reply = await fetch(node.url + path, { headers: { 'accept-encoding': 'identity' } });
  return { status: reply.status, headers: reply.headers, text: await reply.text() };
}

test('a lagging node shows and serves an older head', async (t) => {
  const node = await fakeNode(t);
  node.fault = { kind: 'lag', versions: 100n };

  const latest = await read(node);
  const above = await read(node, `${probe}?ledger_version=901`);

  assert.equal(latest.headers.get('x-node-ledger-version'), '900');
  assert.match(latest.text, /"ledger_version":"900"/);
  assert.equal(above.status, 404);
});

test('latency delays the answer', async (t) => {
  const node = await fakeNode(t);
  node.fault = { kind: 'latency', ms: 30 };
  const start = performance.now();

  const { status } = await read(node);

  assert.equal(status, 200);
  // Timers may fire a little early by this clock.
  assert.ok(performance.now() - start >= 28);
});

test('a held answer waits for the test', async (t) => {
  const node = await fakeNode(t);
  const gate = Promise.withResolvers<undefined>();
  node.fault = { kind: 'hold', until: gate.promise };
  const asked = node.log.next();

  const reply = read(node);
  await asked;
  node.clock.advance(1n);
  gate.resolve(undefined);

  assert.match((await reply).text, /"ledger_version":"1001"/);
});

test('a hanging request is never answered, and closing the node ends it', async (t) => {
  const node = await fakeNode(t);
  node.fault = { kind: 'hang' };
  const asked = node.log.next();

  const reply = read(node);
  await asked;
  await node.close();

  await assert.rejects(reply);
});

test('a reset ends the connection without an answer', async (t) => {
  const node = await fakeNode(t);
  node.fault = { kind: 'reset' };

  await assert.rejects(read(node), (error: Error) => (error.cause as { code?: string }).code === 'ECONNRESET');
});

test('a slow body comes in pieces and is complete', async (t) => {
  const node = await fakeNode(t);
  const whole = await read(node);
  node.fault = { kind: 'slow body', chunkBytes: 20, everyMs: 2 };

  const reply = await fetch(node.url + probe, { headers: { 'accept-encoding': 'identity' } });
  const pieces: Uint8Array[] = [];
  assert.ok(reply.body);
  for await (const piece of reply.body) pieces.push(piece);

  assert.ok(pieces.length > 1);
  assert.equal(Buffer.concat(pieces).toString(), whole.text);
});

test('a truncated body is shorter than announced', async (t) => {
  const node = await fakeNode(t);
  node.fault = { kind: 'truncated body' };

  const reply = await fetch(node.url + probe, { headers: { 'accept-encoding': 'identity' } });

  assert.equal(reply.status, 200);
  await assert.rejects(reply.text());
});

test('a held version can be answered as pruned, while the headers show it as held', async (t) => {
  const node = await fakeNode(t);
  node.fault = { kind: 'pruned' };

  const { status, headers, text } = await read(node, `${probe}?ledger_version=500`);

  assert.equal(status, 410);
  assert.match(text, /Ledger version\(500\) has been pruned/);
  assert.equal(headers.get('x-node-ledger-oldest-version'), '0');
  assert.equal((await read(node, '')).status, 200);
});

test('a version pruned during the read is a 500 with that reason', async (t) => {
  const node = await fakeNode(t);
  node.fault = { kind: 'pruned while reading' };

  const { status, text } = await read(node, `${probe}?ledger_version=500`);

  const body = JSON.parse(text) as { message: string; error_code: string };
  assert.deepEqual([status, body.error_code], [500, 'internal_error']);
  assert.match(body.message, /500 is pruned/);
});

test('an unavailable node answers 503 without ledger headers, to probes too', async (t) => {
  const node = await fakeNode(t);
  node.fault = { kind: 'unavailable' };

  for (const path of ['', '/-/healthy', probe]) {
    const { status, headers } = await read(node, path);
    assert.deepEqual([status, headers.get('x-node-ledger-version')], [503, null]);
  }
});

test('a wrong chain id stands in the headers and in the ledger information', async (t) => {
  const node = await fakeNode(t, { chainId: 4 });
  node.fault = { kind: 'wrong chain id', chainId: 99 };

  const { headers, text } = await read(node, '');

  assert.equal(headers.get('x-node-chain-id'), '99');
  assert.equal((JSON.parse(text) as { chain_id: number }).chain_id, 99);
});

test('the ledger headers can be missing from a good answer', async (t) => {
  const node = await fakeNode(t);
  node.fault = { kind: 'no ledger headers' };

  const { status, headers } = await read(node);

  assert.deepEqual([status, [...headers.keys()].filter((name) => name.startsWith('x-node-'))], [200, []]);
});

test('a web page can stand in the place of an answer', async (t) => {
  const node = await fakeNode(t);
  node.fault = { kind: 'html' };

  const { status, headers, text } = await read(node);

  assert.deepEqual([status, headers.get('content-type')], [200, 'text/html; charset=utf-8']);
  assert.throws(() => JSON.parse(text) as unknown);
});

test('any other answer can be given', async (t) => {
  const node = await fakeNode(t);
  node.fault = { kind: 'answer', status: 429, body: 'slow down', headers: { 'retry-after': '2' } };

  const { status, headers, text } = await read(node);

  assert.deepEqual([status, headers.get('retry-after'), text], [429, '2', 'slow down']);
});

test('a refusing node takes no connections until it accepts again, on the same port', async (t) => {
  const node = await fakeNode(t);
  const url = node.url;

  await node.refuse();
  await assert.rejects(read(node), (error: Error) => (error.cause as { code?: string }).code === 'ECONNREFUSED');
  await node.accept();

  assert.equal((await read(node)).status, 200);
  assert.equal(node.url, url);
});

test('a fault can be limited to some requests and to a number of them', async (t) => {
  const node = await fakeNode(t);
  node.faults.add({ kind: 'unavailable' }, { when: ({ url }) => url.endsWith('=5'), times: 2 });
  const status = async (version: number): Promise<number> =>
    (await read(node, `${probe}?ledger_version=${version}`)).status;

  assert.deepEqual([await status(4), await status(5), await status(5), await status(5)], [200, 503, 503, 200]);
});

function idAndHead({ headers }: { readonly headers: Headers }): readonly (string | null)[] {
  return [headers.get('x-node-chain-id'), headers.get('x-node-ledger-version')];
}

test('several faults act together, and healing takes all of them away', async (t) => {
  const node = await fakeNode(t);
  node.faults.add({ kind: 'lag', versions: 10n });
  node.faults.add({ kind: 'wrong chain id', chainId: 9 });

  const sick = await read(node);
  node.fault = undefined;
  const healed = await read(node);

  assert.deepEqual(
    [idAndHead(sick), idAndHead(healed)],
    [
      ['9', '990'],
      ['1', '1000'],
    ],
  );
});
