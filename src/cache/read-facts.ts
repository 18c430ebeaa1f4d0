/** The facts of a read and of its answer that decide whether the answer may be stored. */
import type { AnswerForm, JsonBody } from '../ledger/answer-body.ts';
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { Operation } from './key.ts';

/** The part of history that a read asks for. */
export type Extent =
  /** The transaction that was committed at this version. */
  | { readonly kind: 'transaction'; readonly version: bigint }
  /** A list of transactions. `last`: the version of the last of its `items` (at most 127), where it is full. */
  | { readonly kind: 'list'; readonly last: bigint; readonly items: number }
  /** A block with its transactions. `height`: `undefined` when only the body has it. */
  | { readonly kind: 'block'; readonly height: bigint | undefined }
  /** A block without transactions. */
  | { readonly kind: 'bare block'; readonly height: bigint | undefined }
  /** A page of an event stream. `items`: the length of a full page, at most 127. */
  | { readonly kind: 'page'; readonly items: number };

/** The facts of a read. */
export interface ReadFacts {
  readonly operation: Operation;
  readonly form: AnswerForm;
  readonly version: LedgerVersion | undefined;
  /** Absent for state, and for a transaction by hash. */
  readonly extent?: Extent | undefined;
}

/** The facts of an answer. */
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

/** The ledger as the fleet believes it to be when the answer arrives. */
export interface BelievedLedger {
  readonly chainId: number;
  /** The newest snapshot; `undefined`: none yet. */
  readonly head: LedgerInfo | undefined;
}
