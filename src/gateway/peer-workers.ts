/** The other workers of one gateway: events between them, how they apply here, and the services of their primary. */
import type { AccessPeers } from '../access/index.ts';
import type { Cache, CacheKey, ReadFlights } from '../cache/index.ts';
import type { DistrustedFunctions } from '../encode/index.ts';
import type { Fleet, FleetNews } from '../upstream/index.ts';
import type { Routes } from '../proxy/routes/index.ts';

/** An event that one worker publishes to all others. */
export type PeerEvent =
  | FleetNews
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
export interface PeerWorkers extends AccessPeers {
  /** One worker reads a cold key for all, with a store and without Redis. */
  readonly flights: ReadFlights;
  /** Functions that the peers leave to nodes. */
  readonly distrusted: DistrustedFunctions['all'];
  /** Sends the event before it returns. */
  publish(event: PeerEvent): void;
  /** Resolves once the peers recorded the event, or after a timeout; never rejects. */
  publishSubmission(event: Submitted): Promise<void>;
}

/** The parts of a worker that events change. */
interface PeerEventParts {
  readonly cache: Pick<Cache, 'purgeHere'>;
  readonly fleet: Pick<Fleet, 'onNews'>;
  readonly routes: Routes;
}

/** Applies an event of a peer, checked like an answer of a node: one that contradicts the fleet here changes nothing. */
export function applyPeerEvent(parts: PeerEventParts, event: PeerEvent): void {
  const { cache, fleet, routes } = parts;
  switch (event.kind) {
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
    case 'head':
    case 'served':
    case 'snapshot':
    case 'refused':
    case 'ledger replaced':
      fleet.onNews(event);
      break;
    default:
      event satisfies never;
  }
}
