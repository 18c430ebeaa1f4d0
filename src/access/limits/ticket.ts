/** What becomes of a request at the limits, and what it came to in the end. */
import type { AccessOperation, Principal } from '../keys/principal.ts';

/** What was done for a request: its cost and its usage are made of it. */
export interface Settled {
  readonly operation: AccessOperation;
  /** `local`: answered here without a node. `error`: refused or failed. */
  readonly outcome: 'hit' | 'miss' | 'collapsed' | 'local' | 'error';
  readonly status: number;
  /** What a node took over it, 0 where none was asked for this request alone. */
  readonly upstreamMs: number;
  readonly gasUsed: bigint | undefined;
  /** Of the answer's body. */
  readonly bytes: number;
  /** Of the request's body. */
  readonly bodyBytes: number;
}

export type Ticket =
  | {
      readonly kind: 'admitted';
      /** `RateLimit` and `RateLimit-Policy`, flat; they go on the answer. */
      readonly headers: readonly string[];
      /** To be called once, when the answer is out or will never be. */
      settle(settled: Settled): void;
    }
  | {
      readonly kind: 'refused';
      /** `limit`: over it (429). `unavailable`: nobody can count now, and the config says to refuse then (503). */
      readonly because: 'limit' | 'unavailable';
      readonly retryAfterMs: number;
      readonly headers: readonly string[];
    }
  /** Who asked hung up before it was known: nobody is there to be told, or to settle. */
  | { readonly kind: 'left' };

/** Counts requests against the limits of their principals. */
export interface Limits {
  /** At once where nobody else counts, else when it is known. Never rejects. */
  admit(principal: Principal, operation: AccessOperation, signal: AbortSignal): Ticket | Promise<Ticket>;
  close(): void;
}
