/** One read, and its result: the answer, its source, and the facts that the response reports. */
import type { CachedResponse } from '../../cache/entry.ts';
import type { CacheKey, Operation } from '../../cache/key.ts';
import { fromRedis, type Loaded } from '../../cache/read-through.ts';
import type { AnswerForm } from '../../ledger/answer-form.ts';
import type { LedgerVersion } from '../../ledger/version.ts';
import type { WireRequest } from '../../upstream/node/node-client.ts';
import type { Need } from '../../upstream/select/need.ts';

/** One read, parsed and canonical. `wire` is made from the canonical parts only. */
export interface Read {
  readonly operation: Operation;
  readonly subject: string;
  /** The version the client named. */
  readonly version: LedgerVersion | undefined;
  readonly form: AnswerForm;
  readonly wire: WireRequest;
  readonly need: Need;
  /** A long poll has one: the same request, answered at once. */
  readonly atOnce?: WireRequest;
  /** The key that was made last, kept here because targets that were parsed before have one `Read`. */
  keyed?: Keyed | undefined;
}

interface Keyed {
  readonly of: Read;
  readonly chainId: number;
  readonly key: CacheKey;
}

/** Source of an answer, for `Cache-Status`. */
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
export interface ReadResult {
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
export function resultOf(
  read: { readonly version: LedgerVersion | undefined },
  { answer, isFinal, origin }: Loaded<Origin | typeof fromRedis>,
  isCollapsed: boolean,
): ReadResult {
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
