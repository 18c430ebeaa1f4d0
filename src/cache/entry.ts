/** A node's answer as it is kept: body bytes verbatim, the few headers that belong to the body, and no live state. */
import { hash } from 'node:crypto';
import type { LedgerVersion } from '../ledger/version.ts';

/** Content codings the gateway makes itself (RFC 9110 8.4.1); nodes are asked for plain bodies. */
export type ContentCoding = 'br' | 'zstd' | 'gzip';

export interface CachedResponse {
  readonly status: number;
  readonly contentType: string;
  readonly body: Buffer;
  /** Version of the ledger state that the body belongs to. */
  readonly servedVersion: LedgerVersion | undefined;
  /** Version at which a transaction was committed, or a later one where the answer does not tell. */
  readonly committedAt: LedgerVersion | undefined;
  /** Cost of the call as the node told it: state at the version decides it, so it is kept with the body. */
  readonly gasUsed: string | undefined;
  readonly cursor: string | undefined;
  /** Digest of the body, base64url: the middle of the entity tag. */
  readonly digest: string;
  /** Compressed forms, made when first asked for. */
  readonly coded: Readonly<Partial<Record<ContentCoding, Buffer>>>;
  /** Whether these bytes are the answer for ever; a committed transaction is, in meaning but not to the byte. */
  readonly isImmutable: boolean;
}

/** 132 bits of SHA-256: enough that two bodies never share an entity tag. */
export function bodyDigest(body: Buffer): string {
  return hash('sha256', body, 'base64url').slice(0, 22);
}

/** What an entry and its key cost in memory beside the body: objects, strings, the map's own slots. Measured. */
const overheadBytes = 700;

/** Bytes that an entry counts for in the bound of the memory tier. */
export function entryBytes(key: string, entry: CachedResponse): number {
  let bytes = overheadBytes + key.length + entry.body.length;
  for (const coded of Object.values(entry.coded)) bytes += coded.length;
  return bytes;
}
