/** One request to one node and its answer: types, and the decoding of bodies (RFC 9110 8.4.1, protocol 2.5). */
import { pipeline, Readable, type Transform } from 'node:stream';
import { constants, createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';
import {
  AnswerForm,
  type CancelSignal,
  CancelToken,
  type Dialect,
  headerOf,
  type HeaderValues,
  JsonBody,
  type LedgerInfo,
} from '../../ledger/index.ts';
import type { ByteBudget, Share } from '../byte-budget.ts';
import type { SentRequest, WireRequest } from '../node/node-client.ts';
import type { Upstream } from '../node/upstream.ts';

/** The head of a node's answer. */
export interface AnswerHead {
  readonly status: number;
  readonly headers: HeaderValues;
  /** The node's snapshot; `undefined` unless all seven ledger headers are valid. */
  readonly info: LedgerInfo | undefined;
  readonly upstream: Upstream;
  readonly coding: NodeCoding | undefined;
  /** From the request's first byte to the answer's end, or to the head of a streamed one. */
  readonly tookMs: number;
}

/** An answer whose body was read to its end. */
export interface NodeAnswer extends AnswerHead {
  readonly body: Buffer;
  /** The body as the node sent it, in its `coding`. */
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
  readonly stream: Readable & { decoded(coding: NodeCoding): Readable };
}

/** Bounds and properties of one exchange, and its progress, by which a failure counts against the node or not. */
export interface ExchangeContext {
  readonly dialect: Dialect;
  readonly signal: CancelSignal;
  readonly budget: ByteBudget;
  /** When bytes of the request may first have left, in ms of `performance.now()`. */
  sentAtMs: number | undefined;
  /** The head of an answer has arrived. */
  isAnswered: boolean;
  /** The second sending, after the loss of the first connection. */
  isRepeat?: boolean;
  /** Fair-share key: a large answer is read in its turns of the event loop. */
  readonly client?: string | undefined;
  readonly traceHeaders?: Readonly<Record<string, string>> | undefined;
  /** A new connection, which may lead to another of several nodes behind the address. */
  readonly isElsewhere?: boolean | undefined;
}

/** The request with the node's base path and credentials. */
export function requestTo(
  upstream: Upstream,
  request: WireRequest,
  { traceHeaders }: Pick<ExchangeContext, 'traceHeaders'> = {},
): SentRequest {
  const below = upstream.basePath + request.path;
  // Without a base path on either side, `below` is empty or a query alone.
  const path = below.startsWith('/') ? below : `/${below}`;
  const { method, body = null } = request;
  const isPlain = upstream.headers === undefined && traceHeaders === undefined;
  const headers = isPlain ? request.headers : { ...request.headers, ...traceHeaders, ...upstream.headers };
  return { method, path, headers, body };
}

/** Ms since the request was sent; 0 before. */
export function sinceSent({ sentAtMs }: ExchangeContext): number {
  return sentAtMs === undefined ? 0 : performance.now() - sentAtMs;
}

/** Whether the headers define the end of the body. */
export function isFramed(headers: HeaderValues): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
}

const unsendable = new Set(['UND_ERR_INVALID_ARG', 'UND_ERR_NOT_SUPPORTED', 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH']);

/** HTTP forbids the request: no node is at fault, and none can be asked. */
export function isUnsendable(error: unknown): boolean {
  return unsendable.has((error as NodeJS.ErrnoException).code ?? '');
}

/**
 * No promise for a small answer without a coding. Rejects with `BadAnswerError` when the body is not in its coding,
 * with `OverBudgetError` beyond the budget, and on abort. `tookMs`: of the whole answer.
 */
export function wholeAnswer(
  head: AnswerHead,
  sent: Buffer,
  { budget, signal, client }: Pick<ExchangeContext, 'budget' | 'signal' | 'client'>,
  tookMs = head.tookMs,
): NodeAnswer | Promise<NodeAnswer> {
  const { coding } = head;
  // An answer to HEAD names the coding that GET would have.
  if (coding === undefined || sent.length === 0) return answerOf(head, sent, sent, tookMs, client);
  // A revoked share throws at the next part.
  const share = budget.open(() => undefined);
  const decoded = gather(decode(Readable.from([sent]), coding), share, signal);
  return decoded.then((body) => answerOf(head, sent, body, tookMs, client));
}

function answerOf(
  { status, headers, info, upstream, coding }: AnswerHead,
  sent: Buffer,
  body: Buffer,
  tookMs: number,
  client = '',
): NodeAnswer | Promise<NodeAnswer> {
  const json = new JsonBody(body);
  const framed = isFramed(headers);
  const answer = { status, headers, info, upstream, coding, tookMs, body, sent, json, isFramed: framed };
  const isBcs = AnswerForm.find(headerOf(headers, 'content-type')) === 'bcs';
  return (isBcs ? undefined : json.readInTurns(client)?.then(() => answer)) ?? answer;
}

/** The bytes from a node are no acceptable answer: a failed attempt. */
export class BadAnswerError extends Error {
  override readonly name = 'BadAnswerError';
}

/** A coding that the gateway decodes. */
export type NodeCoding = 'zstd' | 'br' | 'gzip' | 'deflate';

/** No window above 8 MB (RFC 9659 3): a node must not choose the memory of its answer. */
const zstdParams = { [constants.ZSTD_d_windowLogMax]: 23 };

/** Larger chunks take fewer turns of the thread pool; zlib's default is a quarter of this. */
const chunkSize = 64 * 1024;

const decoders: Readonly<Record<NodeCoding, () => Transform & { readonly bytesWritten: number }>> = {
  zstd: () => createZstdDecompress({ chunkSize, params: zstdParams }),
  br: () => createBrotliDecompress({ chunkSize }),
  gzip: () => createGunzip({ chunkSize }),
  deflate: () => createInflate({ chunkSize }),
};

/** `x-gzip` is `gzip` (RFC 9110 8.4.1.3). */
const codings: ReadonlyMap<string, NodeCoding | undefined> = new Map([
  ['', undefined],
  ['identity', undefined],
  ['x-gzip', 'gzip'],
  ...(Object.keys(decoders) as NodeCoding[]).map((coding) => [coding, coding] as const),
]);

/** The coding of an answer's body, `undefined` without one. Throws `BadAnswerError` for unknown and stacked codings. */
export function findCoding({ 'content-encoding': value }: HeaderValues): NodeCoding | undefined {
  if (value === undefined) return undefined;
  const name = String(value).toLowerCase();
  if (!codings.has(name)) throw new BadAnswerError('unknown content coding');
  return codings.get(name);
}

/**
 * Decodes `body` while it arrives, with backpressure. Throws `BadAnswerError` for bytes that are not in the coding, break
 * off, or go on behind its end: some decoders skip a second frame silently.
 */
export async function* decode(body: Readable, coding: NodeCoding): AsyncGenerator<Buffer> {
  const decoder = decoders[coding]();
  let received = 0;
  body.on('data', (chunk: Buffer) => {
    received += chunk.length;
  });
  // The loop below throws the errors of the pipeline.
  pipeline(body, decoder, () => undefined);
  try {
    for await (const chunk of decoder) yield chunk as Buffer;
  } catch (error) {
    // No body at all, as after HEAD and with 204, is in every coding.
    if (received === 0 && body.readableEnded) return;
    throw new BadAnswerError('the body is not in its content coding', { cause: error });
  } finally {
    body.destroy();
    decoder.destroy();
  }
  if (decoder.bytesWritten !== received) throw new BadAnswerError('the coded body goes on behind its end');
}

/** Gathers a body within its share of the budget, which it closes. Rejects as `chunks`, `take`, or `signal` do. */
export async function gather(chunks: AsyncIterable<Buffer>, share: Share, signal: CancelSignal): Promise<Buffer> {
  const parts: Buffer[] = [];
  try {
    for await (const part of chunks) {
      if (signal.aborted) throw CancelToken.reasonOf(signal);
      share.take(part.length);
      parts.push(part);
    }
    return Buffer.concat(parts);
  } finally {
    share.close();
  }
}
