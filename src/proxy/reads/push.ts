/** Shared by all streams: words for the transport, frames of Server-Sent Events (HTML, section 9.2.6), charges, `fanOut`. */
import { GatewayError, type LedgerVersion } from '../../ledger/index.ts';
import type { Outcome } from '../../metrics/index.ts';
import type { DemandingCaller, ReadResult } from './read.ts';

/** The kinds of event streams, as metrics label them. */
export type StreamKind = 'transactions' | 'ledger_info' | 'changes';

/** Why a stream ended, as metrics label it. */
export type EndReason = 'client' | 'slow' | 'drain' | 'revoked' | 'reload' | 'pruned' | 'failed';

/** The writing end of one stream (proxy/http: event-streams.ts). */
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

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const frameEnd = Buffer.from('\n\n');

/** The parts of one event's frame. `id`: a client resumes from it; absent: its last one stays. `data`: JSON. */
export function frameParts(event: string, id: LedgerVersion | undefined, data: Buffer, isOneLine = isLine(data)) {
  const head = id === undefined ? `event: ${event}\ndata: ` : `id: ${id}\nevent: ${event}\ndata: `;
  return [Buffer.from(head), isOneLine ? data : inLines(data), frameEnd] as const;
}

/** One event; see `frameParts`. */
export function eventFrame(event: string, id: LedgerVersion | undefined, data: Buffer): Buffer {
  return Buffer.concat(frameParts(event, id, data));
}

/** Whether the bytes are data of an event as they are. */
export function isLine(bytes: Buffer): boolean {
  return !bytes.includes(lineFeed) && !bytes.includes(carriageReturn);
}

/**
 * The bytes as lines of one event, joined by line feeds at the reader. No string of JSON holds a raw line break, so that a blank
 * is as good as a carriage return, which no event can carry.
 */
function inLines(bytes: Buffer): Buffer {
  const text = bytes.toString('latin1').replaceAll('\r', ' ').replaceAll('\n', '\ndata: ');
  return Buffer.from(text, 'latin1');
}

/** `isReplaced`: the ledger went back, or was replaced, and nothing above the version holds: a rollback comes first. */
export function sendState(sink: EventSink, version: LedgerVersion, frame: Buffer, isReplaced: boolean): void {
  if (!isReplaced) sink.send(frame, 1);
  else sink.send(Buffer.concat([eventFrame('rollback', version, rollbackData(version)), frame]), 2);
}

/** The data of a rollback. */
export function rollbackData(version: LedgerVersion): Buffer {
  return Buffer.from(`{"version":"${version}"}`);
}

type Admitted = StreamClient['admitted'];

/** Charges the read of a node for a stream, or a share in another client's. */
export function chargeRead(admitted: Admitted, { source, isCollapsed, entry: { status, gasUsed } }: ReadResult): void {
  if (typeof source === 'string') settle(admitted, source, status);
  else if (isCollapsed) settle(admitted, 'collapsed', status);
  else settle(admitted, 'miss', status, source.tookMs, gasUsed);
}

/** Charges a read without an answer. No effect where the read is charged already. */
export function chargeFailure(admitted: Admitted, error: unknown): void {
  settle(admitted, 'failed', error instanceof GatewayError ? error.status : 500);
}

function settle(admitted: Admitted, outcome: Outcome, statusCode: number, upstreamMs = 0, gasUsed?: string): void {
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
