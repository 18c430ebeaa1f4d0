/** The other workers of one gateway: events between them, how they apply here, and the services of their primary. */
import type { AccessDependencies } from '../access/index.ts';
import type { Cache, CacheKey, ReadFlights } from '../cache/index.ts';
import type { Distrusted } from '../encode/index.ts';
import type { LedgerInfo, LedgerVersion } from '../ledger/index.ts';
import type { Fleet, Latest, NodeReport, PublishedState } from '../upstream/index.ts';
import type { Routes } from '../proxy/routes/index.ts';

/** Ledger state that a worker answers clients with; only newer state is published. */
type LedgerEvent =
  /** Answers carry this head in their headers; the node named `upstream` reported it. */
  | { readonly kind: 'head'; readonly upstream: string; readonly info: LedgerInfo }
  /** A read without a version is answered with this version. */
  | { readonly kind: 'served'; readonly version: LedgerVersion }
  /** Reads without a version share this state. */
  | { readonly kind: 'snapshot'; readonly snapshot: PublishedState };

/** An event that one worker publishes to all others. */
export type PeerEvent =
  | LedgerEvent
  /** The node with this fingerprint refused `version` as pruned. */
  | { readonly kind: 'refused'; readonly fingerprint: string; readonly version: LedgerVersion }
  /** The ledger was rolled back or replaced: every worker drops its state of the ledger. */
  | { readonly kind: 'ledger replaced'; readonly reports: readonly NodeReport[] }
  | Submitted
  /** A node encoded this function differently. */
  | { readonly kind: 'distrusted'; readonly functionId: string }
  /** A node has another history: every answer is dropped. */
  | { readonly kind: 'fork found' }
  /** Nodes disagree on this read. */
  | { readonly kind: 'dropped'; readonly key: CacheKey };

/** The node named `upstream` took the transaction. */
interface Submitted {
  readonly kind: 'submitted';
  readonly hash: string;
  readonly upstream: string;
}

/** The other workers, as one worker addresses them. */
export interface PeerWorkers extends NonNullable<AccessDependencies['peers']> {
  /** One worker reads a cold key for all, with a store and without Redis. */
  readonly flights: ReadFlights;
  /** Functions that the peers leave to nodes. */
  readonly distrusted: Distrusted;
  /** Sends the event before it returns. */
  publish(event: PeerEvent): void;
  /** Resolves once the peers recorded the event, or after a timeout; never rejects. */
  publishSubmission(event: Submitted): Promise<void>;
}

/** The parts of a worker that events change. */
interface PeerEventParts {
  readonly cache: Pick<Cache, 'purgeHere'>;
  readonly fleet: Fleet;
  readonly latest: Latest;
  readonly routes: Routes;
}

/** Applies an event of a peer, checked like an answer of a node: one that contradicts the fleet here changes nothing. */
export function applyPeerEvent(parts: PeerEventParts, event: PeerEvent): void {
  const { cache, fleet, latest, routes } = parts;
  switch (event.kind) {
    case 'head':
      observe(fleet, event.upstream, event.info);
      break;
    case 'served':
      latest.onPeerVersion(event.version);
      break;
    case 'snapshot':
      if (observe(fleet, event.snapshot.upstream, event.snapshot.info)) latest.onPeerState(event.snapshot);
      break;
    case 'refused':
      fleet.onPeerRefusal(event.fingerprint, event.version, performance.now());
      break;
    case 'ledger replaced':
      fleet.follow(event.reports, performance.now());
      break;
    case 'submitted':
      routes.recordSubmission(event.hash, event.upstream);
      break;
    case 'distrusted':
      routes.distrust(event.functionId);
      break;
    case 'fork found':
      void cache.purgeHere({ kind: 'everything' });
      break;
    case 'dropped':
      void cache.purgeHere({ kind: 'read', key: event.key });
      break;
    default:
      event satisfies never;
  }
}

/**
 * A node reported `info` to a peer. Returns whether the report counts here: the node is one of the fleet, on its chain,
 * and other nodes do not contradict it. None counts until a node has shown here in which dialect answers carry it.
 */
function observe(fleet: Fleet, name: string, info: LedgerInfo): boolean {
  const upstream = fleet.upstreams.find((known) => known.name === name);
  if (upstream === undefined || fleet.isDialectOpen) return false;
  if (info.version > (upstream.window.info?.version ?? -1n)) {
    const nowMs = performance.now();
    // The node has just answered a peer: an outage here is over.
    upstream.recordAnswer(upstream.latencyMs(nowMs), nowMs);
    if (fleet.observe(upstream, info, nowMs)) fleet.headersOfLedger.onReport(upstream, info);
    fleet.refresh();
  }
  return fleet.isOurs(upstream, info) && !upstream.isSuspect;
}
