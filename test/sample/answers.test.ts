import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, test } from 'node:test';
import { Dialect } from '../../src/ledger/ledger-headers.ts';
import encodeRows from '../../src/sample/data/encode.json' with { type: 'json' };
import errorRows from '../../src/sample/data/errors.json' with { type: 'json' };
import ledgerRows from '../../src/sample/data/ledger.json' with { type: 'json' };
import moduleRows from '../../src/sample/data/modules.json' with { type: 'json' };
import resourceRows from '../../src/sample/data/resources.json' with { type: 'json' };
import transactionRows from '../../src/sample/data/transactions.json' with { type: 'json' };
import viewRows from '../../src/sample/data/views.json' with { type: 'json' };
import { advancingClock } from '../../src/sample/ledger-clock.ts';
import { fakeNode, type FakeNode } from '../support/fake-node.ts';
import { ManualClock } from '../support/manual-clock.ts';

/** For tests that change nothing of it. */
const node = await fakeNode({ after });

/** The path of a recording, each segment encoded as a client does. */
function encodedPath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}

function postJson(body: string): RequestInit {
  return { method: 'POST', body, headers: { 'content-type': 'application/json' } };
}

test('every recorded resource and module is answered byte for byte', async () => {
  for (const { path, body } of [...resourceRows, ...moduleRows]) {
    const reply = await fetch(`${node.url}${encodedPath(path)}?ledger_version=500`);
    assert.equal(reply.status, 200, path);
    assert.equal(await reply.text(), body);
  }
});

test('every recorded transaction is found under the hash of its name, byte for byte', async () => {
  for (const { hash, from, body } of transactionRows) {
    const name = from.replace('transactions/', '').replace('.json', '');
    assert.equal(hash, `0x${createHash('sha3-256').update(name).digest('hex')}`);
    const reply = await fetch(`${node.url}/transactions/by_hash/${hash}`);
    assert.equal(await reply.text(), body);
  }
});

test('every recorded view is answered byte for byte, whatever its spelling', async () => {
  const answered = new Set<string>();

  for (const { request, status, body } of viewRows) {
    const spelled = request.replaceAll('{address}', '0x0A').replace('"function":', '  "function" : ');
    if (answered.has(spelled)) continue;
    answered.add(spelled);
    const reply = await fetch(`${node.url}/view`, postJson(spelled));
    assert.equal(reply.status, status, request);
    assert.equal(await reply.text(), body);
  }
});

test('every recorded request for a signing message is answered on its chain, byte for byte', async (t) => {
  for (const { chainId, request, status, body, name } of encodeRows) {
    const node = await fakeNode(t, { chainId });
    const reply = await fetch(`${node.url}/transactions/encode_submission`, postJson(request));
    assert.equal(reply.status, status, name);
    assert.equal(await reply.text(), body);
    const isFramework = body.includes('web_framework_error');
    assert.equal(reply.headers.get('x-node-ledger-version'), isFramework ? null : '1000');
    await node.close();
  }
});

test('a signing message without a recording is refused as an unknown function', async () => {
  const request = (encodeRows[0]?.request ?? '').replace('0x1::coin::transfer', '0x1::coin::steal');

  const reply = await fetch(`${node.url}/transactions/encode_submission`, postJson(request));

  const body = (await reply.json()) as { message: string; error_code: string };
  assert.deepEqual([reply.status, body.error_code], [400, 'invalid_input']);
  assert.match(body.message, /could not find entry function by 0x1::coin::steal$/);
});

test('a signing message is never given in BCS', async () => {
  const init = postJson(encodeRows[0]?.request ?? '');
  const headers = { 'content-type': 'application/json', accept: 'application/x-bcs' };

  const reply = await fetch(`${node.url}/transactions/encode_submission`, { ...init, headers });

  assert.deepEqual([reply.status, reply.headers.get('x-node-epoch')], [400, null]);
  assert.equal(((await reply.json()) as { error_code: string }).error_code, 'bcs_not_supported');
});

// The recorded node had nothing but version 0.
const reproduced = [
  ['get_account_module_not_found', 'get_account_resource_address_not_found'],
  ['get_account_resource_struct_tag_not_found', 'get_account_resource_by_invalid_address_0'],
  ['get_account_resource_by_invalid_address_1', 'get_account_resource_with_version_too_large'],
  ['get_transaction_by_hash_not_found', 'get_transaction_by_invalid_hash'],
].flat();

for (const name of reproduced) {
  test(`the recorded error ${name} is reproduced word for word`, async (t) => {
    const node = await fakeNode(t, { head: 0n });
    const row = errorRows.find(({ from }) => from === `errors/${name}.json`);
    assert.ok(row);

    const reply = await fetch(node.url + row.path);

    assert.equal(reply.status, row.status);
    assert.deepEqual(await reply.json(), JSON.parse(row.body));
  });
}

test('a recorded bad struct tag is refused with the same status and code', async () => {
  const row = errorRows.find(({ from }) => from.includes('invalid_struct_tag'));
  assert.ok(row);

  const reply = await fetch(node.url + row.path);

  const { error_code } = JSON.parse(row.body) as { error_code: string };
  assert.deepEqual([reply.status, ((await reply.json()) as { error_code: string }).error_code], [400, error_code]);
});

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

test('the form follows Accept: exact types by falling q, JSON for anything else', async () => {
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

const readBcs = async (path: string): Promise<Response> =>
  fetch(node.url + path, { headers: { accept: 'application/x-bcs' } });

test('BCS answers depend on the state that was read', async () => {
  const probe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=';

  const [first, again, other] = [await readBcs(`${probe}5`), await readBcs(`${probe}5`), await readBcs(`${probe}6`)];

  const bytes = Buffer.from(await first.arrayBuffer());
  assert.deepEqual(Buffer.from(await again.arrayBuffer()), bytes);
  assert.notDeepEqual(Buffer.from(await other.arrayBuffer()), bytes);
});

test('HEAD answers as GET without a body', async () => {
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

test('health is judged by the age of the ledger', async () => {
  const [plain, strict] = [await fetch(`${node.url}/-/healthy`), await fetch(`${node.url}/-/healthy?duration_secs=60`)];

  // A manual ledger stands in the past.
  assert.deepEqual([plain.status, strict.status], [200, 503]);
  assert.equal(((await strict.json()) as { error_code: string }).error_code, 'health_check_failed');
  assert.equal(strict.headers.get('x-node-ledger-version'), '1000');
});

/** Reads of a node that holds the versions 400 to 1000: path, status and code, for some the message. */
const errors = `
/transactions?start=500&limit=0 400 invalid_input
/transactions?start=1001 400 invalid_input
/transactions?start=399 410 version_pruned
/transactions?start=x 400 web_framework_error
/transactions?start=500&limit=70000 400 web_framework_error
/transactions/auxiliary_info 400 web_framework_error
/transactions/auxiliary_info?start_version=500&limit=0 400 invalid_input
/transactions/auxiliary_info?start_version=1001 400 invalid_input
/transactions/auxiliary_info?start_version=399 410 version_pruned
/transactions/auxiliary_info?start_version=x 400 web_framework_error
/transactions/auxiliary_info?start_version=500&limit=70000 400 web_framework_error
/transactions/by_version/1001 404 transaction_not_found Transaction not found by Ledger version(1001)
/transactions/by_version/-1 400 web_framework_error
/transactions/by_hash/0x1 400 web_framework_error
/blocks/by_height/51 404 block_not_found
/blocks/by_version/1001 404 block_not_found
/blocks/by_height/19 410 block_pruned
/blocks/by_version/399 410 version_pruned
/accounts/0x1/resource/0x1::account::Account?ledger_version=399 410 version_pruned Ledger version(399) has been pruned
/accounts/0x1/module/coin?ledger_version=1001 404 version_not_found Ledger version not found by Ledger version(1001)
/accounts/0xzz/resource/0x1::account::Account 400 web_framework_error
/accounts/0x1/resource/0x1::account 400 web_framework_error
/accounts/0x1/resource/u64 400 web_framework_error
/accounts/%zz/resource/0x1::account::Account 400 web_framework_error
/accounts/0X1/module/coin 400 web_framework_error
/accounts/0xdead 404 account_not_found
/accounts/0xdead/resource/0x1::ledgergate_sample::Probe 404 resource_not_found
/accounts/0xdead/resources 404 account_not_found
/accounts/0xdead/modules 404 account_not_found
/accounts/0x1/resources?start=0x 400 web_framework_error
/accounts/0x1/modules?start=0x 400 web_framework_error
/accounts/0x1/events/3?start=0 410 version_pruned
/accounts/0xdead/events/3 404 account_not_found
/accounts/0x1/events/x 400 web_framework_error
/accounts/0x5a000001/events/0x1::ledgergate_sample::Probe/toString 404 struct_field_not_found
/accounts/0x1/events/0x1::no::Such/field 404 resource_not_found
/no/such/route 404 web_framework_error
/view 405 web_framework_error
`;

test('errors have the status and code of a node; those of its framework have no ledger headers', async (t) => {
  const node = await fakeNode(t, { oldest: 400n });

  for (const line of errors.trim().split('\n')) {
    const [path = '', , code, ...message] = line.split(' ');
    const reply = await fetch(node.url + path, { headers: { accept: 'application/x-bcs' } });
    const body = (await reply.json()) as { message: string; error_code: string };
    const shown = message.length > 0 ? ` ${body.message}` : '';
    assert.equal(`${path} ${reply.status} ${body.error_code}${shown}`, line);
    const isFramework = code === 'web_framework_error';
    const type = isFramework ? 'application/json' : 'application/json; charset=utf-8';
    assert.deepEqual([path, reply.headers.get('content-type')], [path, type]);
    assert.deepEqual([path, reply.headers.get('x-node-ledger-oldest-version')], [path, isFramework ? null : '400']);
  }
  for (const height of [20, 50]) assert.equal((await fetch(`${node.url}/blocks/by_height/${height}`)).status, 200);
});

const probe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe';

test('a version from oldest to head is served with its state; of two the first counts', async (t) => {
  const node = await fakeNode(t, { oldest: 500n, head: 900n });

  for (const version of ['500', '700', '900', '%2B0700', '505&ledger_version=506&x=1']) {
    const reply = await fetch(`${node.url}${probe}?ledger_version=${version}`);
    const ledger_version = String(parseInt(version.replace('%2B', ''), 10));
    assert.deepEqual(await reply.json(), {
      type: '0x1::ledgergate_sample::Probe',
      data: { address: '0x1', ledger_version },
    });
  }
});

test('the edges move with the clock', async (t) => {
  const node = await fakeNode(t, { oldest: 500n, head: 900n });
  const status = async (version: number): Promise<number> =>
    (await fetch(`${node.url}${probe}?ledger_version=${version}`)).status;

  assert.deepEqual([await status(500), await status(901)], [200, 404]);
  node.clock.oldest = 501n;
  node.clock.advance(1n);
  assert.deepEqual([await status(500), await status(901)], [410, 200]);
});

test('an advancing ledger moves with time, in whole blocks, and never ahead of time', () => {
  let nowMs = 1_000_000;
  const clock = advancingClock({ startHead: 10_000n, startMs: 1_000_000, versionsPerSecond: 190, now: () => nowMs });

  const start = clock.read();
  nowMs += 10_000;
  const later = clock.read();

  assert.deepEqual([start.version, later.version], [9_999n, 11_899n]);
  assert.ok(later.timestampUsec <= BigInt(nowMs) * 1000n);
  assert.ok(later.timestampUsec > BigInt(nowMs) * 1000n - 200_000n);
  assert.equal(later.blockHeight, 594n);
});

test('the window follows the head in steps and never moves back', () => {
  let nowMs = 0;
  const clock = advancingClock({
    startMs: 0,
    versionsPerSecond: 1000,
    window: 5000n,
    pruneStep: 700n,
    now: () => nowMs,
  });
  let last = 0n;

  for (; nowMs < 20_000; nowMs += 37) {
    const { version, oldestVersion } = clock.read();
    assert.ok(oldestVersion >= last);
    assert.equal(oldestVersion % 700n, 0n);
    assert.ok(oldestVersion === 0n || version - oldestVersion >= 5000n);
    assert.ok(version - oldestVersion < 5000n + 700n);
    last = oldestVersion;
  }
  assert.ok(last > 0n);
});

test('lagging clocks of one ledger agree on its timestamps', () => {
  const ledger = { startHead: 10_000n, startMs: 0, now: () => 0 };
  const [ahead, behind] = [advancingClock(ledger), advancingClock({ ...ledger, lag: 1000n })];

  assert.equal(ahead.read().version - behind.read().version, 1000n);
  assert.deepEqual(behind.read(), ahead.read(1000n));
  assert.equal(behind.timestampUsecOf(5n), ahead.timestampUsecOf(5n));
});

test('a manual ledger stands where it is put', () => {
  const clock = new ManualClock({ head: 900n, oldest: 500n });
  clock.advance(10n);
  clock.oldest = 520n;

  const { version, oldestVersion, blockHeight, oldestBlockHeight } = clock.read();

  assert.deepEqual([version, oldestVersion, blockHeight, oldestBlockHeight], [910n, 520n, 45n, 26n]);
  assert.deepEqual([clock.read(400n).version, clock.read(400n).oldestVersion], [510n, 510n]);
});
