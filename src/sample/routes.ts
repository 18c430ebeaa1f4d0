/** Routes of a sample node. Any other path is a 404, as on a real node. */
import type { SampleAnswer } from './answer.ts';
import type { SampleCall } from './call.ts';
import { frameworkError, type NodeError } from './node-error.ts';
import * as history from './operations/history-operations.ts';
import * as events from './operations/event-operations.ts';
import * as node from './operations/ledger-operations.ts';
import * as state from './operations/state-operations.ts';
import * as transactions from './operations/transaction-operations.ts';
import * as views from './operations/view-operation.ts';

/** Name of a route of the interface, for faults and logs. */
export type SampleRouteName = (typeof table)[number][0];

/** Answers one call; throws `NodeError`. */
type SampleOperation = (call: SampleCall) => SampleAnswer | Promise<SampleAnswer>;

/** The operation of a method and a path. */
export interface SampleRoute {
  readonly name: SampleRouteName;
  readonly operation: SampleOperation;
  /** The holes of the path, percent-decoded. */
  readonly params: readonly string[];
}

const table = [
  ['ledgerInfo', 'GET', '/', node.answerLedgerInfo],
  ['healthy', 'GET', '/-/healthy', node.answerHealthy],
  ['spec', 'GET', '/spec', node.spec],
  ['specJson', 'GET', '/spec.json', node.specJson],
  ['specYaml', 'GET', '/spec.yaml', node.specYaml],
  ['info', 'GET', '/info', node.info],
  ['account', 'GET', '/accounts/*', state.answerAccount],
  ['resources', 'GET', '/accounts/*/resources', state.answerResources],
  ['modules', 'GET', '/accounts/*/modules', state.answerModules],
  ['resource', 'GET', '/accounts/*/resource/*', state.answerResource],
  ['module', 'GET', '/accounts/*/module/*', state.answerModule],
  ['balance', 'GET', '/accounts/*/balance/*', state.answerBalance],
  ['accountTransactions', 'GET', '/accounts/*/transactions', history.answerAccountTransactions],
  ['accountSummaries', 'GET', '/accounts/*/transaction_summaries', history.answerAccountSummaries],
  ['eventsByNumber', 'GET', '/accounts/*/events/*', events.answerEventsByNumber],
  ['eventsByHandle', 'GET', '/accounts/*/events/*/*', events.answerEventsByHandle],
  ['tableItem', 'POST', '/tables/*/item', state.answerTableItem],
  ['rawTableItem', 'POST', '/tables/*/raw_item', state.answerRawTableItem],
  ['view', 'POST', '/view', views.answerView],
  ['byHash', 'GET', '/transactions/by_hash/*', transactions.answerByHash],
  ['waitByHash', 'GET', '/transactions/wait_by_hash/*', transactions.answerWaitByHash],
  ['byVersion', 'GET', '/transactions/by_version/*', transactions.answerByVersion],
  ['transactions', 'GET', '/transactions', history.answerTransactions],
  ['auxiliaryInfo', 'GET', '/transactions/auxiliary_info', history.answerAuxiliaryInfo],
  ['submit', 'POST', '/transactions', transactions.answerSubmit],
  ['simulate', 'POST', '/transactions/simulate', transactions.answerSimulate],
  ['encodeSubmission', 'POST', '/transactions/encode_submission', transactions.answerEncodeSubmission],
  ['blockByHeight', 'GET', '/blocks/by_height/*', history.answerBlockByHeight],
  ['blockByVersion', 'GET', '/blocks/by_version/*', history.answerBlockByVersion],
  ['estimateGasPrice', 'GET', '/estimate_gas_price', node.answerGasPrice],
] as const satisfies readonly (readonly [string, string, string, SampleOperation])[];

const routes = table.map(([name, method, path, operation]) => {
  return { name, method, segments: path.split('/').slice(1), operation };
});

/** `path` is below the base path, still percent-encoded; HEAD means GET. The fault of a request without an operation. */
export function findRoute(method: string, path: string): SampleRoute | NodeError {
  const segments = path === '' ? [''] : path.split('/').slice(1);
  const matching = routes.filter((route) => matches(route.segments, segments));
  const route = matching.find((candidate) => candidate.method === (method === 'HEAD' ? 'GET' : method));
  if (matching.length === 0) return frameworkError(404, 'not found');
  if (route === undefined) return frameworkError(405, 'method not allowed');
  const params = decodedParams(route.segments, segments);
  if (params === undefined) return frameworkError(400, 'failed to parse path: bad percent-encoding');
  return { name: route.name, operation: route.operation, params };
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
