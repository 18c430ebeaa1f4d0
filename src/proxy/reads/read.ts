/** A read, its client, and its result: the answer, its source, and the facts that response headers report. */
import type { IncomingMessage } from 'node:http';
import type { AdmittedRequest } from '../../access/index.ts';
import { type CachedResponse, type CacheKey, createEntry, type Loaded } from '../../cache/index.ts';
import { isOfState, type ReadFacts } from './policy.ts';
import { type CancelSignal, headerOf, type LedgerVersion } from '../../ledger/index.ts';
import type { BoundedRead } from './staleness.ts';
import type { Span } from '../../metrics/index.ts';
import type { Fleet, FleetRequest, Need, NodeAnswer, ReportedState } from '../../upstream/index.ts';

/** A parsed, canonical read. `wire` is made from its canonical parts alone. */
export interface Read extends ReadFacts {
  readonly subject: string;
  readonly wire: FleetRequest['wire'];
  readonly need: Need;
  /** Canonical name of a view's function; absent: the body does not show it beyond doubt. */
  readonly functionId?: string | undefined;
  /** For a long poll: the same request without the wait. */
  readonly atOnce?: FleetRequest['wire'] | undefined;
  /** Its last cache key, stored here because a cached target's requests share one `Read`. */
  keyed?: Keyed | undefined;
  /** How often clients have read it of a shared state (see `HotReads`). */
  asked?: { readonly of: ReportedState; times: number };
  /** See `BoundedRead`. */
  matched?: BoundedRead['matched'];
}

/** The key under which the cache stores an answer of this chain. `of`: a copy of a read has the key of the other. */
export interface Keyed {
  readonly of: Read;
  readonly chainId: number;
  readonly key: CacheKey;
}

/** Whether the gateway chooses the version: a read of state that names none. */
export function isOfLatest(read: Read): boolean {
  return read.version === undefined && isOfState(read.operation);
}

/** Client of a piece of work, as far as the answer depends on it. */
export interface Caller {
  /** Aborts when no client waits any more. */
  readonly signal: CancelSignal;
  /** Fair-queueing key: tenant, or the client's IPv4 address or /64. */
  readonly client: string;
  /** No client waits for it yet (see `HotReads`): it counts as no request. */
  readonly isAhead?: true;
  /** Parent span of the work. */
  readonly span?: Span | undefined;
  /** Called when a node begins to work on it, once or more. */
  readonly onPlace?: (() => void) | undefined;
}

/** A client's request, as far as it demands a version or an age (docs/consistency.md). */
export interface DemandSource extends Pick<IncomingMessage, 'headers' | 'socket'> {
  /** `undefined`: the endpoint is open. */
  readonly admitted: AdmittedRequest | undefined;
}

/** A caller whose request may demand a version or an age. */
export interface DemandingCaller extends Caller, DemandSource {
  /** Name of the request's route. */
  readonly route: string;
}

/** Source of an answer, for `Cache-Status`. */
export type Source =
  | { readonly kind: 'memory' }
  | { readonly kind: 'store' | 'redis'; readonly isCollapsed: boolean }
  | {
      readonly kind: 'upstream';
      readonly name: string;
      readonly isCollapsed: boolean;
      /** Time from the request to the node until its answer, in milliseconds. */
      readonly tookMs: number;
      /** `Retry-After` of its error. */
      readonly retryAfter: string | undefined;
    };

/** An answer ready to be written. */
export interface ReadResult {
  readonly entry: CachedResponse;
  /** Version of the ledger state in the body. */
  readonly version: LedgerVersion | undefined;
  /** Final, unless the one node that has reached its version proves wrong: caches in front must ask again. */
  readonly isProvisional: boolean;
  /** The gateway chose the version, so that the same request soon has another answer. */
  readonly isLatest: boolean;
  /** Age of the latest state, in whole seconds; 0 for a pinned read, whose state never changes. */
  readonly ageSeconds: number;
  readonly source: Source;
}

/** `Retry-After` of a node's error: no entry has it, because no cache stores such an answer. */
export function retryAfterOf({ status, headers }: Pick<NodeAnswer, 'status' | 'headers'>): string | undefined {
  return status < 400 ? undefined : headerOf(headers, 'retry-after');
}

/** Facts of an entry beside its node's answer. `isShared`: requests after its flight get it, by its digest. */
interface EntryFacts {
  readonly committedAt?: LedgerVersion | undefined;
  readonly lifetimeMs: number;
  readonly isShared: boolean;
}

/** The entry of a node's answer. Only a shared one has a digest. */
export function entryOf(fleet: Fleet, answer: NodeAnswer, { committedAt, lifetimeMs, isShared }: EntryFacts) {
  const { status, headers, body } = answer;
  const { gasUsed, cursor } = fleet.dialect;
  const content = {
    status,
    contentType: headerOf(headers, 'content-type') ?? 'application/octet-stream',
    body,
    committedAt,
    gasUsed: headerOf(headers, gasUsed),
    cursor: headerOf(headers, cursor),
    ownHeaders: fleet.ownHeadersOf(answer),
    lifetimeMs,
  };
  return createEntry(content, isShared);
}

/** The result of one read that waited for a load. */
export function resultOf(
  read: { readonly version: LedgerVersion | undefined },
  { answer, origin, awaited }: Loaded,
  isCollapsed: boolean,
): ReadResult {
  const isKept = typeof origin === 'string';
  // A success has the read's version, even if it is not stored: it may be incomplete or compressed.
  const isStored = answer.lifetimeMs > 0;
  const isOfRead = isStored || answer.status < 300;
  const asked = isOfRead ? read.version : undefined;
  return {
    entry: answer,
    version: asked ?? (isStored || isKept ? undefined : origin.version),
    isProvisional: awaited !== undefined,
    isLatest: false,
    ageSeconds: 0,
    source: isKept
      ? { kind: origin, isCollapsed }
      : {
          kind: 'upstream',
          name: origin.upstream,
          isCollapsed,
          tookMs: origin.tookMs,
          retryAfter: origin.retryAfter,
        },
  };
}
