/** Every route whose answers the gateway keeps or shares, with the requests that show it on the sample ledger. */
import { syntheticTransactionHash } from '../../src/sample/synthetic.ts';

/** The ledger of the requests. Its head ends block 49; the full node has pruned all below block 25. */
export const keptLedger = { oldest: 500n, head: 999n } as const;

/** The requests of one route; an absent one does not exist there. Paths are below the base path. */
export interface KeptRoute {
  readonly name: string;
  /** Of a POST. */
  readonly body?: string;
  /** The node answers in BCS alone. */
  readonly isBcsAlone?: boolean;
  /** Final, and held by the full node. */
  readonly final?: string;
  /** Without a version, or the newest of a list. */
  readonly latest?: string;
  /** Held by the archival node alone. */
  readonly pruned?: string;
  readonly missing?: string;
  readonly above?: string;
}

const account = '/accounts/0x5a000001';
const nobody = '/accounts/0xdead';
const coin = '0x1::aptos_coin::AptosCoin';
const probe = '0x1::ledgergate_sample::Probe';
const unknownHash = `0x${'ab'.repeat(32)}`;

function at(of: string, version: number): string {
  return `${of}${of.includes('?') ? '&' : '?'}ledger_version=${version}`;
}

/** A read of state: `path` may have a query. `missing`: another path, which the node does not know. */
function stateRead(name: string, path: string, missing?: string, more: Partial<KeptRoute> = {}): KeptRoute {
  return {
    name,
    final: at(path, 600),
    latest: path,
    pruned: at(path, 120),
    above: at(path, 5_000),
    ...(missing === undefined ? {} : { missing: at(missing, 600) }),
    ...more,
  };
}

const item = '{"key_type":"u64","value_type":"u64","key":"7"}';
const version = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';

const state: readonly KeptRoute[] = [
  stateRead('resource', `/accounts/0x1/resource/${probe}`, `${account}/resource/0x1::a::B`),
  stateRead('module', '/accounts/0x1/module/coin', `${account}/module/none`),
  stateRead('view', '/view', undefined, { body: version }),
  stateRead('account', account, nobody),
  stateRead('balance', `${account}/balance/${coin}`),
  stateRead('resources', '/accounts/0x1/resources?limit=5', `${nobody}/resources`),
  stateRead('modules', '/accounts/0x1/modules?limit=5', `${nobody}/modules`),
  stateRead('table item', '/tables/0x5a000001/item', '/tables/0xdead/item', { body: item }),
  stateRead('raw table item', '/tables/0x5a000001/raw_item', '/tables/0xdead/raw_item', {
    body: '{"key":"0x07"}',
    isBcsAlone: true,
  }),
];

function blocks(more: string): readonly KeptRoute[] {
  const name = more === '' ? '' : ', transactions';
  const height = (of: number): string => `/blocks/by_height/${of}${more}`;
  const byVersion = (of: number): string => `/blocks/by_version/${of}${more}`;
  return [
    { name: `block by height${name}`, final: height(30), pruned: height(6), above: height(5_000) },
    { name: `block by version${name}`, final: byVersion(607), pruned: byVersion(120), above: byVersion(5_000) },
  ];
}

const history: readonly KeptRoute[] = [
  {
    name: 'transaction by hash',
    final: `/transactions/by_hash/${syntheticTransactionHash(600n)}`,
    pruned: `/transactions/by_hash/${syntheticTransactionHash(120n)}`,
    missing: `/transactions/by_hash/${unknownHash}`,
  },
  {
    name: 'wait by hash',
    final: `/transactions/wait_by_hash/${syntheticTransactionHash(700n)}`,
    pruned: `/transactions/wait_by_hash/${syntheticTransactionHash(121n)}`,
    missing: `/transactions/wait_by_hash/${unknownHash}`,
  },
  {
    name: 'transaction by version',
    final: '/transactions/by_version/600',
    pruned: '/transactions/by_version/120',
    above: '/transactions/by_version/5000',
  },
  {
    name: 'transactions',
    final: '/transactions?start=600&limit=10',
    latest: '/transactions?limit=10',
    pruned: '/transactions?start=120&limit=10',
    above: '/transactions?start=5000&limit=10',
  },
  {
    name: 'auxiliary info',
    final: '/transactions/auxiliary_info?start_version=600&limit=10',
    pruned: '/transactions/auxiliary_info?start_version=120&limit=10',
    above: '/transactions/auxiliary_info?start_version=5000&limit=10',
  },
  ...blocks(''),
  ...blocks('?with_transactions=true'),
  {
    name: 'events by number',
    final: `${account}/events/3?start=30&limit=5`,
    latest: `${account}/events/3`,
    pruned: `${account}/events/3?start=6&limit=5`,
    missing: `${nobody}/events/3?start=6`,
    above: `${account}/events/3?start=5000&limit=5`,
  },
  {
    name: 'events by handle',
    final: `${account}/events/${probe}/events?start=30&limit=5`,
    latest: `${account}/events/${probe}/events`,
    pruned: `${account}/events/${probe}/events?start=6&limit=5`,
    missing: `${account}/events/${probe}/none?start=6`,
    above: `${account}/events/${probe}/events?start=5000&limit=5`,
  },
];

const shared: readonly KeptRoute[] = [
  {
    name: 'account transactions',
    latest: `${account}/transactions?limit=5`,
    pruned: `${account}/transactions?start=3&limit=5`,
    missing: `${nobody}/transactions`,
  },
  {
    name: 'transaction summaries',
    latest: `${account}/transaction_summaries?limit=5`,
    pruned: `${account}/transaction_summaries?start_version=120&limit=5`,
    missing: `${nobody}/transaction_summaries`,
  },
  { name: 'gas price', latest: '/estimate_gas_price' },
  ...['/spec', '/spec.json', '/spec.yaml', '/info'].map((path) => ({ name: path, latest: path })),
];

/** All of them. */
export const keptRoutes: readonly KeptRoute[] = [...state, ...history, ...shared];
