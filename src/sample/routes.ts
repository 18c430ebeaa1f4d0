/** Routes of a sample node. Any other path is a 404, as on a real node. */
import type { SampleAnswer } from './answer.ts';
import type { SampleCall } from './call.ts';
import { answerAccountSummaries, answerAccountTransactions } from './operations/account-history-operations.ts';
import {
  answerBlockByHeight,
  answerBlockByVersion,
  answerAuxiliaryInfo,
  answerTransactions,
} from './operations/history-operations.ts';
import { answerEventsByHandle, answerEventsByNumber } from './operations/event-operations.ts';
import {
  answerGasPrice,
  answerHealthy,
  answerInfo,
  answerLedgerInfo,
  answerSpec,
  answerSpecJson,
  answerSpecYaml,
} from './operations/ledger-operations.ts';
import {
  answerAccount,
  answerBalance,
  answerModule,
  answerResource,
  answerModules,
  answerResources,
} from './operations/state-operations.ts';
import { answerRawTableItem, answerTableItem } from './operations/table-operations.ts';
import {
  answerByHash,
  answerByVersion,
  answerEncodeSubmission,
  answerSimulate,
  answerSubmit,
  answerWaitByHash,
} from './operations/transaction-operations.ts';
import { answerView } from './operations/view-operation.ts';

/** Name of a route of the interface, for faults and logs. */
export type SampleRouteName = (typeof table)[number][0];

/** Answers one call; throws `NodeError`. */
export type SampleOperation = (call: SampleCall) => SampleAnswer | Promise<SampleAnswer>;

/** One route that matched, with its path parameters. */
export interface SampleRoute {
  readonly name: SampleRouteName;
  readonly operation: SampleOperation;
  readonly params: readonly string[];
}

/** Outcome of routing a method and a path. */
export type Routing =
  | ({ readonly kind: 'found' } & SampleRoute)
  | { readonly kind: 'unknown path' }
  | { readonly kind: 'wrong method' }
  | { readonly kind: 'bad encoding' };

const table = [
  ['ledgerInfo', 'GET', '/', answerLedgerInfo],
  ['healthy', 'GET', '/-/healthy', answerHealthy],
  ['spec', 'GET', '/spec', answerSpec],
  ['specJson', 'GET', '/spec.json', answerSpecJson],
  ['specYaml', 'GET', '/spec.yaml', answerSpecYaml],
  ['info', 'GET', '/info', answerInfo],
  ['account', 'GET', '/accounts/*', answerAccount],
  ['resources', 'GET', '/accounts/*/resources', answerResources],
  ['modules', 'GET', '/accounts/*/modules', answerModules],
  ['resource', 'GET', '/accounts/*/resource/*', answerResource],
  ['module', 'GET', '/accounts/*/module/*', answerModule],
  ['balance', 'GET', '/accounts/*/balance/*', answerBalance],
  ['accountTransactions', 'GET', '/accounts/*/transactions', answerAccountTransactions],
  ['accountSummaries', 'GET', '/accounts/*/transaction_summaries', answerAccountSummaries],
  ['eventsByNumber', 'GET', '/accounts/*/events/*', answerEventsByNumber],
  ['eventsByHandle', 'GET', '/accounts/*/events/*/*', answerEventsByHandle],
  ['tableItem', 'POST', '/tables/*/item', answerTableItem],
  ['rawTableItem', 'POST', '/tables/*/raw_item', answerRawTableItem],
  ['view', 'POST', '/view', answerView],
  ['byHash', 'GET', '/transactions/by_hash/*', answerByHash],
  ['waitByHash', 'GET', '/transactions/wait_by_hash/*', answerWaitByHash],
  ['byVersion', 'GET', '/transactions/by_version/*', answerByVersion],
  ['transactions', 'GET', '/transactions', answerTransactions],
  ['auxiliaryInfo', 'GET', '/transactions/auxiliary_info', answerAuxiliaryInfo],
  ['submit', 'POST', '/transactions', answerSubmit],
  ['simulate', 'POST', '/transactions/simulate', answerSimulate],
  ['encodeSubmission', 'POST', '/transactions/encode_submission', answerEncodeSubmission],
  ['blockByHeight', 'GET', '/blocks/by_height/*', answerBlockByHeight],
  ['blockByVersion', 'GET', '/blocks/by_version/*', answerBlockByVersion],
  ['estimateGasPrice', 'GET', '/estimate_gas_price', answerGasPrice],
] as const satisfies readonly (readonly [string, string, string, SampleOperation])[];

const routes = table.map(([name, method, path, operation]) => {
  return { name, method, segments: path.split('/').slice(1), operation };
});

/** `path` is below the base path, still percent-encoded; HEAD means GET. */
export function findRoute(method: string, path: string): Routing {
  const segments = path === '' ? [''] : path.split('/').slice(1);
  const matching = routes.filter((route) => matches(route.segments, segments));
  const route = matching.find((candidate) => candidate.method === (method === 'HEAD' ? 'GET' : method));
  if (matching.length === 0) return { kind: 'unknown path' };
  if (route === undefined) return { kind: 'wrong method' };
  const params = decodedParams(route.segments, segments);
  if (params === undefined) return { kind: 'bad encoding' };
  return { kind: 'found', name: route.name, operation: route.operation, params };
}

function matches(pattern: readonly string[], segments: readonly string[]): boolean {
  return pattern.length === segments.length && pattern.every((part, at) => part === '*' || part === segments[at]);
}

/** Each segment is decoded by itself, after the split: an encoded slash does not make a new segment. */
function decodedParams(pattern: readonly string[], segments: readonly string[]): readonly string[] | undefined {
  try {
    return segments.filter((_, at) => pattern[at] === '*').map((segment) => decodeURIComponent(segment));
  } catch {
    return undefined;
  }
}
