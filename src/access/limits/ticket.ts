/** The interface of limits: a ticket for each request, settled at its end. */
import type { CancelSignal } from '../../ledger/index.ts';
import type { AccessOperation, Principal } from '../keys/principal.ts';

/** The facts of an ended request that decide its cost and usage. */
export interface Settled {
  readonly operation: AccessOperation;
  /** `local`: answered here without a node. `error`: refused or failed. */
  readonly outcome: 'hit' | 'miss' | 'collapsed' | 'local' | 'error';
  readonly status: number;
  /** A node's time for it in ms, 0 where no node read for this request alone. */
  readonly upstreamMs: number;
  readonly gasUsed: bigint | undefined;
  /** Length of the answer's body. */
  readonly bytes: number;
  /** Length of the request's body. */
  readonly bodyBytes: number;
}

/** The decision on a request. */
export type Ticket =
  | {
      readonly kind: 'admitted';
      /** `RateLimit` and `RateLimit-Policy` for the answer, flat. */
      readonly headers: readonly string[];
      /** To be called once, at the end of the request. */
      settle(settled: Settled): void;
    }
  | {
      readonly kind: 'refused';
      /** `limit`: a bound is exceeded (429). `unavailable`: see `CountResult` (503). */
      readonly because: 'limit' | 'unavailable';
      readonly retryAfterMs: number;
      readonly headers: readonly string[];
    }
  /** The client hung up before the decision: neither an answer nor a settlement follows. */
  | { readonly kind: 'left' };

/** Counts requests against the limits of their principals. */
export interface Limits {
  /** Synchronous where this process counts alone. Never rejects. */
  admit(principal: Principal, operation: AccessOperation, signal: CancelSignal): Ticket | Promise<Ticket>;
  close(): void | Promise<void>;
}
