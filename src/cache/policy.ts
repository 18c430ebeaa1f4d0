/** Decides by protocol 1.2 whether an answer may be stored. Fails closed: every fact must be known to be final. */
import { findForm, type AnswerForm } from '../ledger/answer-form.ts';
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import { findU64, type LedgerVersion } from '../ledger/version.ts';
import type { JsonBody } from '../ledger/json-body.ts';
import type { Operation } from './key.ts';

/** The facts of an answer that the policy reads. */
export interface AnswerFacts {
  readonly status: number;
  /** The node's snapshot from the answer's own headers. */
  readonly info: LedgerInfo | undefined;
  readonly contentType: string | undefined;
  /** The body's content coding, which the gateway did not request. */
  readonly coding: string | undefined;
  readonly body: Buffer;
  /** The body as JSON. */
  readonly json: JsonBody;
  /** Whether the node announced the body's length or end: otherwise it may be truncated. */
  readonly isFramed: boolean;
}

/** The facts of the read that the policy reads. */
export interface ReadFacts {
  readonly operation: Operation;
  readonly form: AnswerForm;
  readonly version: LedgerVersion | undefined;
  readonly chainId: number;
}

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
  | 'not committed';

/** Error codes of a 404 that is final at a version the node holds. */
const finalNotFound: Readonly<Record<Operation, string | undefined>> = {
  resource: 'resource_not_found',
  module: 'module_not_found',
  view: undefined,
  transaction: undefined,
};

/** The policy's decision on the answer to a read. Pure. */
export function decide(read: ReadFacts, answer: AnswerFacts): Decision {
  const { info } = answer;
  if (info === undefined) return 'no ledger headers';
  if (info.chainId !== read.chainId) return 'other chain';
  if (!answer.isFramed) return 'unframed body';
  if (answer.coding !== undefined) return 'encoded body';
  if (read.operation === 'transaction') return decideTransaction(read, answer, info.version);
  if (read.version === undefined) return 'no version';
  if (read.version > info.version) return 'version not reached';
  if (answer.status === 200) return formFault(read.form, answer) ?? 'stored';
  if (answer.status !== 404) return 'status';
  // The pruner may have overtaken the read: a pruned item and one that never existed give the same 404.
  if (read.version < info.oldestVersion) return 'version pruned';
  const { error_code: code } = answer.json.members;
  return code !== undefined && code === finalNotFound[read.operation] ? 'stored' : 'error not final';
}

/** A pending transaction, and one without an outcome, will have another answer soon (protocol 1.1). */
function decideTransaction(read: ReadFacts, answer: AnswerFacts, head: LedgerVersion): Decision {
  if (answer.status !== 200) return 'status';
  const fault = formFault(read.form, answer);
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

/** JSON must parse to its end; the stored bytes stay the node's. */
function formFault(form: AnswerForm, { contentType, json }: AnswerFacts): Decision | undefined {
  if (findForm(contentType) !== form) return 'other form';
  if (form === 'bcs') return undefined;
  if (json.isOpaque) return 'too large';
  return json.isJson ? undefined : 'other form';
}
