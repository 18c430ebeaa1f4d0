import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { curlExamples, startSampleFleet } from '../../src/sample/sample-fleet.ts';
import { fakeNode, type FakeNode } from '../support/fake-node.ts';
import type { SampleFault as Fault } from '../support/sample-faults.ts';

const probe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe';

async function read(node: FakeNode, path = probe): Promise<{ status: number; headers: Headers; text: string }> {
  const reply = await fetch(node.url + path, { headers: { 'accept-encoding': 'identity' } });
  return { status: reply.status, headers: reply.headers, text: await reply.text() };
}

async function faulty(t: TestContext, fault: Fault): Promise<FakeNode> {
  const node = await fakeNode(t);
  node.fault = fault;
  return node;
}

/** A fault, what is read, and what comes back: a status, a header, a text. */
const answered: readonly (readonly [
  Fault,
  query: string,
  status: number,
  header: string,
  value: string | null,
  RegExp,
])[] = [
  [{ kind: 'lag', versions: 100n }, '', 200, 'x-node-ledger-version', '900', /"ledger_version":"900"/],
  [{ kind: 'lag', versions: 100n }, '901', 404, 'x-node-ledger-version', '900', /version_not_found/],
  // The headers show the version as held.
  [{ kind: 'pruned' }, '500', 410, 'x-node-ledger-oldest-version', '0', /Ledger version\(500\) has been pruned/],
  [{ kind: 'pruned while reading' }, '500', 500, 'x-node-chain-id', '1', /500 is pruned.*"internal_error"/],
  [{ kind: 'unavailable' }, '', 503, 'x-node-ledger-version', null, /./],
  [{ kind: 'no ledger headers' }, '', 200, 'x-node-ledger-version', null, /"ledger_version":"1000"/],
  [{ kind: 'html' }, '', 200, 'content-type', 'text/html; charset=utf-8', /^</],
  [
    { kind: 'answer', status: 429, body: 'slow', headers: { 'retry-after': '2' } },
    '',
    429,
    'retry-after',
    '2',
    /^slow$/,
  ],
];

for (const [fault, version, status, header, value, text] of answered) {
  test(`a node with the fault ${fault.kind} answers ${status} to a read of ${version || 'the latest version'}`, async (t) => {
    const reply = await read(await faulty(t, fault), version === '' ? probe : `${probe}?ledger_version=${version}`);

    assert.deepEqual([reply.status, reply.headers.get(header)], [status, value]);
    assert.match(reply.text, text);
  });
}

test('an unavailable node is so to probes, and one that answers as pruned has its ledger info', async (t) => {
  const [unavailable, pruned] = [await faulty(t, { kind: 'unavailable' }), await faulty(t, { kind: 'pruned' })];

  for (const path of ['', '/-/healthy']) assert.equal((await read(unavailable, path)).status, 503);
  assert.equal((await read(pruned, '')).status, 200);
});

test('latency delays the answer', async (t) => {
  const node = await faulty(t, { kind: 'latency', ms: 30 });
  const start = performance.now();

  const { status } = await read(node);

  assert.equal(status, 200);
  // Timers may fire a little early by this clock.
  assert.ok(performance.now() - start >= 28);
});

test('a slow body comes in pieces and is complete, a truncated one is shorter than announced', async (t) => {
  const node = await fakeNode(t);
  const whole = await read(node);
  node.fault = { kind: 'slow body', chunkBytes: 20, everyMs: 2 };

  const reply = await fetch(node.url + probe, { headers: { 'accept-encoding': 'identity' } });
  const pieces: Uint8Array[] = [];
  for await (const piece of reply.body ?? []) pieces.push(piece);

  assert.ok(pieces.length > 1);
  assert.equal(Buffer.concat(pieces).toString(), whole.text);
  node.fault = { kind: 'truncated body' };
  await assert.rejects(read(node));
});

test('a wrong chain id stands in the headers and in the ledger information', async (t) => {
  const { headers, text } = await read(await faulty(t, { kind: 'wrong chain id', chainId: 99 }), '');

  assert.equal(headers.get('x-node-chain-id'), '99');
  assert.equal((JSON.parse(text) as { chain_id: number }).chain_id, 99);
});

const run = promisify(execFile);

/** `command` split as a shell does: the arguments of curl. */
async function argumentsOf(command: string): Promise<readonly string[]> {
  const { stdout } = await run('sh', ['-c', `curl() { printf '%s\\0' "$@"; }; ${command}`]);
  return stdout.split('\0').slice(0, -1);
}

test('the sample fleet is a pruned and an archival node of one moving ledger', async (t) => {
  let nowMs = Date.UTC(2026, 0, 1);
  const fleet = await startSampleFleet({ now: () => nowMs });
  t.after(() => fleet.close());
  const [full, archival] = fleet.nodes;
  assert.ok(full && archival);

  const before = fleet.state();
  nowMs += 60_000;
  const after = fleet.state();

  assert.deepEqual([full.tier, archival.tier], ['full', 'archival']);
  assert.match(full.url, /^http:\/\/127\.0\.0\.1:\d+\/v1$/);
  assert.equal(after.head - before.head, 60n * 190n);
  assert.ok(after.oldest > before.oldest);
  assert.equal(after.archivalOldest, 0n);
  assert.equal(full.node.ledger().version, archival.node.ledger().version);
});

test('an example survives a shell whatever stands in it', async () => {
  const url = `http://localhost/it's "$HOME" \`x\`/v1`;
  const [example] = curlExamples(url, { head: 5n, oldest: 0n, archivalOldest: 0n });
  assert.ok(example);

  const [, target = ''] = await argumentsOf(example.command);

  assert.ok(target.startsWith(`${url}/accounts/`));
});

test('what is submitted to one node is known to the other', async (t) => {
  const fleet = await startSampleFleet();
  t.after(() => fleet.close());
  const [full, archival] = fleet.nodes;
  assert.ok(full && archival);
  const headers = { 'content-type': 'application/x.aptos.signed_transaction+bcs' };

  const reply = await fetch(`${full.url}/transactions`, { method: 'POST', body: new Uint8Array([1, 2, 3]), headers });
  const { hash } = (await reply.json()) as { hash: string };

  assert.equal((await fetch(`${archival.url}/transactions/by_hash/${hash}`)).status, 200);
});
