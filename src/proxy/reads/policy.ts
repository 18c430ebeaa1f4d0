/** Decides by protocol 1.2 whether an answer may be stored. Fails closed: every fact must be known to be final. */
import {
  AnswerForm,
  findU64,
  headerOf,
  type JsonBody,
  type LedgerInfo,
  type LedgerVersion,
} from '../../ledger/index.ts';
import { kinds, mutableTtlMs, type Operation } from '../../cache/index.ts';
import type { Fleet, NodeAnswer } from '../../upstream/index.ts';

/** The part of history that a read asks for. */
export type Extent =
  /** The transaction that was committed at this version. */
  | { readonly kind: 'transaction'; readonly version: bigint }
  /** A list of transactions from version `first` on, of at most `limit` items. */
  | { readonly kind: 'list'; readonly first: bigint; readonly limit: number }
  /** A block with its transactions. `height`: `undefined` when only the body has it. */
  | { readonly kind: 'block'; readonly height: bigint | undefined }
  /** A block without transactions. */
  | { readonly kind: 'bare block'; readonly height: bigint | undefined }
  /** A page of an event stream from sequence number `first` on, of at most `limit` items. */
  | { readonly kind: 'page'; readonly first: bigint; readonly limit: number };

/** The facts of a read. */
export interface ReadFacts {
  readonly operation: Operation;
  readonly form: AnswerForm;
  readonly version: LedgerVersion | undefined;
  /** Absent for state, and for a transaction by hash. */
  readonly extent?: Extent | undefined;
}

/** The facts of an answer. `coding`: of its body, which the gateway did not request. */
export type AnswerFacts = Pick<NodeAnswer, 'status' | 'info' | 'headers' | 'coding' | 'body' | 'json' | 'isFramed'>;

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

/** Whether a version decides the answer to this kind of read; without one it is a read of "latest". */
export function isOfState(operation: Operation): boolean {
  return kinds[operation].class === 'state';
}

/** Whether the gateway chooses the version: a read of state that names none. */
export function isOfLatest({ operation, version }: Pick<ReadFacts, 'operation' | 'version'>): boolean {
  return version === undefined && isOfState(operation);
}

/** The policy's decision on the answer to a read. `believed`: the fleet's ledger when the answer arrives. Pure. */
export function decide(read: ReadFacts, answer: AnswerFacts, believed: Pick<Fleet, 'chainId' | 'head'>): Decision {
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
  return code !== undefined && code === kinds[read.operation].notFound ? 'stored' : 'error not final';
}

/**
 * Ms for which a stored answer to the read is kept; `Infinity`: its bytes hold for ever. JSON of transactions and events
 * does not: nodes render it with the modules of their head, and newer software adds members (protocol 1.1 and 10).
 */
export function lifetimeOf({ operation, form, extent }: ReadFacts): number {
  if (operation === 'transaction') return mutableTtlMs;
  return isOfState(operation) || form === 'bcs' || extent?.kind === 'bare block' ? Infinity : mutableTtlMs;
}

/**
 * The newest version that a stored answer depends on: its own, or else the head of the node that answered. Until a second
 * node has reached it, the answer is one node's word for a ledger that may not come to be.
 */
export function newestIn({ operation, version, extent }: ReadFacts, { info, json }: AnswerFacts): bigint {
  const head = info?.version ?? 0n;
  if (version !== undefined) return version;
  if (operation === 'transaction') return committedVersion(json) ?? head;
  switch (extent?.kind) {
    case 'transaction':
      return extent.version;
    case 'list':
      return extent.first + BigInt(fullPage(extent.limit)) - 1n;
    case 'block':
    case 'bare block':
      return versionOf(json.members['last_version']) ?? head;
    case 'page':
    case undefined:
      return head;
  }
}

/** Whether nodes must give the same bytes: not for JSON by flags or modules at their heads (protocol 1, rows 5 and 6). */
export function isSameAtAllNodes(read: ReadFacts): boolean {
  const { class: ofKind, jsonVaries = false } = kinds[read.operation];
  return ofKind === 'state' && !(jsonVaries && read.form === 'json');
}

/** A pending transaction, and one without an outcome, will have another answer soon (protocol 1.1). */
function decideTransaction(read: ReadFacts, answer: AnswerFacts, head: LedgerVersion): Decision {
  if (answer.status !== 200) return 'status';
  const fault = formFault(read, answer);
  if (fault !== undefined) return fault;
  if (read.form === 'bcs') return answer.body[0] === 0 ? 'stored' : 'not committed';
  const version = committedIn(answer.json);
  // A version above the node's own head cannot be committed.
  return version !== undefined && version <= head ? 'stored' : 'not committed';
}

/** `undefined`: the transaction is pending, or has no outcome. */
function committedIn(json: JsonBody): LedgerVersion | undefined {
  const { type, success } = json.members;
  const isCommitted = typeof type === 'string' && type !== 'pending_transaction' && typeof success === 'boolean';
  return isCommitted ? committedVersion(json) : undefined;
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
function formFault({ form, operation }: ReadFacts, { headers, json, body }: AnswerFacts): Decision | undefined {
  if (AnswerForm.find(headerOf(headers, 'content-type')) !== form) return 'other form';
  const { isList = false } = kinds[operation];
  if (isList && body.length > largestList) return 'too large';
  if (form === 'bcs') return undefined;
  if (json.isOpaque) return isList ? undefined : 'too large';
  return json.isJson ? undefined : 'other form';
}

/** In bytes. The digest of a longer one would hold up the event loop. */
const largestList = 8 * 1024 * 1024;

type HistoryBody = Pick<AnswerFacts, 'body' | 'json'>;

/**
 * Decides on a 200 of history: transactions by version, lists, blocks, events. It is final once all that was asked for
 * lies within the ledger of the node that answered and within the ledger that the fleet believes in (`head`); before, the
 * same request will have a longer answer.
 */
function decideHistory(
  { extent, form }: ReadFacts,
  answer: HistoryBody,
  info: LedgerInfo,
  head: LedgerInfo | undefined,
): Decision {
  // A node whose head is not believed may be of another history, and its head proves no answer complete.
  if (extent === undefined || head === undefined || info.version > head.version) return 'not complete';
  switch (extent.kind) {
    case 'transaction':
      if (extent.version > info.version) return 'not complete';
      return isCommittedAt(extent.version, form, answer) ? 'stored' : 'not committed';
    case 'list':
      return isFullList(extent, form, answer, info.version) ? 'stored' : 'not complete';
    case 'block':
    case 'bare block': {
      // The height asked for stands in for the one in a list that is too large to parse.
      const height = heightIn(form, answer) ?? (answer.json.isOpaque ? extent.height : undefined);
      if (height === undefined || height !== (extent.height ?? height)) return 'not complete';
      // The block of the head may still grow.
      return height < info.blockHeight && height < head.blockHeight ? 'stored' : 'not complete';
    }
    case 'page':
      return lengthOf(form, answer) === fullPage(extent.limit) ? 'stored' : 'not complete';
  }
}

/** Whether the answer is the transaction committed at `version`, by the members or bytes that nodes must send (1.1). */
function isCommittedAt(version: bigint, form: ReadFacts['form'], { body, json }: HistoryBody): boolean {
  if (form === 'bcs') return body.length > 8 && body[0] === 0 && body.readBigUInt64LE(1) === version;
  return committedIn(json) === version;
}

/** Whether the list has all its items: a node that is behind the `head` that it reports answers a shorter one. */
function isFullList(
  { first, limit }: Extract<Extent, { readonly kind: 'list' }>,
  form: ReadFacts['form'],
  answer: HistoryBody,
  head: LedgerVersion,
): boolean {
  const items = fullPage(limit);
  const last = first + BigInt(items) - 1n;
  if (last > head) return false;
  // Too large to parse: its last version is searched for instead.
  if (form === 'json' && answer.json.isOpaque) return answer.body.includes(`"version":"${last}"`);
  return lengthOf(form, answer) === items;
}

/** Items of a full page: at most 100. The cache keeps no page of a node that is configured for other lengths. */
function fullPage(limit: number): number {
  return Math.min(limit, 100);
}

/** Height in a block: a text in JSON; in BCS the first member, a u64 (protocol 1, row 14). */
function heightIn(form: ReadFacts['form'], { body, json }: HistoryBody): bigint | undefined {
  if (form === 'bcs') return body.length < 8 ? undefined : body.readBigUInt64LE();
  const { block_height: height } = json.members;
  return typeof height === 'string' ? findU64(height) : undefined;
}

/** Items of a list: of a JSON array, or by the length that opens a BCS sequence, one byte up to 127 (ULEB128). */
function lengthOf(form: ReadFacts['form'], { body, json }: HistoryBody): number | undefined {
  return form === 'json' ? json.count : body[0];
}
