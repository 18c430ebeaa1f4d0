// The SDK that most wallets and services use, unchanged and with its own HTTP client, against a gateway in front of two
// nodes. Neither holds the other's submissions until it has caught up: the worst case of gossip.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  Account,
  Aptos,
  AptosConfig,
  generateSigningMessageForTransaction,
  getAptosFullNode,
  Network,
  type PendingTransactionResponse,
  type SimpleTransaction,
} from '@aptos-labs/ts-sdk';
import { syntheticTransactionHash } from '../../../src/sample/synthetic.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { fetchReply, patient, testGateway, type TestGateway } from '../../support/gateway.ts';
import { Random } from '../../support/random.ts';

const chainId = 4;
const rounds = 12;
const probe = '0x1::ledgergate_sample::Probe';
const transfer = '0x1::aptos_account::transfer';

/** When a transaction is committed, seen from the submission; at the last one the node that accepted it is late. */
const moments = ['at once', 'while the SDK waits', 'elsewhere first'] as const;
type Moment = (typeof moments)[number] | '300 ms later';

test('the SDK reads the state of the nodes, at latest and at a version', async (t) => {
  const { aptos } = await fleetFor(t);

  const info = await aptos.getLedgerInfo();
  const latest = await readProbe(aptos);
  const pinned = await readProbe(aptos, 900n);
  const [viewed] = await aptos.viewJson({ payload: { function: '0x1::ledgergate_sample::version' } });
  const module = await aptos.getAccountModule({ accountAddress: '0x1', moduleName: 'coin' });

  assert.deepEqual([info.chain_id, info.ledger_version], [chainId, '1000']);
  assert.deepEqual([latest, pinned, viewed], [1000n, 900n, '1000']);
  assert.ok(module.abi?.exposed_functions.some(({ name }) => name === 'transfer'));
});

test(`the SDK waits for ${rounds} transactions without a failure, and then reads their effects`, async (t) => {
  const { aptos, gateway, nodes } = await fleetFor(t);
  const random = new Random(20_261_121);
  const signer = Account.generate();
  const takers = new Set<FakeNode>();
  const stale: string[] = [];

  for (let round = 0; round < rounds; round += 1) {
    const moment = round % 10 === 0 ? '300 ms later' : random.pick(moments);
    random.pick(nodes).clock.head = headOf(nodes) + BigInt(1 + random.below(20));
    const taken = takerOf(nodes);
    const { hash } = await submit(aptos, signer, round);
    const { taker, other, bytes } = await taken;
    takers.add(taker);
    const committing = commit(moment, { taker, other, bytes });

    const committed = await aptos.waitForTransaction({ transactionHash: hash });
    const read = await readProbe(aptos);

    if (read < BigInt(committed.version)) stale.push(`${moment}: ${read} after ${committed.version}`);
    await committing;
    apply(other, bytes, BigInt(committed.version));
  }

  assert.deepEqual(stale, []);
  assert.equal(takers.size, 2);
  assert.deepEqual(await statusesOf(gateway), ['200', '202']);
});

test('encode_submission answers the bytes that the SDK would sign', async (t) => {
  const { aptos, gateway } = await fleetFor(t);
  const transaction = await build(aptos, Account.generate(), 7);
  const { sender, sequence_number, max_gas_amount, gas_unit_price, expiration_timestamp_secs } =
    transaction.rawTransaction;

  const reply = await gateway.post(
    '/transactions/encode_submission',
    JSON.stringify({
      sender: sender.toString(),
      sequence_number: String(sequence_number),
      max_gas_amount: String(max_gas_amount),
      gas_unit_price: String(gas_unit_price),
      expiration_timestamp_secs: String(expiration_timestamp_secs),
      payload: { type: 'entry_function_payload', function: transfer, type_arguments: [], arguments: ['0x2', '1'] },
    }),
  );

  const message = generateSigningMessageForTransaction(transaction);
  assert.equal(reply.text, JSON.stringify(`0x${Buffer.from(message).toString('hex')}`));
});

/** Two nodes with mempools of their own, a gateway that looks at them often, and the SDK as a client. */
async function fleetFor(t: TestContext) {
  const node = (): Promise<FakeNode> => fakeNode(t, { dialect: 'aptos', chainId });
  const nodes = [await node(), await node()] as const;
  const config = { upstream: { probeIntervalMs: 10 } };
  const gateway = await testGateway(t, { full: nodes, config }, 'aptos');
  const aptos = new Aptos(new AptosConfig({ network: Network.CUSTOM, fullnode: gateway.url }));
  return { nodes, gateway, aptos };
}

async function readProbe(aptos: Aptos, ledgerVersion?: bigint): Promise<bigint> {
  const resource = await aptos.getAccountResource<{ ledger_version: string }>({
    accountAddress: '0x1',
    resourceType: probe,
    ...(ledgerVersion === undefined ? {} : { options: { ledgerVersion } }),
  });
  return BigInt(resource.ledger_version);
}

/** Built with the ABI, the gas price and the chain id that the SDK asks for. */
function build(aptos: Aptos, { accountAddress }: Account, sequence: number): Promise<SimpleTransaction> {
  return aptos.transaction.build.simple({
    sender: accountAddress,
    data: { function: transfer, functionArguments: ['0x2', 1] },
    options: { accountSequenceNumber: sequence },
  });
}

/** Signed by the SDK, and sent as BCS. */
async function submit(aptos: Aptos, signer: Account, sequence: number): Promise<PendingTransactionResponse> {
  return aptos.signAndSubmitTransaction({ signer, transaction: await build(aptos, signer, sequence) });
}

interface Taken {
  readonly taker: FakeNode;
  readonly other: FakeNode;
  readonly bytes: Buffer;
}

/** The node that receives the next submission, and the request. */
function takerOf([one, two]: readonly [FakeNode, FakeNode]): Promise<Taken> {
  return Promise.race([submissionTo(one, two), submissionTo(two, one)]);
}

async function submissionTo(taker: FakeNode, other: FakeNode): Promise<Taken> {
  const { body } = await taker.log.next(({ route }) => route === 'submit');
  return { taker, other, bytes: body };
}

/** Commits the submission on the node that accepted it; the other stays behind, unless it is to be first. */
async function commit(moment: Moment, { taker, other, bytes }: Taken): Promise<void> {
  const version = headOf([taker, other]) + 3n;
  if (moment === '300 ms later') await sleep(300);
  else if (moment !== 'at once') await taker.log.next(({ route }) => route === 'waitByHash');
  if (moment === 'elsewhere first') {
    apply(other, bytes, version);
    await sleep(30);
  }
  apply(taker, bytes, version);
}

/** The node receives the transaction by gossip, and reaches the version at which it is committed. */
function apply(node: FakeNode, bytes: Buffer, version: bigint): void {
  node.mempool.submit(bytes, undefined);
  node.mempool.commitAll(version);
  if (node.clock.head < version) node.clock.head = version;
}

function headOf(nodes: readonly FakeNode[]): bigint {
  return nodes.map(({ clock }) => clock.head as bigint).reduce((highest, head) => (head > highest ? head : highest));
}

/** The statuses that clients were answered with. */
async function statusesOf(gateway: TestGateway): Promise<readonly string[]> {
  const { text } = await fetchReply(`${gateway.operationsUrl}/metrics`, { method: 'GET' });
  const samples = text.matchAll(/^ledgergate_http_requests_total\{[^}]*status="(\d+)"[^}]*\} [1-9]/gm);
  return [...new Set([...samples].map(([, status = '']) => status))].sort();
}

// The public SDK's reads, loops over pages and waits through a gateway: node calls of a first and of a second
// client.

/** Of the form that the SDK takes: nodes know it as `0x5a000001`. */
const accountAddress = `0x${'5a000001'.padStart(64, '0')}`;
const handle = '0x5a000001';
const ledgerVersion = 900n;
const pages = 5;

interface Client {
  readonly aptos: Aptos;
  readonly config: AptosConfig;
}

/** Each part resolves with all that it has read. */
const parts: Readonly<Record<string, (client: Client) => Promise<readonly unknown[]>>> = {
  'reads at a version': async ({ aptos }) => [
    await aptos.getAccountInfo({ accountAddress }),
    await aptos.getAccountResource({
      accountAddress: '0x1',
      resourceType: '0x1::ledgergate_sample::Probe',
      options: { ledgerVersion },
    }),
    await aptos.getAccountModule({ accountAddress: '0x1', moduleName: 'coin', options: { ledgerVersion } }),
    await aptos.viewJson({
      payload: { function: '0x1::ledgergate_sample::version' },
      options: { ledgerVersion },
    }),
    await aptos.table.getTableItem({
      handle,
      data: { key_type: 'u64', value_type: 'u64', key: '7' },
      options: { ledgerVersion },
    }),
  ],
  'reads of latest': async ({ aptos }) => [
    await aptos.getAccountResource({ accountAddress: '0x1', resourceType: '0x1::ledgergate_sample::Probe' }),
    await aptos.getBalance({ accountAddress, asset: '0x1::aptos_coin::AptosCoin' }),
    await aptos.viewJson({ payload: { function: '0x1::ledgergate_sample::version' } }),
    await aptos.getAccountTransactions({ accountAddress, options: { limit: 5 } }),
    await aptos.getTransactions({ options: { limit: 5 } }),
  ],
  'all modules and resources, page by page': async ({ aptos }) => {
    const read: unknown[] = [];
    for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
      const options = { limit: 10, ledgerVersion, ...(cursor === undefined ? {} : { cursor }) };
      const page = await aptos.getAccountModulesPage({ accountAddress: '0x1', options });
      read.push(page.modules);
      cursor = page.cursor;
    }
    for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
      const options = { limit: 5, ledgerVersion, ...(cursor === undefined ? {} : { cursor }) };
      const page = await aptos.getAccountResourcesPage({ accountAddress: '0x1', options });
      read.push(page.resources);
      cursor = page.cursor;
    }
    return read;
  },
  'transactions and events, page by page': async ({ aptos, config }) => {
    const read: unknown[] = [];
    for (let page = 0; page < pages; page += 1) {
      read.push(await aptos.getTransactions({ options: { offset: 500 + page * 20, limit: 20 } }));
      const path = `accounts/${accountAddress}/events/3`;
      const params = { start: page * 5, limit: 5 };
      read.push((await getAptosFullNode({ aptosConfig: config, originMethod: 'events', path, params })).data);
    }
    return read;
  },
  'blocks and single transactions': async ({ aptos }) => {
    const read: unknown[] = [];
    for (let block = 30; block < 30 + pages; block += 1) {
      read.push(await aptos.getBlockByHeight({ blockHeight: block, options: { withTransactions: true } }));
      read.push(await aptos.getBlockByVersion({ ledgerVersion: block * 20 + 3 }));
      read.push(await aptos.getTransactionByVersion({ ledgerVersion: block * 20 + 3 }));
    }
    return read;
  },
  waits: async ({ aptos }) => {
    const hashes = Array.from({ length: pages }, (_, at) => syntheticTransactionHash(700n + BigInt(at)));
    return Promise.all(hashes.map((transactionHash) => aptos.waitForTransaction({ transactionHash })));
  },
};

/** Node calls that a second client costs, beside those of the first. */
const expected: Readonly<Record<string, readonly [first: number, second: number]>> = {
  'reads at a version': [5, 0],
  'reads of latest': [5, 0],
  'all modules and resources, page by page': [11, 0],
  'transactions and events, page by page': [10, 0],
  'blocks and single transactions': [15, 0],
  waits: [5, 0],
};

function clientOf(fullnode: string): Client {
  const config = new AptosConfig({ network: Network.CUSTOM, fullnode });
  return { aptos: new Aptos(config), config };
}

async function worldOf(t: TestContext) {
  const node = await fakeNode(t, { dialect: 'aptos', head: 999n });
  const config = { latest: { maxStalenessMs: 3_600_000 }, upstream: patient };
  const gateway = await testGateway(t, { full: [node], config }, 'aptos');
  return { node, ofGateway: () => clientOf(gateway.url), ofNode: () => clientOf(node.url) };
}

test('a second client of the SDK costs no node call', async (t) => {
  const { node, ofGateway, ofNode } = await worldOf(t);
  const counted: Record<string, readonly [number, number]> = {};
  for (const [name, read] of Object.entries(parts)) {
    const own = await read(ofNode());
    const calls: number[] = [];
    for (let client = 0; client < 2; client += 1) {
      const before = node.reads;
      assert.deepEqual(await read(ofGateway()), own, name);
      calls.push(node.reads - before);
    }
    const [first = -1, second = -1] = calls;
    counted[name] = [first, second];
    t.diagnostic(`${name}: ${first} node calls, then ${second}`);
  }
  assert.deepEqual(counted, expected);
});
