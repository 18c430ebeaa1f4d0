/** One request to one node and its answer: types, and the steps without I/O. */
import { Readable } from 'node:stream';
import { JsonBody } from '../../ledger/answer-body.ts';
import type { Dialect, HeaderValues, LedgerInfo } from '../../ledger/ledger-headers.ts';
import type { CancelSignal } from '../../ledger/stop.ts';
import type { ByteBudget } from '../byte-budget.ts';
import { decode, gather, type NodeCoding } from './content-coding.ts';
import type { WireRequest } from '../node/node-client.ts';
import type { Upstream } from '../node/upstream.ts';

/** The head of a node's answer. */
export interface AnswerHead {
  readonly status: number;
  readonly headers: HeaderValues;
  /** The node's snapshot; `undefined` unless all seven ledger headers are valid. */
  readonly info: LedgerInfo | undefined;
  readonly upstream: Upstream;
  /** The content coding of the body. */
  readonly coding: NodeCoding | undefined;
  /** Ms from the request's first byte to the answer's end, or to the head of a streamed one. */
  readonly tookMs: number;
}

/** An answer whose body was read to its end. */
export interface NodeAnswer extends AnswerHead {
  /** Decoded. */
  readonly body: Buffer;
  /** The body that the node sent, in its `coding`. */
  readonly sent: Buffer;
  /** The decoded body as JSON, parsed once for all readers. */
  readonly json: JsonBody;
  /**
   * Whether the body has a length or chunks, so that a cut connection cannot pass for its end. Any other body may be
   * incomplete and is never stored.
   */
  readonly isFramed: boolean;
}

/** An answer whose body is still arriving. */
export interface StreamedAnswer extends AnswerHead {
  /** In its `coding`. */
  readonly stream: Readable;
}

/** The progress of an exchange, by which a failure counts against the node or not. */
export interface Progress {
  /** When bytes of the request may first have left, in ms of `performance.now()`. */
  sentAtMs: number | undefined;
  /** The head of an answer has arrived. */
  isAnswered: boolean;
  /** This is the second sending, after the loss of the first connection. */
  isRepeat?: boolean;
}

/** Bounds and properties of one exchange. */
export interface ExchangeContext {
  readonly dialect: Dialect;
  readonly signal: CancelSignal;
  readonly progress: Progress;
  /** Bounds bodies that are read whole. */
  readonly budget: ByteBudget;
  /** Trace headers beside the request's own. */
  readonly traceHeaders?: Readonly<Record<string, string>> | undefined;
  /** A new connection, which may lead to another of several nodes behind the address. */
  readonly isElsewhere?: boolean | undefined;
}

/** The request with the node's base path and credentials. */
export function requestTo(
  upstream: Upstream,
  request: WireRequest,
  { traceHeaders }: Pick<ExchangeContext, 'traceHeaders'> = {},
): WireRequest {
  const below = upstream.basePath + request.path;
  // Without a base path on either side, `below` is empty or a query alone.
  const path = below.startsWith('/') ? below : `/${below}`;
  const { method, body } = request;
  const isPlain = upstream.headers === undefined && traceHeaders === undefined;
  const headers = isPlain ? request.headers : { ...request.headers, ...traceHeaders, ...upstream.headers };
  return { method, path, headers, body };
}

/** Ms since the request was sent; 0 before. */
export function sinceSent({ sentAtMs }: Progress): number {
  return sentAtMs === undefined ? 0 : performance.now() - sentAtMs;
}

/** Whether the headers define the end of the body. */
export function isFramed(headers: HeaderValues): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
}

const unsendable = new Set(['UND_ERR_INVALID_ARG', 'UND_ERR_NOT_SUPPORTED', 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH']);

/** Whether an exchange failed because HTTP forbids the request: no node is at fault, and none can be asked. */
export function isUnsendable(error: unknown): boolean {
  return unsendable.has((error as NodeJS.ErrnoException).code ?? '');
}

/**
 * The answer with body `sent` and its decoded form; no promise when it has no coding. Rejects with `BadAnswerError` when
 * the body is not in its coding, with `OverBudgetError` beyond the budget, and on abort.
 */
export function wholeAnswer(
  head: AnswerHead,
  sent: Buffer,
  { budget, signal }: Pick<ExchangeContext, 'budget' | 'signal'>,
): NodeAnswer | Promise<NodeAnswer> {
  const withBody = (body: Buffer): NodeAnswer => {
    return { ...head, body, sent, json: new JsonBody(body), isFramed: isFramed(head.headers) };
  };
  // An answer to HEAD names the coding that GET would have.
  if (head.coding === undefined || sent.length === 0) return withBody(sent);
  // A revoked share throws at the next part.
  const share = budget.open(() => undefined);
  return gather(decode(Readable.from([sent]), head.coding), share, signal).then(withBody);
}
