/** Puts an answer on the wire, whole or with a faulty body. */
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { ledgerHeaderList, type Dialect, type LedgerInfo } from '../ledger/ledger-headers.ts';
import type { SampleAnswer } from './answer.ts';
import { findFault, type SampleFault } from './faults.ts';

/** Request, ledger and faults that shape the written answer. */
export interface WriteOptions {
  readonly request: IncomingHttpHeaders;
  readonly ledger: LedgerInfo;
  /** Headers that go with the ledger headers. */
  readonly further: Readonly<Record<string, string>>;
  readonly dialect: Dialect;
  readonly faults: readonly SampleFault[];
  readonly compression: boolean;
  /** Stops a slow body. */
  readonly signal: AbortSignal;
}

/** Resolves when the answer was handed to the connection; of a slow body, when its last piece was. */
export async function writeAnswer(
  response: ServerResponse,
  answer: SampleAnswer,
  options: WriteOptions,
): Promise<void> {
  const { faults } = options;
  const isCoded = answer.headers?.['content-encoding'] !== undefined;
  const gzip = options.compression && !isCoded && /\bgzip\b/i.test(options.request['accept-encoding'] ?? '');
  const plain = typeof answer.body === 'string' ? Buffer.from(answer.body) : answer.body;
  const body = gzip ? gzipSync(plain) : plain;
  const headers = ['Content-Type', answer.contentType, 'Content-Length', String(body.length)];
  if (gzip) headers.push('Content-Encoding', 'gzip');
  if (answer.ledgerHeaders && findFault(faults, 'no ledger headers') === undefined) {
    headers.push(...ledgerHeaderList(options.ledger, options.dialect), ...Object.entries(options.further).flat());
  }
  if (answer.gasUsed !== undefined) headers.push(options.dialect.gasUsed, String(answer.gasUsed));
  if (answer.cursor !== undefined) headers.push(options.dialect.cursor, answer.cursor);
  for (const [name, value] of Object.entries(answer.headers ?? {})) headers.push(name, value);
  response.writeHead(answer.status, headers);
  const fault = findFault(faults, 'slow body', 'truncated body');
  if (fault?.kind === 'slow body') await writeSlowly(response, body, fault, options.signal);
  else if (fault !== undefined) writeHalf(response, body);
  else response.end(body);
}

async function writeSlowly(
  response: ServerResponse,
  body: Uint8Array,
  pace: { readonly chunkBytes: number; readonly everyMs: number },
  signal: AbortSignal,
): Promise<void> {
  for (let at = 0; at < body.length && !response.destroyed; at += pace.chunkBytes) {
    response.write(body.subarray(at, at + pace.chunkBytes));
    await delay(pace.everyMs, undefined, { signal });
  }
  response.end();
}

/** The end comes after the half was flushed, so that the client sees headers, a part of the body, and a lost peer. */
function writeHalf(response: ServerResponse, body: Uint8Array): void {
  response.write(body.subarray(0, Math.floor(body.length / 2)), () => response.socket?.destroy());
}
