import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dialect } from '../../src/ledger/ledger-headers.ts';
import ledgerRows from '../../src/sample/data/ledger.json' with { type: 'json' };
import { fakeNode, type FakeNode } from '../support/fake-node.ts';

const account = '/accounts/0x1/resource/0x1::account::Account';

test('the ledger information is that of its own headers, with the recorded fields', async (t) => {
  const node = await fakeNode(t, { oldest: 400n, head: 900n, chainId: 4 });

  const reply = await fetch(node.url);
  const body = (await reply.json()) as Record<string, unknown>;
  const info = new Dialect('node').findInfo(Object.fromEntries(reply.headers));

  assert.ok(info);
  assert.deepEqual(
    [body['chain_id'], body['epoch'], body['ledger_version'], body['oldest_ledger_version'], body['ledger_timestamp']],
    [4, String(info.epoch), '900', '400', String(info.timestampUsec)],
  );
  assert.deepEqual([body['block_height'], body['oldest_block_height']], ['45', '20']);
  const recorded = JSON.parse(ledgerRows[0]?.body ?? '{}') as Record<string, unknown>;
  assert.deepEqual(Object.keys(body), Object.keys(recorded));
});

async function versionsOf({ url }: FakeNode): Promise<unknown> {
  const { headers } = await fetch(url + account);
  return ['node', 'aptos'].map((name) => headers.get(`x-${name}-ledger-version`));
}

test('the dialect names the ledger headers', async (t) => {
  const [plain, aptos] = [await fakeNode(t), await fakeNode(t, { dialect: 'aptos' })];

  assert.deepEqual(
    [await versionsOf(plain), await versionsOf(aptos)],
    [
      ['1000', null],
      [null, '1000'],
    ],
  );
});

test('the form follows Accept: exact types by falling q, JSON for anything else', async (t) => {
  const node = await fakeNode(t);
  const json = 'application/json; charset=utf-8';
  const bcs = 'application/x-bcs';
  const cases: readonly (readonly [string, string])[] = [
    ['*/*', json],
    ['text/html', json],
    ['application/x-bcs', bcs],
    ['APPLICATION/X-BCS', bcs],
    ['application/x-bcs;q=0.9', json],
    ['text/html, application/x-bcs', bcs],
    ['application/json, application/x-bcs', json],
    ['application/x-bcs, application/json', bcs],
  ];

  for (const [accept, type] of cases) {
    const reply = await fetch(node.url + account, { headers: { accept } });
    assert.deepEqual([accept, reply.headers.get('content-type')], [accept, type]);
  }
});

test('BCS answers depend on the state that was read', async (t) => {
  const node = await fakeNode(t);
  const read = async (path: string): Promise<Response> =>
    fetch(node.url + path, { headers: { accept: 'application/x-bcs' } });
  const probe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=';

  const [first, again, other] = [await read(`${probe}5`), await read(`${probe}5`), await read(`${probe}6`)];

  const bytes = Buffer.from(await first.arrayBuffer());
  assert.deepEqual(Buffer.from(await again.arrayBuffer()), bytes);
  assert.notDeepEqual(Buffer.from(await other.arrayBuffer()), bytes);
});

test('HEAD answers as GET without a body', async (t) => {
  const node = await fakeNode(t);

  const get = await fetch(node.url + account, { headers: { 'accept-encoding': 'identity' } });
  const head = await fetch(node.url + account, { method: 'HEAD', headers: { 'accept-encoding': 'identity' } });

  assert.equal(head.status, 200);
  assert.equal(head.headers.get('content-length'), String((await get.arrayBuffer()).byteLength));
  assert.equal(head.headers.get('x-node-ledger-version'), '1000');
  assert.equal(await head.text(), '');
});

test('gzip is used where the client takes it, and can be turned off', async (t) => {
  const [node, plain] = [await fakeNode(t), await fakeNode(t, { compression: false })];
  const init = { headers: { 'accept-encoding': 'gzip' } };

  const [packed, unpacked] = [await fetch(node.url + account, init), await fetch(plain.url + account, init)];

  assert.deepEqual([packed.headers.get('content-encoding'), unpacked.headers.get('content-encoding')], ['gzip', null]);
  assert.equal(await packed.text(), await unpacked.text());
});

test('health is judged by the age of the ledger', async (t) => {
  const node = await fakeNode(t);

  const [plain, strict] = [await fetch(`${node.url}/-/healthy`), await fetch(`${node.url}/-/healthy?duration_secs=60`)];

  // A manual ledger stands in the past.
  assert.deepEqual([plain.status, strict.status], [200, 503]);
  assert.equal(((await strict.json()) as { error_code: string }).error_code, 'health_check_failed');
  assert.equal(strict.headers.get('x-node-ledger-version'), '1000');
});
