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
  Network,
  type PendingTransactionResponse,
  type SimpleTransaction,
} from '@aptos-labs/ts-sdk';
import { Random } from '../../support/random.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { fetchReply, testGateway, type TestGateway } from '../../support/gateway.ts';

const chainId = 4;
const rounds = 50;
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
