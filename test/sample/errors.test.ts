import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeNode } from '../support/fake-node.ts';

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
