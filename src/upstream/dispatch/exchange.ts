/** One request to one node and its answer, as the wire has them: types, and the steps without I/O. */
import type { Readable } from 'node:stream';
import { JsonBody } from '../../ledger/json-body.ts';
import type { Dialect, HeaderValues, LedgerInfo } from '../../ledger/ledger-headers.ts';
import type { CancelSignal } from '../../ledger/stop.ts';
import type { ByteBudget } from '../byte-budget.ts';
import { decodeWhole, type NodeCoding } from './content-coding.ts';
import type { WireRequest } from '../node/node-client.ts';
import type { Upstream } from '../node/upstream.ts';

/** The head of a node's answer. */
export interface AnswerHead {
  readonly status: number;
  readonly headers: HeaderValues;
  /** The node's snapshot, when all seven ledger headers are there. */
  readonly info: LedgerInfo | undefined;
  readonly upstream: Upstream;
  /** The coding that the node gave the body. */
  readonly coding: NodeCoding | undefined;
  /** What the node took over it, the wait for a connection left out: to its end, of a streamed one to its head. */
  readonly tookMs: number;
}

/** An answer whose body was read to its end. */
export interface NodeAnswer extends AnswerHead {
  /** Decoded. */
  readonly body: Buffer;
  /** The body as the node sent it, in its `coding`. */
  readonly sent: Buffer;
  /** The decoded body as JSON: parsed once, whoever asks. */
  readonly json: JsonBody;
  /**
   * Whether the length of the body was announced, so that a cut connection cannot pass for its end. A body that ends
   * with the connection may be incomplete and is never stored.
   */
  readonly isFramed: boolean;
}

/** An answer whose body is still coming. */
export interface StreamedAnswer extends AnswerHead {
  /** In its `coding`. */
  readonly stream: Readable;
}

/** How far an exchange has got: what its failure says of the node depends on it. */
export interface Progress {
  /** When the request was sent, so that bytes of it may have left; in ms of `performance.now()`. */
  sentAtMs: number | undefined;
  /** The head of an answer came. */
  isAnswered: boolean;
  /** The request is sent again, because its first connection was lost. */
  isRepeat?: boolean;
}

export interface ExchangeContext {
  readonly dialect: Dialect;
  readonly signal: CancelSignal;
  readonly progress: Progress;
  /** Bodies that are read whole are gathered within it. */
  readonly budget: ByteBudget;
  /** Sent beside the request's own: where its trace goes on. */
  readonly traceHeaders?: Readonly<Record<string, string>> | undefined;
}

/** The request with the node's base path and credentials. */
export function requestTo(
  upstream: Upstream,
  request: WireRequest,
  { traceHeaders }: Pick<ExchangeContext, 'traceHeaders'> = {},
): WireRequest {
  const below = upstream.basePath + request.path;
  // Nothing, or a query alone, where neither side has a base path.
  const path = below.startsWith('/') ? below : `/${below}`;
  const { method, body } = request;
  const isPlain = upstream.headers === undefined && traceHeaders === undefined;
  const headers = isPlain ? request.headers : { ...request.headers, ...traceHeaders, ...upstream.headers };
  return { method, path, headers, body };
}

/** Ms since the request was sent. */
export function sinceSent({ sentAtMs }: Progress): number {
  return sentAtMs === undefined ? 0 : performance.now() - sentAtMs;
}

/** Whether the end of the body was announced. */
export function isFramed(headers: HeaderValues): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
}

const unsendable = new Set(['UND_ERR_INVALID_ARG', 'UND_ERR_NOT_SUPPORTED', 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH']);

/** Whether an exchange failed because HTTP forbids the request as it is. No node is at fault, and none can be asked. */
export function isUnsendable(error: unknown): boolean {
  return unsendable.has((error as NodeJS.ErrnoException).code ?? '');
}

/**
 * The answer whose body is `sent`, decoded to be looked into. Rejects with `BadAnswerError` where the body is not in its
 * coding, with `OverBudgetError` where it decodes to more than is gathered, and on abort. At once where there is no coding.
 */
export function wholeAnswer(
  head: AnswerHead,
  sent: Buffer,
  context: Pick<ExchangeContext, 'budget' | 'signal'>,
): NodeAnswer | Promise<NodeAnswer> {
  const withBody = (body: Buffer): NodeAnswer => {
    return { ...head, body, sent, json: new JsonBody(body), isFramed: isFramed(head.headers) };
  };
  // An answer to HEAD names the coding that GET would have.
  if (head.coding === undefined || sent.length === 0) return withBody(sent);
  return decodeWhole(sent, head.coding, context).then(withBody);
}
