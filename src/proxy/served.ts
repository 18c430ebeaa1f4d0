/** The result of one read: the answer, its source, and the facts that the response reports. */
import type { CachedResponse } from '../cache/entry.ts';
import { fromRedis, type Loaded } from '../cache/read-through.ts';
import type { LedgerVersion } from '../ledger/version.ts';

/** Where an answer came from, for `Cache-Status`. */
export type Source =
  | { readonly kind: 'memory' }
  | { readonly kind: 'redis'; readonly isCollapsed: boolean }
  | {
      readonly kind: 'upstream';
      readonly name: string;
      readonly isCollapsed: boolean;
      /** Time from the request to the node until its answer, in milliseconds. */
      readonly tookMs: number;
    };

/** An answer ready to be written. `isFinal`: it is the answer for ever, and is kept. */
export interface Served {
  readonly entry: CachedResponse;
  /** Version of the ledger state that the body belongs to. */
  readonly version: LedgerVersion | undefined;
  readonly isFinal: boolean;
  /** The gateway chose the version: the same question will be answered otherwise soon. */
  readonly isLatest: boolean;
  /** Age of the state that is given as the latest, in whole seconds; 0 of a version, which stays what it is. */
  readonly ageSeconds: number;
  readonly source: Source;
}

/** The node that answered, and what is true of its answer and not of the read. */
export interface Origin {
  readonly upstream: string;
  readonly tookMs: number;
  /** The version that its answer to an unpinned read is of. */
  readonly version: LedgerVersion | undefined;
}

/** Turns a load's result into the result of one of the reads that waited for it. */
export function served(
  read: { readonly version: LedgerVersion | undefined },
  { answer, isFinal, origin }: Loaded<Origin | typeof fromRedis>,
  isCollapsed: boolean,
): Served {
  const isShared = origin === fromRedis;
  // A success is of the version that was asked for, kept or not: one that may be incomplete, or is compressed, as well.
  const isOfRead = isFinal || answer.status < 300;
  const asked = isOfRead ? read.version : undefined;
  return {
    entry: answer,
    version: asked ?? (isFinal || isShared ? undefined : origin.version),
    isFinal,
    isLatest: false,
    ageSeconds: 0,
    source: isShared
      ? { kind: 'redis', isCollapsed }
      : { kind: 'upstream', name: origin.upstream, isCollapsed, tookMs: origin.tookMs },
  };
}
