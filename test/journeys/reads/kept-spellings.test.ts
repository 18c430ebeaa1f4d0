/** Requests in many spellings over real sockets: one node call, and the bytes that a node answers to the same spelling. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeNode } from '../../support/fake-node.ts';
import { fetchReply, testGateway } from '../../support/gateway.ts';
import { spellRequest, type KeptRequest, type Value } from '../../support/kept-spellings.ts';
import { Draw, type StructTag } from '../../support/spellings.ts';

const account: Value = { of: 'address', digits: '5a000001' };
const number = (value: bigint): Value => ({ of: 'number', number: value });
const struct = (module: string, name: string): StructTag => ({
  kind: 'struct',
  address: '1',
  module,
  name,
  arguments: [],
});
const at = [['ledger_version', number(600n)]] as const;
const probe: Value = { of: 'tag', tag: struct('ledgergate_sample', 'Probe') };
const coin: Value = { of: 'tag', tag: struct('aptos_coin', 'AptosCoin') };

const requests: Readonly<Record<string, Partial<KeptRequest> & Pick<KeptRequest, 'path' | 'query'>>> = {
  account: { path: ['accounts', account], query: at },
  balance: { path: ['accounts', account, 'balance', coin], query: at },
  resource: { path: ['accounts', { of: 'address', digits: '1' }, 'resource', probe], query: at },
  resources: {
    path: ['accounts', { of: 'address', digits: '1' }, 'resources'],
    query: [...at, ['limit', number(5n)]],
  },
  'table item': {
    method: 'POST',
    path: ['tables', account, 'item'],
    query: at,
    body: [
      ['key_type', { kind: 'vector', element: struct('string', 'String') }],
      ['value_type', { kind: 'primitive', name: 'u64' }],
      ['key', ['a"\u00e9/', { number: '1.0' }]],
    ],
  },
  'transaction by version': { path: ['transactions', 'by_version', number(600n)], query: [] },
  transactions: {
    path: ['transactions'],
    query: [
      ['start', number(600n)],
      ['limit', number(5n)],
    ],
  },
  block: { path: ['blocks', 'by_height', number(30n)], query: [['with_transactions', { of: 'flag', isOn: true }]] },
  events: {
    path: ['accounts', account, 'events', probe, { of: 'word', word: 'events' }],
    query: [
      ['start', number(30n)],
      ['limit', number(5n)],
    ],
  },
};

for (const [kind, request] of Object.entries(requests)) {
  test(`twenty spellings of one request cost one node call, and answer as a node does (${kind})`, async (t) => {
    const node = await fakeNode(t, { head: 999n });
    const twin = await fakeNode(t, { head: 999n });
    const gateway = await testGateway(t, { full: [node] });
    for (let seed = 0; seed < 20; seed += 1) {
      const spelled = spellRequest(new Draw(seed), { kind, method: 'GET', form: 'json', ...request });
      const { method, target, accept = '*/*', body } = spelled;
      const headers = { accept, ...(method === 'POST' ? { 'content-type': 'application/json' } : {}) };
      const options = { method, headers, body: method === 'POST' ? body : null };
      const own = await fetchReply(new URL(twin.url).origin + target, options);
      const reply = await fetchReply(new URL(gateway.url).origin + target, options);
      assert.deepEqual([reply.status, own.status], [200, 200], `${target} ${reply.text} ${own.text}`);
      assert.ok(reply.body.equals(own.body), `${target} ${body}: ${reply.text}, not ${own.text}`);
    }
    assert.equal(node.reads, 1);
  });
}
