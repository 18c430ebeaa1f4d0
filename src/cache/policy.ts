/**
 * What may be stored: exactly protocol 1.2. Fails closed: an answer is stored only when everything about it is known
 * to be final.
 */
import { findForm, type AnswerForm } from '../ledger/answer-form.ts';
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import { findU64, type LedgerVersion } from '../ledger/version.ts';
import type { JsonBody } from '../ledger/json-body.ts';
import type { Operation } from './key.ts';

/** An answer as the policy looks at it. */
export interface AnswerFacts {
  readonly status: number;
  /** The node's snapshot from the answer's own headers. */
  readonly info: LedgerInfo | undefined;
  readonly contentType: string | undefined;
  /** The coding that the node gave the body unasked. */
  readonly coding: string | undefined;
  readonly body: Buffer;
  /** The same, as JSON. */
  readonly json: JsonBody;
  /** Whether the end of the body was announced, so that it is surely whole. */
  readonly isFramed: boolean;
}

/** The read that was answered. */
export interface ReadFacts {
  readonly operation: Operation;
  readonly form: AnswerForm;
  readonly version: LedgerVersion | undefined;
  readonly chainId: number;
}

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

/** 404s that stay true at a version the node holds. */
const finalNotFound: Readonly<Record<Operation, string | undefined>> = {
  resource: 'resource_not_found',
  module: 'module_not_found',
  view: undefined,
  transaction: undefined,
};

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
  // The pruner may have been faster than the read: what is gone looks the same as what never was.
  if (read.version < info.oldestVersion) return 'version pruned';
  const { error_code: code } = answer.json.members;
  return code !== undefined && code === finalNotFound[read.operation] ? 'stored' : 'error not final';
}

/** A pending transaction, and one whose outcome is not told yet, will be answered otherwise soon (protocol 1.1). */
function decideTransaction(read: ReadFacts, answer: AnswerFacts, head: LedgerVersion): Decision {
  if (answer.status !== 200) return 'status';
  const fault = formFault(read.form, answer);
  if (fault !== undefined) return fault;
  if (read.form === 'bcs') return answer.body[0] === 0 ? 'stored' : 'not committed';
  const { type, version: text, success } = answer.json.members;
  const isCommitted = typeof type === 'string' && type !== 'pending_transaction' && typeof success === 'boolean';
  const version = versionOf(text);
  // Nothing is committed where the node's own ledger has not got to yet.
  return isCommitted && version !== undefined && version <= head ? 'stored' : 'not committed';
}

/** The version at which a committed transaction's JSON says it was committed. */
export function committedVersion(json: JsonBody): LedgerVersion | undefined {
  return versionOf(json.members['version']);
}

function versionOf(text: unknown): LedgerVersion | undefined {
  return typeof text === 'string' ? (findU64(text) as LedgerVersion | undefined) : undefined;
}

/** JSON must be JSON to its end: the parse is of a copy, the stored bytes stay the node's. */
function formFault(form: AnswerForm, { contentType, json }: AnswerFacts): Decision | undefined {
  if (findForm(contentType) !== form) return 'other form';
  if (form === 'bcs') return undefined;
  if (json.isOpaque) return 'too large';
  return json.isJson ? undefined : 'other form';
}
