/** The client of a read, as far as its answer depends on it. */
import type { IncomingMessage } from 'node:http';
import type { CancelSignal } from '../../ledger/index.ts';
import type { Span } from '../../metrics/index.ts';

/** Client of a piece of work. */
export interface Caller {
  /** Aborts when no client waits any more. */
  readonly signal: CancelSignal;
  /** Fair-queueing key: tenant, or the client's IPv4 address or /64. */
  readonly client: string;
  /** Parent span of the work. */
  readonly span?: Span | undefined;
  /** Called when a node begins to work on it, once or more. */
  readonly onPlace?: (() => void) | undefined;
}

/** Headers and connection of a client's request: both may demand a version or an age (docs/consistency.md). */
export type DemandSource = Pick<IncomingMessage, 'headers' | 'socket'>;

/** A caller whose request may demand a version or an age. */
export interface DemandingCaller extends Caller {
  readonly request: DemandSource;
}
