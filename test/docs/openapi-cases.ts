/** Requests for every operation of the document that the gateway handles itself, by the status they are answered with. */
import { encodeVectors } from '../../src/sample/recorded.ts';
import { submission } from '../support/submission.ts';
import type { Operation } from '../support/openapi.ts';

export interface Case {
  readonly status: number;
  /** Below the address; default: the operation's path with its examples. */
  readonly target?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

const json = { 'content-type': 'application/json' };
const bcs = { accept: 'application/x-bcs' };
const account = '/v1/accounts/0x1/resource/0x1::account::Account';
const coin = '/v1/accounts/0x1/module/coin';

/** The node holds versions 30 to 10^10. */
const above = '?ledger_version=20000000000';
const pruned = '?ledger_version=5';
const pinned = '?ledger_version=500';

/** What a read that may name a version is answered with, whatever it reads. */
function versioned(target: string, more: Pick<Case, 'headers' | 'body'> = {}): readonly Case[] {
  const withHeaders = (headers: Readonly<Record<string, string>>) => ({
    ...more,
    headers: { ...more.headers, ...headers },
  });
  return [
    { ...more, status: 200, target: target + pinned },
    { ...more, status: 200, target: target + pinned },
    { ...more, status: 200, target },
    { ...withHeaders({ 'ledgergate-max-staleness': '0' }), status: 200, target },
    { ...withHeaders({ 'ledgergate-min-version': '600', 'ledgergate-max-staleness': '2s' }), status: 200, target },
    { ...withHeaders(bcs), status: 200, target: target + pinned },
    // A POST has no answer that a client could hold already.
    { ...withHeaders({ 'if-none-match': '*' }), status: more.body === undefined ? 304 : 200, target: target + pinned },
    { ...withHeaders({ 'ledgergate-min-version': 'x' }), status: 400, target },
    { ...more, status: 400, target: `${target}?ledger_version=x` },
    { ...more, status: 404, target: target + above },
    { ...more, status: 410, target: target + pruned },
  ];
}

/** A GET that is answered by a node, then from memory where it is kept, then with 304. */
function known(target: string): readonly Case[] {
  return [
    { status: 200, target },
    { status: 200, target },
    { status: 304, target, headers: { 'if-none-match': '*' } },
  ];
}

/** The same in both forms. */
function final(target: string): readonly Case[] {
  return [...known(target), { status: 200, target, headers: bcs }];
}

const tableItem = JSON.stringify({ key_type: 'address', value_type: 'u64', key: '0x1' });
const largeTableItem = JSON.stringify({ key_type: 'address', value_type: 'u64', key: 'x'.repeat(2_000) });
const rawTableItem = JSON.stringify({ key: '0x01' });
const probeEvents = '/v1/accounts/0x1/events/0x1::ledgergate_sample::Probe/events';

const viewBody = JSON.stringify({
  function: '0x1::coin::balance',
  type_arguments: ['0x1::aptos_coin::AptosCoin'],
  arguments: ['0x1'],
});

const largeView = JSON.stringify({
  function: '0x1::ledgergate_sample::echo',
  type_arguments: [],
  arguments: ['x'.repeat(5_000)],
});
const unknownView = viewBody.replace('balance', 'no_such_function');

const transfer = encodeVectors.find(({ chainId, status }) => chainId === 1 && status === 200)?.request ?? '';

/** By operation. */
export const cases: Readonly<Record<string, readonly Case[]>> = {
  getLedgerInfo: [
    { status: 200 },
    { status: 200, headers: bcs },
    { status: 400, headers: { 'ledgergate-max-staleness': 'soon' } },
  ],
  headLedgerInfo: [{ status: 200 }],
  getResource: [
    ...versioned(account),
    // Asked of a node, and then held.
    { status: 404, target: `/v1/accounts/0x1/resource/0x1::no::Such${pinned}` },
    { status: 404, target: `/v1/accounts/0x1/resource/0x1::no::Such${pinned}` },
    {
      status: 200,
      target: `/v1/accounts/0x1/resource/0x1::stake::ValidatorPerformance${pinned}`,
      headers: { 'accept-encoding': 'zstd' },
    },
    { status: 400, target: '/v1/accounts/0xg/resource/0x1::account::Account' },
    { status: 404, target: `/v1/accounts/0x1/resource/0x1::no::Such${pinned}` },
    { status: 404, target: '/v1/accounts/0x1/resource/0x1::no::Such' },
  ],
  headResource: [
    { status: 200, target: account + pinned },
    { status: 404, target: account + above },
  ],
  getModule: [
    ...versioned(coin),
    { status: 200, target: coin + pinned, headers: { 'accept-encoding': 'br' } },
    { status: 304, target: coin + pinned, headers: { 'accept-encoding': 'br', 'if-none-match': '*' } },
    { status: 400, target: '/v1/accounts/0x1/module/not-a-name' },
    { status: 404, target: `/v1/accounts/0x1/module/none${pinned}` },
  ],
  headModule: [{ status: 200, target: coin + pinned }],
  getTransactionByHash: [
    { status: 200 },
    { status: 200 },
    { status: 200, headers: bcs },
    { status: 200, headers: { 'accept-encoding': 'gzip' } },
    { status: 304, headers: { 'if-none-match': '*' } },
    { status: 400, target: '/v1/transactions/by_hash/0x12' },
    { status: 404, target: `/v1/transactions/by_hash/0x${'0'.repeat(64)}` },
  ],
  headTransactionByHash: [{ status: 200 }],
  waitTransactionByHash: [
    { status: 200 },
    { status: 200, headers: bcs },
    { status: 200, headers: { 'accept-encoding': 'gzip' } },
    { status: 304, headers: { 'if-none-match': '*' } },
    { status: 400, target: '/v1/transactions/wait_by_hash/0x12' },
    { status: 404, target: `/v1/transactions/wait_by_hash/0x${'0'.repeat(64)}` },
  ],
  executeView: [
    ...versioned('/v1/view', { headers: json, body: viewBody }),
    { status: 200, headers: { ...json, 'accept-encoding': 'br' }, body: largeView },
    { status: 400, headers: json, body: '{"function":' },
    { status: 400, headers: { ...json, 'ledgergate-max-staleness': '0' }, body: unknownView },
    { status: 415, headers: { 'content-type': 'text/plain' }, body: viewBody },
  ],
  encodeSubmission: [
    { status: 200, headers: json, body: transfer },
    { status: 200, headers: { ...json, 'content-encoding': 'identity' }, body: transfer },
    { status: 200, headers: { ...json, 'content-encoding': 'identity', 'accept-encoding': 'gzip' }, body: transfer },
    { status: 400, headers: json, body: '{}' },
    { status: 415, headers: { 'content-type': 'text/plain' }, body: transfer },
  ],
  submitTransaction: [
    { status: 202, headers: json, body: submission() },
    { status: 202, headers: { ...json, 'accept-encoding': 'gzip' }, body: submission() },
    { status: 400, headers: { ...json, 'accept-encoding': 'gzip' }, body: '{}' },
    { status: 415, headers: { 'content-type': 'text/plain' }, body: submission() },
  ],
  // A sample node has no batches: the test makes it answer.
  submitBatch: [],
  getAccount: [...versioned('/v1/accounts/0x1'), { status: 404, target: `/v1/accounts/0x5b${pinned}` }],
  headAccount: [{ status: 200 }],
  getBalance: [
    ...versioned('/v1/accounts/0x1/balance/0x1::aptos_coin::AptosCoin'),
    { status: 200, target: `/v1/accounts/0x1/balance/0xa${pinned}` },
  ],
  getResources: [
    ...versioned('/v1/accounts/0x1/resources'),
    { status: 200, target: '/v1/accounts/0x1/resources?ledger_version=500&limit=2' },
    { status: 200, headers: { 'accept-encoding': 'gzip' } },
  ],
  getModules: versioned('/v1/accounts/0x1/modules'),
  getTableItem: [
    ...versioned('/v1/tables/0x5a000001/item', { headers: json, body: tableItem }),
    { status: 200, headers: { ...json, 'accept-encoding': 'gzip' }, body: largeTableItem },
    { status: 404, target: `/v1/tables/0x1/item${pinned}`, headers: json, body: tableItem },
    { status: 415, headers: { 'content-type': 'text/plain' }, body: tableItem },
  ],
  getRawTableItem: [
    { status: 200, headers: { ...json, ...bcs }, body: rawTableItem },
    { status: 400, headers: json, body: '{}' },
    { status: 403, headers: json, body: rawTableItem },
    { status: 404, target: `/v1/tables/0x1/raw_item${pinned}`, headers: { ...json, ...bcs }, body: rawTableItem },
    { status: 410, target: `/v1/tables/0x1/raw_item${pruned}`, headers: { ...json, ...bcs }, body: rawTableItem },
    { status: 415, headers: { 'content-type': 'text/plain' }, body: rawTableItem },
  ],
  getTransactionByVersion: [
    ...final('/v1/transactions/by_version/500'),
    { status: 400, target: '/v1/transactions/by_version/x' },
    { status: 404, target: '/v1/transactions/by_version/20000000000' },
    { status: 410, target: '/v1/transactions/by_version/5' },
    { status: 410, target: '/v1/transactions/by_version/5', headers: { 'accept-encoding': 'gzip' } },
  ],
  getBlockByHeight: [
    ...final('/v1/blocks/by_height/100'),
    ...final('/v1/blocks/by_height/100?with_transactions=true'),
    { status: 400, target: '/v1/blocks/by_height/x' },
    { status: 404, target: '/v1/blocks/by_height/20000000000' },
    { status: 410, target: '/v1/blocks/by_height/0' },
  ],
  getBlockByVersion: [
    ...final('/v1/blocks/by_version/500'),
    { status: 400, target: '/v1/blocks/by_version/x' },
    { status: 404, target: '/v1/blocks/by_version/20000000000' },
    { status: 410, target: '/v1/blocks/by_version/5' },
  ],
  listTransactions: [
    ...final('/v1/transactions'),
    ...final('/v1/transactions?start=500&limit=3'),
    { status: 400, target: '/v1/transactions?start=x', headers: { 'accept-encoding': 'gzip' } },
    { status: 400, target: '/v1/transactions?start=20000000000' },
    { status: 410, target: '/v1/transactions?start=5' },
  ],
  getAuxiliaryInfo: [
    ...final('/v1/transactions/auxiliary_info?start_version=500'),
    { status: 400, target: '/v1/transactions/auxiliary_info' },
    { status: 410, target: '/v1/transactions/auxiliary_info?start_version=5' },
  ],
  getEventsByCreationNumber: [
    ...final('/v1/accounts/0x1/events/4'),
    ...final('/v1/accounts/0x1/events/4?start=100&limit=5'),
    { status: 400, target: '/v1/accounts/0xg/events/4' },
    { status: 404, target: '/v1/accounts/0x5b/events/4' },
    { status: 410, target: '/v1/accounts/0x1/events/4?start=0' },
  ],
  getEventsByField: [
    ...final(probeEvents),
    ...final(`${probeEvents}?start=100&limit=5`),
    { status: 400, target: '/v1/accounts/0x1/events/no_tag/events' },
    { status: 404, target: '/v1/accounts/0x1/events/0x1::no::Such/events' },
    { status: 410, target: `${probeEvents}?start=0` },
  ],
  getAccountTransactions: [
    ...final('/v1/accounts/0x1/transactions'),
    { status: 400, target: '/v1/accounts/0xg/transactions' },
    { status: 404, target: '/v1/accounts/0x5b/transactions' },
    { status: 410, target: '/v1/accounts/0x1/transactions?start=0' },
  ],
  getTransactionSummaries: [
    ...final('/v1/accounts/0x1/transaction_summaries'),
    { status: 400, target: '/v1/accounts/0xg/transaction_summaries' },
    { status: 404, target: '/v1/accounts/0x5b/transaction_summaries' },
    { status: 410, target: '/v1/accounts/0x1/transaction_summaries?start_version=5' },
  ],
  // A sample node has its price in JSON alone.
  estimateGasPrice: known('/v1/estimate_gas_price'),
  getNodeInfo: known('/v1/info'),
  getSpec: known('/v1/spec'),
  getSpecJson: known('/v1/spec.json'),
  getSpecYaml: known('/v1/spec.yaml'),
  getOther: [
    { status: 200 },
    { status: 200, headers: { 'accept-encoding': 'gzip' } },
    // A parameter that no operation lists.
    { status: 200, target: '/v1/accounts/0x1/resources?later=1' },
    { status: 400, target: '/v1/some%5cpath' },
    { status: 404, target: '/v1/set_failpoint' },
    { status: 405, target: '/v1/view' },
  ],
  preflight: [
    { status: 204, headers: { origin: 'https://app.example', 'access-control-request-method': 'GET' } },
    {
      status: 204,
      headers: {
        origin: 'https://app.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'ledgergate-min-version',
      },
    },
    { status: 405 },
  ],
};

/** A request that the operation takes, for what is refused before anybody looks what it asks for. */
export function requestOf({ id, method }: Operation): Case {
  const fits = cases[id]?.find(({ status, headers, target }) => {
    return status < 300 && headers?.['accept'] === undefined && !target?.includes('?');
  });
  if (fits !== undefined || method !== 'POST') return fits ?? { status: 200 };
  return { status: 200, headers: json, body: rawTableItem };
}
