/** A read, its client, and its result: the answer, its source, and the facts that response headers report. */
import type { IncomingMessage } from 'node:http';
import type { AdmittedRequest } from '../../access/index.ts';
import type { CachedResponse, CacheKey, Loaded } from '../../cache/index.ts';
import type { CancelSignal, LedgerVersion } from '../../ledger/index.ts';
import type { Span } from '../../metrics/index.ts';
import type { FleetRequest, Need, ReportedState } from '../../upstream/index.ts';
import type { BoundedRead } from './demand.ts';
import type { ReadFacts } from './policy.ts';

/** A parsed, canonical read. `wire` is made from its canonical parts alone. */
export interface Read extends ReadFacts, Pick<BoundedRead, 'matched'> {
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
}

/** The key under which the cache stores an answer of this chain. `of`: a copy of a read has the key of the other. */
export interface Keyed {
  readonly of: Read;
  readonly chainId: number;
  readonly key: CacheKey;
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
  /** The tier that had the answer, or the node that gave it, for `Cache-Status`. */
  readonly source: 'memory' | Loaded['origin'];
  /** It came by the load of another caller. */
  readonly isCollapsed: boolean;
}
