/** Reads as the routes parse them, and the keys that the cache keeps their answers under. */
import { cacheKey, keyText } from '../../src/cache/key.ts';
import { moduleRead, resourceRead, transactionRead, viewRead } from '../../src/proxy/routes/parse-read.ts';
import type { Read } from '../../src/proxy/reads/read.ts';
import { Submissions } from '../../src/proxy/routes/submissions.ts';

export interface ReadOptions {
  /** With its question mark. */
  readonly query?: string;
  readonly accept?: string;
}

function request({ query = '?ledger_version=5', accept }: ReadOptions): { target: string; accept: string | undefined } {
  return { target: `/v1/any${query}`, accept };
}

export function readResource(address: string, tag: string, options: ReadOptions = {}): Read {
  return resourceRead({ address, type: tag }, request(options));
}

export function readModule(address: string, name: string, options: ReadOptions = {}): Read {
  return moduleRead({ address, name }, request(options));
}

export function readView(body: string | Buffer, options: ReadOptions & { readonly contentType?: string } = {}): Read {
  const { contentType = 'application/json' } = options;
  return viewRead({ ...request(options), contentType, body: Buffer.from(body) });
}

const noSubmissions = new Submissions();

export function readTransaction(hash: string, options: ReadOptions = {}): Read {
  return transactionRead({ hash }, request(options), noSubmissions);
}

/** The key a read has on chain 4. */
export function keyOf({ operation, subject, version, form }: Read): string {
  return keyText(cacheKey({ chainId: 4, operation, subject, version, form }));
}
