/** Words that the follower, the streams and the transport share, their charges, and `fanOut`. */
import { GatewayError, type LedgerInfo, type LedgerVersion } from '../../ledger/index.ts';
import type { Outcome } from '../../metrics/index.ts';
import type { DemandingCaller, ReadResult } from './read.ts';

/** The kinds of event streams, as metrics label them. */
export type StreamKind = 'transactions' | 'ledger_info' | 'changes';

/** Why a stream ended, as metrics label it. */
export type EndReason = 'client' | 'slow' | 'drain' | 'revoked' | 'reload' | 'pruned' | 'failed';

/** The writing end of one stream (proxy/http: event-stream.ts). */
export interface EventSink {
  readonly isOpen: boolean;
  /** Bytes that the client has not taken. */
  readonly unread: number;
  /** `frames`: shared with other streams, never changed. False: the stream has ended. */
  send(frames: Buffer, events: number): boolean;
  end(reason: EndReason): void;
  /** Called once, at the end: the source must forget the sink. */
  onEnd: () => void;
}

/** A stream's client: a copy of the fields of its exchange, which is garbage after the head. `signal`: aborts at the end. */
export interface StreamClient extends DemandingCaller {
  readonly sink: EventSink;
}

/** A page of transactions as the follower cut it: a structured clone between workers. */
export interface Page {
  readonly first: LedgerVersion;
  /** The node's whole answer, in memory of its own. */
  readonly body: Buffer;
  /** From and to of each item in `body`, in turn. */
  readonly ranges: Uint32Array;
  readonly hashes: readonly string[];
  readonly contentType: string;
  /** See `Fleet.ownHeadersOf`. */
  readonly ownHeaders: string | undefined;
  /** Snapshot and name of the node that answered. */
  readonly info: LedgerInfo;
  readonly upstream: string;
}

/** A filter of transactions. Streams with equal keys share frames. */
export interface Filter {
  readonly key: string;
  matches(facts: TransactionFacts): boolean;
}

/** The facts of a transaction that filters read. */
export interface TransactionFacts {
  readonly sender: string | undefined;
  /** Full name of the entry function. */
  readonly function: string | undefined;
  /** Types of the events, each once, in canonical form. */
  readonly events: readonly string[];
}

type Admitted = StreamClient['admitted'];

/** Charges the read of a node for a stream, or a share in another client's. */
export function chargeRead(admitted: Admitted, { source, entry: { status, gasUsed } }: ReadResult): void {
  if (source.kind !== 'upstream') settle(admitted, source.kind, status);
  else if (source.isCollapsed) settle(admitted, 'collapsed', status);
  else settle(admitted, 'miss', status, source.tookMs, gasUsed);
}

/** Charges a read without an answer. No effect where the read is charged already. */
export function chargeFailure(admitted: Admitted, error: unknown): void {
  settle(admitted, 'failed', error instanceof GatewayError ? error.status : 500);
}

function settle(admitted: Admitted, outcome: Outcome, statusCode: number, upstreamMs = 0, gas?: string): void {
  const gasUsed = gas !== undefined && /^\d{1,20}$/.test(gas) ? BigInt(gas) : undefined;
  // The stream's bytes are charged as they leave.
  admitted?.follow({ outcome, upstreamMs, gasUsed, bytes: 0, bodyBytes: 0 });
  admitted?.settle({ headersSent: true, statusCode });
}

/** Writes in one turn of the event loop, of all walks together: one costs some 20 microseconds, and others' hits wait. */
const writesATurn = 100;
let written = 0;
let turn: Promise<void> | undefined;

/** Sends to each sink, in turns of the event loop. A sink may end meanwhile: `send` looks at it again. */
export async function fanOut<Sink>(sinks: Iterable<Sink>, send: (sink: Sink) => void): Promise<void> {
  for (const sink of sinks) {
    turn ??= nextTurn();
    while (written >= writesATurn) await (turn ??= nextTurn());
    send(sink);
    written += 1;
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(() => {
      written = 0;
      turn = undefined;
      resolve();
    });
  });
}
