/** An error without the specified body (protocol 3) proves nothing about the ledger: another node is asked. */
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { test } from 'node:test';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, testGateway } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';

const probe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=60000';
const paths = {
  'a version': probe,
  'a version in BCS': probe,
  'a hash': `/transactions/by_hash/0x${'ab'.repeat(32)}`,
  'a block': '/blocks/by_height/15000',
  'a version in the path': '/transactions/by_version/60000',
  'a passed-through block': '/blocks/by_height/15000?x=1',
  'a passed-through version in the path': '/transactions/by_version/60000?x=1',
};
const whole = '{"message":"Resource not found","error_code":"resource_not_found","vm_error_code":null}';
const bodies = {
  'an empty body': { body: '' },
  'a body that was cut': { body: whole.slice(0, 40) },
  'a page': { body: '<h1>404</h1>', contentType: 'text/html' },
  'an object without error_code': { body: '{"message":"m"}' },
};
const ledger = ledgerHeaders({ version: 90_000n, oldest: 50_000n });

for (const [what, path] of Object.entries(paths)) {
  const accept = what.endsWith('BCS') ? 'application/x-bcs' : 'application/json';
  test(`404 and 410 with ledger headers and no readable error_code, for ${what}: the archive answers`, async (t) => {
    const bad = await fakeNode(t, { oldest: 50_000n, head: 90_000n, chainId: 4 });
    const archive = await fakeNode(t, { archival: true, head: 90_000n, chainId: 4 });
    const direct = await fetch(archive.url + path, { headers: { accept } });
    const expected = Buffer.from(await direct.arrayBuffer());
    for (const status of [404, 410]) {
      for (const [fault, { body, ...rest }] of Object.entries(bodies)) {
        const gateway = await testGateway(t, { full: [bad], archival: [archive] });
        bad.fault = undefined;
        bad.faults.add(
          { kind: 'answer', status, body, contentType: 'application/json', ...rest, headers: ledger },
          { when: ({ route }) => route !== 'ledgerInfo' },
        );
        const before = bad.reads;

        const reply = await gateway.get(path, { accept });

        assert.deepEqual([reply.status, reply.body], [direct.status, expected], `${status} with ${fault}`);
        assert.equal(bad.reads, before + 1, `${status} with ${fault}`);
        const failures = 'ledgergate_upstream_failures_total{upstream="full-0",kind="bad answer"}';
        assert.equal(await gateway.metric(failures), 1, `${status} with ${fault}`);
      }
    }
  });
}

test('after a compressed 404 for a hash, the archive is asked', async (t) => {
  const bad = await fakeNode(t, { oldest: 50_000n, head: 90_000n, chainId: 4 });
  const archive = await fakeNode(t, { archival: true, head: 90_000n, chainId: 4 });
  const gateway = await testGateway(t, { full: [bad], archival: [archive] });
  const body = gzipSync(whole.replaceAll('resource', 'transaction'));
  const headers = { ...ledger, 'content-encoding': 'gzip' };
  bad.faults.add({ kind: 'answer', status: 404, body, headers }, { when: ({ route }) => route !== 'ledgerInfo' });

  const reply = await gateway.get(paths['a hash']);

  assert.deepEqual([reply.status, reply.text.includes('transaction_not_found')], [404, true]);
  assert.equal(archive.reads, 1);
});

for (const status of [400, 403, 405, 415]) {
  test(`${status} with ledger headers and no readable error_code: the other node answers`, async (t) => {
    const bad = await fakeNode(t, { oldest: 50_000n, head: 90_000n, chainId: 4 });
    const good = await fakeNode(t, { head: 90_000n, chainId: 4 });
    const gateway = await testGateway(t, { full: [bad, good] });
    bad.faults.add(
      { kind: 'answer', status, body: '', headers: ledger },
      { when: ({ route }) => route !== 'ledgerInfo' },
    );

    const reply = await gateway.get(probe);

    assert.equal(reply.status, 200);
    assert.equal(bad.requestsTo('resource'), 1);
  });
}

test('413 for a view, which nodes give without an error_code, is the answer; for a read without a body it is none', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { head: 90_000n, chainId: 4 });
  node.faults.add({ kind: 'answer', status: 413, body: 'payload too large', contentType: 'text/plain' });
  const view = JSON.stringify({ function: '0x1::coin::balance', type_arguments: [], arguments: [] });

  const posted = await gateway.post('/view?ledger_version=60000', view);
  const read = await gateway.get(probe);

  assert.deepEqual([posted.status, posted.text, read.status], [413, 'payload too large', 503]);
});
