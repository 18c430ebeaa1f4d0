import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, test } from 'node:test';
import { Mempool } from '../../src/sample/mempool.ts';
import { recordedTransactions } from '../../src/sample/recorded.ts';
import { fakeNode, type FakeNode } from '../support/fake-node.ts';
import { submission } from '../support/submission.ts';

/** For tests that change nothing of it. */
const node = await fakeNode({ after });

const viewPath = '/view?ledger_version=7';
const bcsView = 'application/x.aptos.view_function+bcs';

function post(body: string | Uint8Array<ArrayBuffer>, type = 'application/json') {
  return { method: 'POST', body, headers: { 'content-type': type } };
}

function viewOf(name: string, args = '[]'): string {
  return `{"function":"0x1::ledgergate_sample::${name}","type_arguments":[],"arguments": ${args}}`;
}

function bcsText(value: string): Buffer {
  return Buffer.concat([Buffer.from([value.length]), Buffer.from(value)]);
}

/** A view call in BCS, written out by hand: address, module, function, no type arguments, the arguments. */
function bcsViewOf(name: string, args: readonly string[]): Uint8Array<ArrayBuffer> {
  const address = Buffer.from('1'.padStart(64, '0'), 'hex');
  const values = args.map((hex) => Buffer.concat([Buffer.from([hex.length / 2]), Buffer.from(hex, 'hex')]));
  const counts = [Buffer.from([0]), Buffer.from([args.length])];
  return new Uint8Array(Buffer.concat([address, bcsText('ledgergate_sample'), bcsText(name), ...counts, ...values]));
}

test('the version view shows the version that was read, for a JSON and for a BCS call', async () => {
  const json = await fetch(node.url + viewPath, post(viewOf('version')));
  const bcs = await fetch(node.url + viewPath, post(bcsViewOf('version', []), bcsView));

  assert.deepEqual([await json.text(), await bcs.text()], ['["7"]', '["7"]']);
  assert.match(json.headers.get('x-node-gas-used') ?? '', /^[1-9]\d*$/);
});

test('the echo view gives back the arguments as they were written', async () => {
  const args = String.raw`[ 1.0, "a]\"" ,{"arguments" : [18446744073709551616]}, 1e0 ]`;

  const json = await fetch(node.url + viewPath, post(viewOf('echo', args)));
  const bcs = await fetch(node.url + viewPath, post(bcsViewOf('echo', ['00ff', '']), bcsView));

  assert.equal(await json.text(), args);
  assert.equal(await bcs.text(), '["0x00ff","0x"]');
});

const messageOf = async (body: RequestInit): Promise<unknown> => {
  const reply = await fetch(node.url + viewPath, body);
  assert.deepEqual([reply.status, reply.headers.get('x-node-ledger-version')], [400, '1000']);
  return ((await reply.json()) as { message: string }).message;
};

test('a view that is not known is a 400 with ledger headers', async () => {
  const unknown = viewOf('x').replace('ledgergate_sample', 'coin');
  assert.equal(await messageOf(post(unknown)), 'could not find view function by 0x1::coin::x');
  assert.match(String(await messageOf(post(viewOf('x')))), /^Module ModuleId \{.*\} can't be found$/);
  assert.match(String(await messageOf(post(new Uint8Array([1, 2]), bcsView))), /^Failed to deserialize/);
});

const statusOfType = async (path: string, body: string, type: string): Promise<number> =>
  (await fetch(node.url + path, post(body, type))).status;

test('content types of a view and of a submission match as whole strings, others as media types', async () => {
  const item = '{"key_type":"u64","value_type":"u64","key":"1"}';

  assert.equal(await statusOfType('/view', viewOf('version'), 'application/json; charset=utf-8'), 415);
  assert.equal(await statusOfType('/view', viewOf('version'), 'text/plain'), 415);
  assert.equal(await statusOfType('/transactions', '{}', 'application/json;charset=utf-8'), 415);
  assert.equal(await statusOfType('/tables/0x1/item', item, 'application/json; charset=utf-8'), 404);
  assert.equal(await statusOfType('/tables/0x1/item', item, 'application/hal+json'), 404);
  assert.equal(await statusOfType('/tables/0x1/item', item, 'text/json'), 415);
});

const statusOf = (headers: Record<string, string>, body: string): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const sent = request(`${node.url}/view`, { method: 'POST', headers }, (reply) => {
      resolve(reply.statusCode);
      sent.destroy();
    });
    sent.on('error', reject);
    sent.write(body);
    if (headers['content-length'] === undefined) sent.end();
  });

test('a POST without a declared length is a 411, one that declares too much a 413', async () => {
  assert.equal(await statusOf({ 'content-type': 'application/json', 'transfer-encoding': 'chunked' }, '{}'), 411);
  assert.equal(await statusOf({ 'content-type': 'application/json', 'content-length': '8388609' }, '{}'), 413);
});

test('a body that is no JSON, or lacks a field, is refused by the framework', async () => {
  for (const body of ['', '{', '[]', '{"function":"0x1::coin::balance","type_arguments":[]}']) {
    const reply = await fetch(node.url + viewPath, post(body));
    assert.deepEqual([body, reply.status, reply.headers.get('x-node-epoch')], [body, 400, null]);
  }
});

const readPadded = async (version: number): Promise<string> => {
  const path = `/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded60000?ledger_version=${version}`;
  return (await fetch(node.url + path)).text();
};

test('a padded resource has the size that was asked, other bytes at every version, the same ones each time', async () => {
  const [first, again, other] = [await readPadded(1), await readPadded(1), await readPadded(2)];

  assert.equal(first.length, 60_000);
  assert.equal(again, first);
  assert.notEqual(other, first);
  assert.deepEqual(Object.keys((JSON.parse(first) as { data: object }).data), ['address', 'ledger_version', 'padding']);
});

const readOfAccount = async (path: string): Promise<string> => (await fetch(`${node.url}/accounts/${path}`)).text();

test('a balance is a bare JSON number, recorded or above 2^53, and 0 for an unknown account', async () => {
  assert.equal(await readOfAccount('0x1/balance/0xa?ledger_version=3'), '1152921504606846979');
  assert.equal(await readOfAccount('0xdead/balance/0xa'), '0');
  assert.match(await readOfAccount('0xa550c18/balance/0x1::aptos_coin::AptosCoin'), /^\d{15,}$/);
});

test('a table item is not found, at a version that is named', async () => {
  const item = '{"key_type":"u64","value_type":"u64","key":{"a":"1"}}';

  const reply = await fetch(`${node.url}/tables/0x07/item?ledger_version=9`, post(item));

  const message = 'Table Item not found by Table handle(0x7), Table key({"a":"1"}) and Ledger version(9)';
  assert.deepEqual(await reply.json(), { message, error_code: 'table_item_not_found', vm_error_code: null });
});

interface Transaction {
  readonly hash: string;
  readonly type: string;
  readonly version?: string;
  readonly sender?: string;
}

async function submit(node: FakeNode): Promise<string> {
  const reply = await fetch(`${node.url}/transactions`, post(submission()));
  assert.deepEqual([reply.status, reply.headers.get('x-node-ledger-version')], [202, '1000']);
  return ((await reply.json()) as Transaction).hash;
}

async function find(node: FakeNode, path: string): Promise<{ status: number; body: Transaction }> {
  const reply = await fetch(`${node.url}/transactions/${path}`);
  return { status: reply.status, body: (await reply.json()) as Transaction };
}

test('a submitted transaction is pending, then committed at a version, and its first byte in BCS shows which', async (t) => {
  const node = await fakeNode(t);
  const hash = await submit(node);

  const firstByte = async (): Promise<number | undefined> => {
    const reply = await fetch(`${node.url}/transactions/by_hash/${hash}`, { headers: { accept: 'application/x-bcs' } });
    return new Uint8Array(await reply.arrayBuffer())[0];
  };

  const [pending, ofPending] = [await find(node, `by_hash/${hash}`), await firstByte()];
  node.mempool.commitAll(999n);
  const committed = await find(node, `by_hash/${hash}`);

  assert.deepEqual([ofPending, await firstByte()], [1, 0]);
  assert.deepEqual([pending.status, pending.body.type, pending.body.version], [200, 'pending_transaction', undefined]);
  assert.deepEqual([committed.body.type, committed.body.version], ['user_transaction', '999']);
  assert.deepEqual([committed.body.hash, committed.body.sender], [hash, '0x1']);
});

test('a transaction commits by itself at the head after its time', async (t) => {
  let nowMs = 0;
  const node = await fakeNode(t, { mempool: new Mempool({ pendingForMs: 300, now: () => nowMs }) });
  const hash = await submit(node);

  nowMs = 299;
  const before = await find(node, `by_hash/${hash}`);
  nowMs = 300;
  const after = await find(node, `by_hash/${hash}`);
  node.clock.advance(50n);
  const later = await find(node, `by_hash/${hash}`);

  assert.deepEqual(
    [before, after, later].map(({ body }) => body.version),
    [undefined, '1000', '1000'],
  );
});

test('a node that has not reached the commit still calls the transaction pending', async (t) => {
  const mempool = new Mempool({ pendingForMs: Infinity });
  const [ahead, behind] = [await fakeNode(t, { mempool }), await fakeNode(t, { mempool, head: 900n })];
  const hash = await submit(ahead);
  mempool.commitAll(950n);

  assert.equal((await find(ahead, `by_hash/${hash}`)).body.type, 'user_transaction');
  assert.equal((await find(behind, `by_hash/${hash}`)).body.type, 'pending_transaction');
});

test('waiting ends when the transaction is committed, and at once for an unknown hash', async (t) => {
  const node = await fakeNode(t);
  const hash = await submit(node);
  const asked = node.log.next();

  const waiting = find(node, `wait_by_hash/${hash}`);
  await asked;
  node.mempool.commitAll(1000n);

  assert.equal((await waiting).body.type, 'user_transaction');
  assert.equal((await find(node, `wait_by_hash/${'ab'.repeat(32)}`)).status, 404);
});

test('a pruned transaction is a 404 by hash, and a 410 by version', async (t) => {
  const recorded = recordedTransactions.find(({ version }) => version === 36n);
  assert.ok(recorded);
  const [full, archival] = [await fakeNode(t, { oldest: 37n }), await fakeNode(t, { archival: true })];

  assert.equal((await find(full, `by_hash/${recorded.hash}`)).status, 404);
  assert.equal((await find(full, 'by_version/36')).status, 410);
  assert.equal((await find(archival, `by_hash/${recorded.hash}`)).status, 200);
  assert.equal((await find(archival, 'by_version/36')).status, 200);
});

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
  test(`pages of ${name} make up the whole, each once, and only the last has no cursor`, async () => {
    const path = `/accounts/0x1/${name}`;

    const [whole] = await pagesOf(node, path, 9999);
    const pages = await pagesOf(node, path, 7);

    assert.ok(whole !== undefined && whole.length > 7);
    assert.deepEqual(pages.flat(), whole);
    assert.deepEqual(new Set(pages.slice(0, -1).map((page) => page.length)), new Set([7]));
    const reply = await fetch(`${node.url}${path}?limit=3`, { headers: { accept: 'application/x-bcs' } });
    assert.equal(Buffer.from(await reply.arrayBuffer())[0], 3);
  });
}

const itemAt = async (key: string, version: number): Promise<unknown> => {
  const body = `{"key_type":"u64","value_type":"u8","key":${key}}`;
  return (await fetch(`${node.url}/tables/0x5a000001/item?ledger_version=${version}`, post(body))).json();
};

const rawItem = async (key: string, accept: string): Promise<readonly [number, string]> => {
  const { headers, ...init } = post(`{"key":"${key}"}`);
  const reply = await fetch(`${node.url}/tables/0x5a000001/raw_item`, { ...init, headers: { ...headers, accept } });
  return [reply.status, Buffer.from(await reply.arrayBuffer()).toString('hex')];
};

test('an item of a computed table shows its key and version; a raw item is BCS only', async () => {
  const found = { handle: '0x5a000001', key: '{"a":"1"}', value_type: 'u8', ledger_version: '9' };
  assert.deepEqual(await itemAt('{"a":"1"}', 9), found);
  assert.notDeepEqual(await itemAt('"2"', 9), await itemAt('"2"', 10));
  assert.equal((await rawItem('0x01', 'application/json'))[0], 403);
  const [first, other] = [await rawItem('0x01', 'application/x-bcs'), await rawItem('0x02', 'application/x-bcs')];
  assert.deepEqual([first[0], other[0]], [200, 200]);
  assert.notEqual(first[1], other[1]);
});

test('the specification and the build carry no ledger headers', async () => {
  const types = ['text/html', 'application/json', 'application/x-yaml', 'application/json'];

  for (const [index, path] of ['/spec', '/spec.json', '/spec.yaml', '/info'].entries()) {
    const reply = await fetch(node.url + path);
    assert.deepEqual([reply.status, reply.headers.get('content-type')], [200, types[index]]);
    assert.equal(reply.headers.get('x-node-ledger-version'), null);
  }
});

test('a simulation is one transaction that used gas', async () => {
  const signed = post(new Uint8Array([1]), 'application/x.aptos.signed_transaction+bcs');

  const reply = await fetch(`${node.url}/transactions/simulate`, signed);

  const [transaction] = (await reply.json()) as readonly { success: boolean }[];
  assert.deepEqual([reply.status, transaction?.success], [200, true]);
  assert.match(reply.headers.get('x-node-gas-used') ?? '', /^\d+$/);
});

interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Buffer;
  readonly json: unknown;
}

async function read(node: FakeNode, path: string, accept = 'application/json'): Promise<Reply> {
  const reply = await fetch(node.url + path, { headers: { accept } });
  const bytes = Buffer.from(await reply.arrayBuffer());
  const isJson = reply.headers.get('content-type')?.includes('json') === true;
  return {
    status: reply.status,
    headers: reply.headers,
    bytes,
    json: isJson ? JSON.parse(bytes.toString()) : undefined,
  };
}

async function bcs(node: FakeNode, path: string): Promise<Buffer> {
  const reply = await read(node, path, 'application/x-bcs');
  assert.deepEqual([reply.status, reply.headers.get('content-type')], [200, 'application/x-bcs']);
  return reply.bytes;
}

async function list<Item>(node: FakeNode, path: string): Promise<readonly Item[]> {
  const reply = await read(node, path);
  assert.equal(reply.status, 200, path);
  return reply.json as readonly Item[];
}

async function errorOf(node: FakeNode, path: string): Promise<unknown> {
  const { status, json, headers } = await read(node, path);
  const { error_code } = json as { error_code: string };
  return [status, error_code, headers.get('x-node-ledger-version') !== null];
}

interface Versioned {
  readonly version: string;
}

const versionsOf = (items: readonly Versioned[]): readonly number[] => items.map(({ version }) => Number(version));

test('a list of transactions holds what stands at each version, and is cut at the head', async () => {
  const page = await list<Versioned>(node, '/transactions?start=500&limit=3');
  const [one] = [await read(node, '/transactions/by_version/501')];

  assert.deepEqual(versionsOf(page), [500, 501, 502]);
  assert.deepEqual(page[1], one.json);
  assert.equal((await list(node, '/transactions?start=500')).length, 25);
  assert.equal((await list(node, '/transactions?start=500&limit=5000')).length, 100);
  assert.deepEqual(versionsOf(await list(node, '/transactions?start=999&limit=25')), [999, 1000]);
  assert.deepEqual(versionsOf(await list(node, '/transactions?limit=2')), [999, 1000]);
});

test('auxiliary information is the place of each transaction in its block', async () => {
  const places = await list<unknown>(node, '/transactions/auxiliary_info?start_version=39&limit=2');
  const bytes = await bcs(node, '/transactions/auxiliary_info?start_version=39&limit=2');

  assert.deepEqual(places, [{ V1: { transaction_index: 19 } }, { V1: { transaction_index: 0 } }]);
  assert.equal(bytes.toString('hex'), '0201130000000100000000');
});

test('a synthetic transaction is found by its hash, by one below the window or above the head it is not', async (t) => {
  const [node, pruned] = [await fakeNode(t), await fakeNode(t, { oldest: 600n })];
  const { json } = await read(node, '/transactions/by_version/501');
  const { hash } = json as { hash: string };

  assert.deepEqual((await read(node, `/transactions/by_hash/${hash}`)).json, json);
  assert.deepEqual(await errorOf(pruned, `/transactions/by_hash/${hash}`), [404, 'transaction_not_found', true]);
  node.clock.head = 500n;
  assert.deepEqual(await errorOf(node, `/transactions/by_hash/${hash}`), [404, 'transaction_not_found', true]);
});

test('on a fork, transactions and blocks have other hashes, and the old ones are not found', async (t) => {
  const node = await fakeNode(t);
  const paths = [
    '/transactions/by_version/501',
    '/blocks/by_height/25',
    '/accounts/0x1/balance/0xa?ledger_version=501',
  ];
  const before = await Promise.all(paths.map(async (path) => (await read(node, path)).json));

  node.clock.fork(500n, 'other');
  const after = await Promise.all(paths.map(async (path) => (await read(node, path)).json));

  for (const [index, json] of after.entries()) assert.notDeepEqual(json, before[index]);
  const { hash } = before[0] as { hash: string };
  assert.deepEqual(await errorOf(node, `/transactions/by_hash/${hash}`), [404, 'transaction_not_found', true]);
});

interface SampleEvent extends Versioned {
  readonly sequence_number: string;
  readonly guid: { readonly creation_number: string; readonly account_address: string };
}

test('a stream of events grows with the head; a page that is not full fills up', async (t) => {
  const node = await fakeNode(t);
  const path = '/accounts/0x1/events/2';

  const newest = await list<SampleEvent>(node, `${path}?limit=2`);
  const next = Number(newest[1]?.sequence_number) + 1;
  const empty = await list(node, `${path}?start=${next}`);
  node.clock.advance(40n);
  const grown = await list<SampleEvent>(node, `${path}?start=${next}`);

  assert.ok(versionsOf(newest).every((version) => version <= 1000));
  assert.deepEqual([empty.length, grown.length, Number(grown[0]?.sequence_number)], [0, 2, next]);
  assert.equal((await list(node, `${path}?start=0`)).length, 25);
  assert.equal((await bcs(node, `${path}?start=0&limit=3`))[0], 3);
});

test('events have a stream for each account and number, none for high numbers, and a 410 that names no version', async (t) => {
  const node = await fakeNode(t, { oldest: 400n });
  const [one] = await list<SampleEvent>(node, '/accounts/0x1/events/3?limit=1');

  assert.deepEqual(one?.guid, { creation_number: '3', account_address: '0x1' });
  assert.notDeepEqual(await list(node, '/accounts/0x1/events/4?limit=1'), [one]);
  assert.deepEqual(await list(node, '/accounts/0x1/events/16'), []);
  assert.doesNotMatch((await read(node, '/accounts/0x1/events/3?start=0')).bytes.toString(), /\d{2}/);
});

test('an event handle leads to the stream of its number', async () => {
  const probe = '/accounts/0x5a000001/events/0x1::ledgergate_sample::Probe';

  assert.deepEqual(
    await list(node, `${probe}/events?start=1`),
    await list(node, '/accounts/0x5a000001/events/4?start=1'),
  );
  const recorded = await list<SampleEvent>(
    node,
    '/accounts/0x1/events/0x1::account::Account/key_rotation_events?limit=1',
  );
  assert.deepEqual(recorded[0]?.guid, { creation_number: '1', account_address: '0x1' });
});

interface SentTransaction extends Versioned {
  readonly sender: string;
  readonly sequence_number: string;
}

test('an account has a transaction for each sequence number, as many as the account itself states', async () => {
  const account = '/accounts/0x5a000001';

  const sent = await list<SentTransaction>(node, `${account}/transactions?start=0&limit=100`);
  const { json } = await read(node, `${account}?ledger_version=1000`);

  assert.equal((json as { sequence_number: string }).sequence_number, String(sent.length));
  assert.deepEqual([sent[7]?.sender, sent[7]?.sequence_number], ['0x5a000001', '7']);
  assert.deepEqual(await list(node, `${account}/transactions?limit=1`), [sent.at(-1)]);
  assert.deepEqual(await list(node, `${account}/transactions?start=1000`), []);
});

test('summaries start at a version, or end at one', async () => {
  const path = '/accounts/0x5a000001/transaction_summaries';
  const sent = versionsOf(await list<Versioned>(node, '/accounts/0x5a000001/transactions?start=0&limit=100'));

  const from = await list<Versioned>(node, `${path}?start_version=500&limit=2`);
  const until = await list<Versioned>(node, `${path}?end_version=500&limit=2`);

  assert.deepEqual(versionsOf(from), sent.filter((version) => version >= 500).slice(0, 2));
  assert.deepEqual(versionsOf(until), sent.filter((version) => version <= 500).slice(-2));
  assert.deepEqual(versionsOf(await list(node, path)), sent.slice(-25));
});
