/** The public SDK's reads, loops over pages and waits through a gateway: node calls of a first and of a second client. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Account, Aptos, AptosConfig, getAptosFullNode, Network } from '@aptos-labs/ts-sdk';
import { syntheticTransactionHash } from '../../../src/sample/synthetic.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { patient, testGateway } from '../../support/gateway.ts';

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

test('300 SDK reads of latest cost a node call for each of three questions', async (t) => {
  const { node, ofGateway } = await worldOf(t);
  const { aptos } = ofGateway();
  const other = Account.generate().accountAddress;
  for (let round = 0; round < 100; round += 1) {
    await Promise.all([
      aptos.getAccountInfo({ accountAddress }),
      aptos.getBalance({ accountAddress, asset: '0x1::aptos_coin::AptosCoin' }),
      aptos.getBalance({ accountAddress: other, asset: '0x1::aptos_coin::AptosCoin' }),
    ]);
  }
  t.diagnostic(`300 reads, ${node.reads} node calls`);
  assert.equal(node.reads, 3);
});
