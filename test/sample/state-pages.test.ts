import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeNode, type FakeNode } from '../support/fake-node.ts';

/** Follows the cursors from the first page; one array for each page. */
async function pagesOf(node: FakeNode, path: string, limit: number): Promise<readonly (readonly unknown[])[]> {
  const pages: unknown[][] = [];
  for (let start = ''; pages.length < 100;) {
    const reply = await fetch(`${node.url}${path}?limit=${limit}${start}`);
    assert.equal(reply.status, 200);
    pages.push((await reply.json()) as unknown[]);
    const cursor = reply.headers.get('x-node-cursor');
    if (cursor === null) return pages;
    assert.match(cursor, /^[0-9a-f]+$/);
    start = `&start=${cursor}`;
  }
  throw new Error('the cursors do not end');
}

for (const name of ['resources', 'modules']) {
  test(`pages of ${name} make up the whole, each once, and only the last has no cursor`, async (t) => {
    const node = await fakeNode(t);
    const path = `/accounts/0x1/${name}`;

    const [whole] = await pagesOf(node, path, 9999);
    const pages = await pagesOf(node, path, 7);

    assert.ok(whole !== undefined && whole.length > 7);
    assert.deepEqual(pages.flat(), whole);
    assert.deepEqual(new Set(pages.slice(0, -1).map((page) => page.length)), new Set([7]));
    const reply = await fetch(`${node.url}${path}?limit=3`, { headers: { accept: 'application/x-bcs' } });
    assert.equal(Buffer.from(await reply.arrayBuffer())[0], 3);
  });

  test(`a page of ${name} is read at its version, and has the errors of one`, async (t) => {
    const node = await fakeNode(t, { oldest: 400n });
    const status = async (account: string, query: string): Promise<readonly unknown[]> => {
      const reply = await fetch(`${node.url}/accounts/${account}/${name}?${query}`);
      const { error_code } = (await reply.json()) as { error_code?: string };
      return [reply.status, error_code];
    };

    assert.deepEqual(await status('0x1', 'ledger_version=500'), [200, undefined]);
    assert.deepEqual(await status('0x1', 'ledger_version=399'), [410, 'version_pruned']);
    assert.deepEqual(await status('0x1', 'ledger_version=1001'), [404, 'version_not_found']);
    assert.deepEqual(await status('0x1', 'limit=0'), [400, 'invalid_input']);
    assert.deepEqual(await status('0x1', 'start=0x'), [400, 'web_framework_error']);
    assert.deepEqual(await status('0xdead', ''), [404, 'account_not_found']);
  });
}

test('resources show the version that was read', async (t) => {
  const node = await fakeNode(t);

  const reply = await fetch(`${node.url}/accounts/0x5a000001/resources?ledger_version=77`);

  assert.match(await reply.text(), /"ledger_version":"77"/);
});

function post(body: string, accept = 'application/json'): RequestInit {
  return { method: 'POST', body, headers: { accept, 'content-type': 'application/json' } };
}

test('an item of a computed table shows its key and version; a raw item is BCS only', async (t) => {
  const node = await fakeNode(t);
  const item = async (key: string, version: number): Promise<unknown> => {
    const body = `{"key_type":"u64","value_type":"u8","key":${key}}`;
    return (await fetch(`${node.url}/tables/0x5a000001/item?ledger_version=${version}`, post(body))).json();
  };
  const raw = async (key: string, accept: string): Promise<readonly [number, string]> => {
    const reply = await fetch(`${node.url}/tables/0x5a000001/raw_item`, post(`{"key":"${key}"}`, accept));
    return [reply.status, Buffer.from(await reply.arrayBuffer()).toString('hex')];
  };

  assert.deepEqual(await item('{"a":"1"}', 9), {
    handle: '0x5a000001',
    key: '{"a":"1"}',
    value_type: 'u8',
    ledger_version: '9',
  });
  assert.notDeepEqual(await item('"2"', 9), await item('"2"', 10));
  assert.equal((await raw('0x01', 'application/json'))[0], 403);
  const [first, other] = [await raw('0x01', 'application/x-bcs'), await raw('0x02', 'application/x-bcs')];
  assert.deepEqual([first[0], other[0]], [200, 200]);
  assert.notEqual(first[1], other[1]);
});

test('the specification and the build carry no ledger headers', async (t) => {
  const node = await fakeNode(t);
  const types = ['text/html', 'application/json', 'application/x-yaml', 'application/json'];

  for (const [index, path] of ['/spec', '/spec.json', '/spec.yaml', '/info'].entries()) {
    const reply = await fetch(node.url + path);
    assert.deepEqual([reply.status, reply.headers.get('content-type')], [200, types[index]]);
    assert.equal(reply.headers.get('x-node-ledger-version'), null);
  }
});

test('a simulation is one transaction that used gas', async (t) => {
  const node = await fakeNode(t);
  const headers = { 'content-type': 'application/x.aptos.signed_transaction+bcs' };

  const reply = await fetch(`${node.url}/transactions/simulate`, {
    method: 'POST',
    body: new Uint8Array([1]),
    headers,
  });

  const [transaction] = (await reply.json()) as readonly { success: boolean }[];
  assert.deepEqual([reply.status, transaction?.success], [200, true]);
  assert.match(reply.headers.get('x-node-gas-used') ?? '', /^\d+$/);
});
