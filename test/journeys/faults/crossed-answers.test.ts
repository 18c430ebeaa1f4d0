/**
 * One node of three crosses answers: it answers each read with another item's answer, or with one that lacks or repeats
 * a part. Wherever nodes must send what tells the two apart, another node is asked, and the cache keeps nothing of it.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { syntheticTransactionHash } from '../../../src/sample/synthetic.ts';
import { distortingNode } from '../../support/distorting-node.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { probeAt, testGateway } from '../../support/gateway.ts';

type Form = 'json' | 'bcs';

/** A way to cross the answer to a read in some forms. */
interface Way {
  readonly what: string;
  /** In the place of the kind's read. */
  readonly path?: string;
  /** The item whose answer the node gives instead. Default: the one that was asked for. */
  readonly other?: string;
  /** Changes its JSON. */
  readonly json?: (value: never) => unknown;
  /** Changes its bytes. */
  readonly bcs?: (body: Buffer) => Buffer;
  /** Default: both, and with a change of one form that form. */
  readonly forms?: readonly Form[];
}

type Item = Readonly<Record<string, unknown>>;

interface Module {
  readonly abi: object;
}

interface Block {
  readonly transactions: readonly Item[];
}

interface Kind {
  readonly path: string;
  readonly ways: readonly Way[];
}

const at = '?ledger_version=600';
const coins = '0x1::coin::CoinInfo<0x1::aptos_coin::AptosCoin>';
const account = '/accounts/0x5a000001';

const missing = (items: readonly Item[]) => items.toSpliced(3, 1);
const later = ({ version, ...more }: Item) => ({ ...more, version: `${Number(version) + 20}` });
const twice = (items: readonly Item[]) => [...items.slice(0, 4), ...items.slice(3, -1)];

function renamed(module: Module, name: object): object {
  return { ...module, abi: { ...module.abi, ...name } };
}

/** Ways to cross a block, of version 600 and height 30, `path` with its transactions. */
function blockWays(path: string): readonly Way[] {
  const others = path.includes('height')
    ? ['/blocks/by_height/31', '/blocks/by_height/29']
    : ['/blocks/by_version/620'];
  const flag = '?with_transactions=true';
  return [
    ...others.flatMap((other) => [
      { what: other, other },
      { what: `${other}${flag}`, path: path + flag, other: other + flag },
    ]),
    { what: 'a block with transactions for one without', other: path + flag },
    { what: 'a block without transactions for one with', path: path + flag, other: path },
    {
      what: 'transactions that are null',
      path: path + flag,
      json: (block: Item) => ({ ...block, transactions: null }),
    },
    { what: 'no transaction', path: path + flag, json: (block: Item) => ({ ...block, transactions: [] }) },
    {
      what: 'a missing transaction',
      path: path + flag,
      json: (block: Block) => ({ ...block, transactions: missing(block.transactions) }),
    },
    {
      what: 'more transactions than versions',
      path: path + flag,
      json: (block: Item) => ({ ...block, last_version: '603' }),
    },
    {
      what: 'the transactions of another block',
      path: path + flag,
      json: (block: Block) => ({ ...block, transactions: block.transactions.map(later) }),
    },
    { what: 'an end before its beginning', json: (block: Item) => ({ ...block, last_version: '599' }) },
    { what: 'an end before its beginning', bcs: (body) => written(body, 57, 599n) },
    { what: 'no versions', json: ({ block_height }: Item) => ({ block_height }) },
    { what: 'half of it', bcs: (body) => body.subarray(0, 40) },
    { what: 'the transactions of another block', path: path + flag, bcs: (body) => written(body, 67, 620n) },
  ];
}

function written(body: Buffer, offset: number, value: bigint): Buffer {
  const copy = Buffer.from(body);
  copy.writeBigUInt64LE(value, offset);
  return copy;
}

const kinds: Readonly<Record<string, Kind>> = {
  resource: {
    path: `/accounts/0x1/resource/0x1::ledgergate_sample::Probe${at}`,
    ways: [
      { what: 'another type', other: `/accounts/0x1/resource/0x1::account::Account${at}`, forms: ['json'] },
      {
        what: 'another type, of the latest version',
        path: '/accounts/0x1/resource/0x1::ledgergate_sample::Probe',
        other: '/accounts/0x1/resource/0x1::account::Account',
        forms: ['json'],
      },
      {
        what: 'another type argument',
        path: `/accounts/0x1/resource/${coins}${at}`,
        json: ({ data }: Item) => ({ type: coins.replace('AptosCoin>', 'Other>'), data }),
      },
      {
        what: 'no type argument',
        path: `/accounts/0x1/resource/${coins}${at}`,
        json: ({ data }: Item) => ({ type: '0x1::coin::CoinInfo', data }),
      },
      { what: 'a type that is none', json: ({ data }: Item) => ({ type: 'Probe', data }) },
      { what: 'no type', json: ({ data }: Item) => ({ data }) },
      { what: 'no data', json: ({ type }: Item) => ({ type }) },
      { what: 'a module', other: `/accounts/0x1/module/coin${at}`, forms: ['json'] },
      { what: 'an account', other: `/accounts/0x1${at}`, forms: ['json'] },
    ],
  },
  module: {
    path: `/accounts/0x1/module/coin${at}`,
    ways: [
      { what: 'another name', other: `/accounts/0x1/module/account${at}`, forms: ['json'] },
      { what: 'another address', json: (module: Module) => renamed(module, { address: '0x2' }) },
      { what: 'another address and name', other: `/accounts/0x3/module/property_map${at}`, forms: ['json'] },
      { what: 'an ABI without a name', json: ({ bytecode }: Item) => ({ bytecode, abi: {} }) },
      { what: 'no bytecode', json: ({ abi }: Item) => ({ abi }) },
      { what: 'a resource', other: `/accounts/0x1/resource/0x1::account::Account${at}`, forms: ['json'] },
    ],
  },
  account: {
    path: account + at,
    ways: [
      { what: 'no members', json: () => ({}) },
      { what: 'no authentication key', json: ({ sequence_number }: Item) => ({ sequence_number }) },
      { what: 'no sequence number', json: ({ authentication_key }: Item) => ({ authentication_key }) },
      { what: 'a resource', other: `/accounts/0x1/resource/0x1::account::Account${at}` },
      { what: 'another account', other: `/accounts/0x1${at}`, forms: ['bcs'] },
      { what: 'half of it', bcs: (body) => body.subarray(0, 100) },
    ],
  },
  balance: {
    path: `${account}/balance/0x1::aptos_coin::AptosCoin${at}`,
    ways: [
      { what: 'a text', json: () => '1152921504606847576' },
      { what: 'a number below zero', json: () => -1 },
      { what: 'a fraction', json: () => 1.5 },
      { what: 'a list', json: () => [5] },
      { what: 'null', json: () => null },
      { what: 'an account', other: account + at },
      { what: 'seven bytes', bcs: (body) => body.subarray(0, 7) },
      { what: 'nine bytes', bcs: (body) => Buffer.concat([body, Buffer.of(0)]) },
    ],
  },
  modules: {
    path: `/accounts/0x1/modules${at}&limit=5`,
    ways: [
      { what: 'another account', other: `/accounts/0x3/modules${at}`, forms: ['json'] },
      {
        what: 'one module of another address',
        json: ([first, ...more]: Module[]) => [first, ...more.map((module) => renamed(module, { address: '0x2' }))],
      },
      { what: 'a module', json: ([first]: Item[]) => first },
      { what: 'resources', other: `/accounts/0x1/resources${at}`, forms: ['json'] },
    ],
  },
  resources: {
    path: `/accounts/0x1/resources${at}&limit=5`,
    ways: [
      { what: 'modules', other: `/accounts/0x3/modules${at}`, forms: ['json'] },
      { what: 'a resource', json: ([first]: Item[]) => first },
      { what: 'resources without data', json: (items: Item[]) => items.map(({ type }) => ({ type })) },
    ],
  },
  transaction: {
    path: `/transactions/by_hash/${syntheticTransactionHash(600n)}`,
    ways: [
      { what: 'another hash', other: `/transactions/by_hash/${syntheticTransactionHash(601n)}` },
      { what: 'another version', other: '/transactions/by_version/601' },
      { what: 'no hash', json: ({ hash: _, ...more }: Item) => more },
      { what: 'no type', json: ({ type: _, ...more }: Item) => more },
      { what: 'a block', other: '/blocks/by_height/30', forms: ['json'] },
    ],
  },
  'transaction by version': {
    path: '/transactions/by_version/600',
    ways: [
      { what: 'another version', other: '/transactions/by_version/601' },
      { what: 'another hash', other: `/transactions/by_hash/${syntheticTransactionHash(601n)}` },
      { what: 'no version', json: ({ version: _, ...more }: Item) => more },
      { what: 'no type', json: ({ type: _, ...more }: Item) => more },
      { what: 'a pending transaction', bcs: (body) => Buffer.concat([Buffer.of(1), body.subarray(1)]) },
      { what: 'its first bytes', bcs: (body) => body.subarray(0, 5) },
    ],
  },
  transactions: {
    path: '/transactions?start=600&limit=10',
    ways: [
      { what: 'another start', other: '/transactions?start=610&limit=10' },
      { what: 'another start, of equal items', other: '/transactions?start=599&limit=10' },
      { what: 'a larger limit', other: '/transactions?start=600&limit=11' },
      { what: 'one twice', json: twice },
      { what: 'one missing', json: missing },
      { what: 'no versions', json: (items: Item[]) => items.map(({ hash }) => ({ hash })) },
      { what: 'auxiliary info', other: '/transactions/auxiliary_info?start_version=600&limit=10' },
      { what: 'a count alone', bcs: (body) => body.subarray(0, 1) },
      { what: 'nothing', bcs: () => Buffer.of() },
    ],
  },
  'auxiliary info': {
    path: '/transactions/auxiliary_info?start_version=600&limit=10',
    ways: [
      { what: 'a larger limit', other: '/transactions/auxiliary_info?start_version=600&limit=11' },
      { what: 'a block', other: '/blocks/by_height/30', forms: ['json'] },
      { what: 'nothing', bcs: () => Buffer.of() },
    ],
  },
  block: { path: '/blocks/by_height/30', ways: blockWays('/blocks/by_height/30') },
  'block by version': { path: '/blocks/by_version/600', ways: blockWays('/blocks/by_version/600') },
  events: {
    path: `${account}/events/4?start=5&limit=10`,
    ways: [
      { what: 'another stream', other: `${account}/events/5?start=5&limit=10` },
      { what: 'another account', other: '/accounts/0x5a000002/events/4?start=5&limit=10' },
      { what: 'another start', other: `${account}/events/4?start=6&limit=10` },
      {
        what: 'another start, by handle',
        path: `${account}/events/0x1::ledgergate_sample::Probe/events?start=5&limit=10`,
        other: `${account}/events/4?start=6&limit=10`,
      },
      { what: 'a larger limit', other: `${account}/events/4?start=5&limit=11` },
      { what: 'one twice', json: twice },
      { what: 'one missing', json: missing },
      { what: 'no stream', json: (items: Item[]) => items.map(({ guid: _, ...more }) => more) },
      { what: 'transactions', other: '/transactions?start=5&limit=10' },
      { what: 'a count alone', bcs: (body) => body.subarray(0, 1) },
    ],
  },
  'the newest transactions': {
    path: '/transactions?limit=5',
    ways: [
      { what: 'one twice', json: twice },
      { what: 'one missing', json: (items: Item[]) => items.toSpliced(2, 1) },
      { what: 'auxiliary info', other: '/transactions/auxiliary_info?start_version=600', forms: ['json'] },
    ],
  },
  'the newest events': {
    path: `${account}/events/4?limit=5`,
    ways: [
      { what: 'another stream', other: `${account}/events/5?limit=5` },
      { what: 'another account', other: '/accounts/0x5a000002/events/4?limit=5' },
      { what: 'one twice', json: twice },
    ],
  },
  'what an account has sent': {
    path: `${account}/transactions?limit=5`,
    ways: [
      { what: 'another account', other: '/accounts/0x5a000002/transactions?limit=5', forms: ['json'] },
      {
        what: 'summaries of another account',
        path: `${account}/transaction_summaries?limit=5`,
        other: '/accounts/0x5a000002/transaction_summaries?limit=5',
        forms: ['json'],
      },
      { what: 'events', other: `${account}/events/4?limit=5`, forms: ['json'] },
    ],
  },
  view: {
    path: '/view',
    ways: [
      { what: 'a number', json: () => 5 },
      { what: 'a resource', json: () => ({ type: '0x1::a::B', data: {} }) },
      { what: 'a text', json: () => 'text' },
    ],
  },
};

const version = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';

type Outcome = 'refused' | 'passed' | 'kept';

/** Reads twice through a gateway whose first node crosses the answer. */
async function outcomeOf(t: TestContext, good: FakeNode, path: string, form: Form, crossed: Buffer): Promise<Outcome> {
  const wrong = await distortingNode(t, await fakeNode(t, { head: 900n }), (said, { isLook }) =>
    isLook ? said : { ...said, status: 200, body: crossed },
  );
  const gateway = await testGateway(t, { full: [wrong], archival: [good, await fakeNode(t, { head: 900n })] });
  const headers = { accept: `application/${form === 'json' ? 'json' : 'x-bcs'}` };
  const read = () => (path === '/view' ? gateway.post(path, version, headers) : gateway.get(path, headers));

  const [first, second] = [await read(), await read()];

  const right = await ask(good, path, form);
  assert.ok(wrong.reads >= 1, 'the node that crosses answers was asked');
  assert.notDeepEqual(crossed, right, 'the crossed answer differs');
  if (second.body.equals(crossed) && second.headers['cache-status']?.includes('hit') === true) return 'kept';
  if (first.body.equals(crossed)) return 'passed';
  for (const reply of [first, second]) assert.deepEqual([reply.status, reply.body], [200, right]);
  const failures = await gateway.metric('ledgergate_upstream_failures_total{upstream="full-0",kind="bad answer"}');
  assert.ok(failures >= 1, 'counted against the node');
  return 'refused';
}

async function ask(node: FakeNode, path: string, form: Form): Promise<Buffer> {
  const accept = `application/${form === 'json' ? 'json' : 'x-bcs'}`;
  const post = { method: 'POST', body: version, headers: { accept, 'content-type': 'application/json' } };
  const reply = await fetch(node.url + path, path === '/view' ? post : { headers: { accept } });
  assert.equal(reply.status, 200, path);
  return Buffer.from(await reply.arrayBuffer());
}

function formsOf({ forms, json, bcs }: Way): readonly Form[] {
  if (forms !== undefined) return forms;
  if (json === undefined && bcs === undefined) return ['json', 'bcs'];
  return json === undefined ? ['bcs'] : ['json'];
}

for (const [kind, { path: usual, ways }] of Object.entries(kinds)) {
  test(`a crossed answer to a read of ${kind} is asked for at another node, and never kept`, async (t) => {
    const good = await fakeNode(t, { head: 900n });
    const refused: Record<string, Outcome> = {};
    const outcomes: Record<string, Outcome> = {};
    for (const way of ways) {
      const path = way.path ?? usual;
      for (const form of formsOf(way)) {
        const body = await ask(good, way.other ?? path, form);
        const changed =
          way.json === undefined ? undefined : JSON.stringify(way.json(JSON.parse(body.toString()) as never));
        const crossed = changed === undefined ? (way.bcs?.(body) ?? body) : Buffer.from(changed);
        const cell = `${way.what} (${form}${way.path === undefined ? '' : `, ${way.path}`})`;
        outcomes[cell] = await outcomeOf(t, good, path, form, crossed);
        refused[cell] = 'refused';
        t.diagnostic(`${kind} | ${way.what} | ${form} | ${outcomes[cell]}`);
      }
    }
    assert.deepEqual(outcomes, refused);
  });
}

test('a node that crosses answers is down after two', async (t) => {
  const good = await fakeNode(t, { head: 900n });
  const other = await ask(good, `/accounts/0x1/resource/0x1::account::Account${at}`, 'json');
  const wrong = await distortingNode(t, await fakeNode(t, { head: 900n }), (said, { isLook }) =>
    isLook ? said : { ...said, body: other },
  );
  const gateway = await testGateway(t, { full: [wrong], archival: [good, await fakeNode(t, { head: 900n })] });

  for (const version of [600, 601]) {
    const { text } = await gateway.get(probeAt(version));
    assert.ok(text.includes(`"ledger_version":"${version}"`), text);
  }

  const { state, reason } = gateway.fleet()[0] ?? {};
  assert.deepEqual([wrong.reads, state, reason], [2, 'down', 'bad answer']);
});
