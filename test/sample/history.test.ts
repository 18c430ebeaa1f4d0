import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeNode, type FakeNode } from '../support/fake-node.ts';

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

test('a list of transactions holds what stands at each version, and is cut at the head', async (t) => {
  const node = await fakeNode(t);

  const page = await list<Versioned>(node, '/transactions?start=500&limit=3');
  const [one] = [await read(node, '/transactions/by_version/501')];

  assert.deepEqual(versionsOf(page), [500, 501, 502]);
  assert.deepEqual(page[1], one.json);
  assert.equal((await list(node, '/transactions?start=500')).length, 25);
  assert.equal((await list(node, '/transactions?start=500&limit=5000')).length, 100);
  assert.deepEqual(versionsOf(await list(node, '/transactions?start=999&limit=25')), [999, 1000]);
  assert.deepEqual(versionsOf(await list(node, '/transactions?limit=2')), [999, 1000]);
});

test('auxiliary information is the place of each transaction in its block', async (t) => {
  const node = await fakeNode(t);

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

test('an event handle leads to the stream of its number', async (t) => {
  const node = await fakeNode(t);
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

test('an account has a transaction for each sequence number, as many as the account itself states', async (t) => {
  const node = await fakeNode(t);
  const account = '/accounts/0x5a000001';

  const sent = await list<SentTransaction>(node, `${account}/transactions?start=0&limit=100`);
  const { json } = await read(node, `${account}?ledger_version=1000`);

  assert.equal((json as { sequence_number: string }).sequence_number, String(sent.length));
  assert.deepEqual([sent[7]?.sender, sent[7]?.sequence_number], ['0x5a000001', '7']);
  assert.deepEqual(await list(node, `${account}/transactions?limit=1`), [sent.at(-1)]);
  assert.deepEqual(await list(node, `${account}/transactions?start=1000`), []);
});

test('summaries start at a version, or end at one', async (t) => {
  const node = await fakeNode(t);
  const path = '/accounts/0x5a000001/transaction_summaries';
  const sent = versionsOf(await list<Versioned>(node, '/accounts/0x5a000001/transactions?start=0&limit=100'));

  const from = await list<Versioned>(node, `${path}?start_version=500&limit=2`);
  const until = await list<Versioned>(node, `${path}?end_version=500&limit=2`);

  assert.deepEqual(versionsOf(from), sent.filter((version) => version >= 500).slice(0, 2));
  assert.deepEqual(versionsOf(until), sent.filter((version) => version <= 500).slice(-2));
  assert.deepEqual(versionsOf(await list(node, path)), sent.slice(-25));
});
