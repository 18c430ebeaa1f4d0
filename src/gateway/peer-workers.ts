/** The other workers of one gateway: events between them, and the services of their primary. */
import type { LimitServiceClient } from '../access/limits/limits-shared.ts';
import type { CacheKey } from '../cache/key.ts';
import type { ReadFlights } from '../cache/tiers.ts';
import type { Distrusted } from '../encode/distrusted.ts';
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { NodeReport } from '../upstream/fleet.ts';
import type { PublishedState } from '../upstream/latest.ts';

/** Ledger state that a worker answers clients with; only newer state is published. */
export type LedgerEvent =
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
export interface Submitted {
  readonly kind: 'submitted';
  readonly hash: string;
  readonly upstream: string;
}

/** The other workers, as one worker addresses them. */
export interface PeerWorkers {
  /** One worker reads a cold key for all, with a store and without Redis. */
  readonly flights: ReadFlights;
  /** Counts requests for all workers, without Redis. */
  readonly limitService: LimitServiceClient;
  /** The keys file that another worker has in force; `undefined` before the first. */
  readonly lastKeys: string | undefined;
  /** Functions that the peers leave to nodes. */
  readonly distrusted: Distrusted;
  /** Sends the event before it returns. */
  publish(event: PeerEvent): void;
  /** Resolves once the peers recorded the event, or after a timeout; never rejects. */
  publishSubmission(event: Submitted): Promise<void>;
  publishKeys(text: string): void;
}
