import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import encodeRows from '../../src/sample/data/encode.json' with { type: 'json' };
import errorRows from '../../src/sample/data/errors.json' with { type: 'json' };
import moduleRows from '../../src/sample/data/modules.json' with { type: 'json' };
import resourceRows from '../../src/sample/data/resources.json' with { type: 'json' };
import transactionRows from '../../src/sample/data/transactions.json' with { type: 'json' };
import viewRows from '../../src/sample/data/views.json' with { type: 'json' };
import { fakeNode } from '../support/fake-node.ts';

/** The path of a recording, each segment encoded as a client does. */
function encodedPath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}

function postJson(body: string): RequestInit {
  return { method: 'POST', body, headers: { 'content-type': 'application/json' } };
}

test('every recorded resource and module is answered byte for byte', async (t) => {
  const node = await fakeNode(t);

  for (const { path, body } of [...resourceRows, ...moduleRows]) {
    const reply = await fetch(`${node.url}${encodedPath(path)}?ledger_version=500`);
    assert.equal(reply.status, 200, path);
    assert.equal(await reply.text(), body);
  }
});

test('every recorded transaction is found under the hash of its name, byte for byte', async (t) => {
  const node = await fakeNode(t);

  for (const { hash, from, body } of transactionRows) {
    const name = from.replace('transactions/', '').replace('.json', '');
    assert.equal(hash, `0x${createHash('sha3-256').update(name).digest('hex')}`);
    const reply = await fetch(`${node.url}/transactions/by_hash/${hash}`);
    assert.equal(await reply.text(), body);
  }
});

test('every recorded view is answered byte for byte, whatever its spelling', async (t) => {
  const node = await fakeNode(t);
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

test('a signing message without a recording is refused as an unknown function', async (t) => {
  const node = await fakeNode(t);
  const request = (encodeRows[0]?.request ?? '').replace('0x1::coin::transfer', '0x1::coin::steal');

  const reply = await fetch(`${node.url}/transactions/encode_submission`, postJson(request));

  const body = (await reply.json()) as { message: string; error_code: string };
  assert.deepEqual([reply.status, body.error_code], [400, 'invalid_input']);
  assert.match(body.message, /could not find entry function by 0x1::coin::steal$/);
});

test('a signing message is never given in BCS', async (t) => {
  const node = await fakeNode(t);
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

test('a recorded bad struct tag is refused with the same status and code', async (t) => {
  const node = await fakeNode(t);
  const row = errorRows.find(({ from }) => from.includes('invalid_struct_tag'));
  assert.ok(row);

  const reply = await fetch(node.url + row.path);

  const { error_code } = JSON.parse(row.body) as { error_code: string };
  assert.deepEqual([reply.status, ((await reply.json()) as { error_code: string }).error_code], [400, error_code]);
});
