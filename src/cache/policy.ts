/** Decides by protocol 1.2 whether an answer may be stored. Fails closed: every fact must be known to be final. */
import { findForm, type JsonBody } from '../ledger/answer-body.ts';
import { findU64, type LedgerVersion } from '../ledger/version.ts';
import { decideHistory } from './history-policy.ts';
import { isOfState, type Operation } from './key.ts';
import type { AnswerFacts, BelievedLedger, ReadFacts } from './read-facts.ts';

/** `stored`, or the first reason against it. */
export type Decision =
  | 'stored'
  | 'no version'
  | 'no ledger headers'
  | 'other chain'
  | 'version not reached'
  | 'version pruned'
  | 'unframed body'
  | 'encoded body'
  | 'other form'
  | 'too large'
  | 'status'
  | 'error not final'
  | 'not committed'
  | 'not complete';

/**
 * Error codes of a 404 that is final at a version the node holds. The one of an account is not: a feature flag at the
 * node's head turns it into a 200 (protocol 1, row 5).
 */
export const finalNotFound: Readonly<Partial<Record<Operation, string>>> = {
  resource: 'resource_not_found',
  module: 'module_not_found',
  table_item: 'table_item_not_found',
  raw_table_item: 'table_item_not_found',
};

/** The policy's decision on the answer to a read. Pure. */
export function decide(read: ReadFacts, answer: AnswerFacts, believed: BelievedLedger): Decision {
  const { info } = answer;
  if (info === undefined) return 'no ledger headers';
  if (info.chainId !== believed.chainId) return 'other chain';
  if (!answer.isFramed) return 'unframed body';
  if (answer.coding !== undefined) return 'encoded body';
  if (read.operation === 'transaction') return decideTransaction(read, answer, info.version);
  if (!isOfState(read.operation)) {
    if (answer.status !== 200) return 'status';
    return formFault(read, answer) ?? decideHistory(read, answer, info, believed.head);
  }
  if (read.version === undefined) return 'no version';
  if (read.version > info.version) return 'version not reached';
  if (answer.status === 200) return formFault(read, answer) ?? 'stored';
  if (answer.status !== 404) return 'status';
  // The pruner may have overtaken the read: a pruned item and one that never existed give the same 404.
  if (read.version < info.oldestVersion) return 'version pruned';
  const { error_code: code } = answer.json.members;
  return code !== undefined && code === finalNotFound[read.operation] ? 'stored' : 'error not final';
}

/**
 * Whether the bytes of a stored answer hold for ever. JSON of transactions and events does not: nodes render it with the
 * modules of their head, and newer software adds members (protocol 1.1 and 10).
 */
export function isImmutable({ operation, form, extent }: ReadFacts): boolean {
  if (operation === 'transaction') return false;
  return isOfState(operation) || form === 'bcs' || extent?.kind === 'bare block';
}

/**
 * Whether two nodes must give the same bytes: not for JSON that depends on flags or modules at the head of each
 * (protocol 1, rows 5 and 6).
 */
export function isSameAtAllNodes(read: ReadFacts): boolean {
  if (read.form === 'json' && (read.operation === 'account' || read.operation === 'resources')) return false;
  return isOfState(read.operation);
}

/** A pending transaction, and one without an outcome, will have another answer soon (protocol 1.1). */
function decideTransaction(read: ReadFacts, answer: AnswerFacts, head: LedgerVersion): Decision {
  if (answer.status !== 200) return 'status';
  const fault = formFault(read, answer);
  if (fault !== undefined) return fault;
  if (read.form === 'bcs') return answer.body[0] === 0 ? 'stored' : 'not committed';
  const { type, version: text, success } = answer.json.members;
  const isCommitted = typeof type === 'string' && type !== 'pending_transaction' && typeof success === 'boolean';
  const version = versionOf(text);
  // A version above the node's own head cannot be committed.
  return isCommitted && version !== undefined && version <= head ? 'stored' : 'not committed';
}

/** The commit version in a transaction's JSON. */
export function committedVersion(json: JsonBody): LedgerVersion | undefined {
  return versionOf(json.members['version']);
}

function versionOf(text: unknown): LedgerVersion | undefined {
  return typeof text === 'string' ? (findU64(text) as LedgerVersion | undefined) : undefined;
}

/**
 * JSON must parse to its end; the stored bytes stay the node's. Lists may be too large to parse: their announced length,
 * first and last byte have to do (`validateAnswer`).
 */
function formFault({ form, operation }: ReadFacts, { contentType, json, body }: AnswerFacts): Decision | undefined {
  if (findForm(contentType) !== form) return 'other form';
  if (isList(operation) && body.length > largestList) return 'too large';
  if (form === 'bcs') return undefined;
  if (json.isOpaque) return isList(operation) ? undefined : 'too large';
  return json.isJson ? undefined : 'other form';
}

/** Whether answers have as many items as the request asks for, and therefore any size. */
export function isList(operation: Operation): boolean {
  return lists.has(operation);
}

/** In bytes. The digest of a longer one would hold up the event loop. */
const largestList = 8 * 1024 * 1024;

const lists: ReadonlySet<Operation> = new Set(['modules', 'resources', 'transactions', 'auxiliary_info', 'block']);
