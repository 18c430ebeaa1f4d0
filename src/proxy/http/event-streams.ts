/**
 * The open event streams of one process (Server-Sent Events): their bounds, comments, rights and drain. A stream is the
 * writing end behind the head of an answer that has ended as an exchange.
 * https://html.spec.whatwg.org/multipage/server-sent-events.html
 */
import type { Registry } from 'prom-client';
import type { Access, AdmittedRequest } from '../../access/index.ts';
import { GatewayError } from '../../ledger/index.ts';
import type { EndReason, EventSink, StreamKind } from '../reads/index.ts';
import { createStreamMetrics } from './http-metrics.ts';
import type { Incoming, Outgoing, ReceivedHead } from './message.ts';

/** Each stream is swept once a second, a tenth of them at a time: all at once would stall the event loop. */
const parts = 10;
const everyMs = 1_000 / parts;
/** Unread bytes of all streams, all processes together, above which stalled ones end: a page may be one of its own. */
const mostUnreadOfAll = 128 * 1024 * 1024;
/** Unread bytes of one client at most: beyond, it has lost its place, and resumes by the id of its last event. */
export const mostUnread = 1024 * 1024;
/** Sweeps without bytes after which a comment goes out, and one more for half of the streams: 13 to 15 s. */
const quietSweeps = 13;
const comment = Buffer.from(':\n\n');
/** Seconds until a client reconnects: after a fault, and after a drain, whose streams end together. */
const [retryFault, retryDrain] = [
  { least: 1, most: 3 },
  { least: 1, most: 10 },
];
/** Sweeps over which a drain ends streams without events. */
const drainSweeps = 5;

/** Opens streams within their bounds, and ends them. */
export class EventStreams {
  readonly #settings: { readonly max: number };
  readonly #access: Access | undefined;
  readonly #metrics: ReturnType<typeof createStreamMetrics>;
  readonly #parts: readonly Set<EventStream>[] = Array.from({ length: parts }, () => new Set());
  readonly #mostUnread: number;
  /** Unread bytes of each part at its last sweep. */
  readonly #unread = new Float64Array(parts);
  readonly #open = { transactions: 0, ledger_info: 0, changes: 0 };
  /** Streams with a place, those whose head is not written yet among them. */
  #taken = 0;
  #next = 0;
  #swept = 0;
  #isDraining = false;
  /** Runs while a stream is open. */
  #timer: NodeJS.Timeout | undefined;

  /** `settings`: the live bound of this process, one of `processes`. */
  constructor(settings: { readonly max: number }, access: Access | undefined, registry: Registry, processes: number) {
    this.#mostUnread = mostUnreadOfAll / processes;
    this.#settings = settings;
    this.#access = access;
    this.#metrics = createStreamMetrics(registry, (kind) => this.#open[kind]);
  }

  /** Takes a place for a client's stream; the function frees it. Throws, or rejects with, 429 or 503. */
  take(admitted: AdmittedRequest | undefined): (() => void) | Promise<() => void> {
    if (this.#taken >= this.#settings.max) {
      this.#metrics.refused('max');
      throw new GatewayError('unavailable', 'too many event streams are open; try again', { reason: 'streams' });
    }
    this.#taken += 1;
    const decided = admitted?.openStream();
    return decided instanceof Promise ? decided.then((end) => this.#placeOf(end)) : this.#placeOf(decided);
  }

  #placeOf(decided: (() => void) | GatewayError | undefined): () => void {
    if (decided instanceof GatewayError) {
      this.#taken -= 1;
      this.#metrics.refused('plan');
      throw decided;
    }
    return () => {
      this.#taken -= 1;
      decided?.();
    };
  }

  /** Begins the stream behind a head that is written; it frees its place at its end. */
  begin(kind: StreamKind, received: ReceivedHead, free: () => void): EventStream {
    const part = this.#parts[(this.#next = (this.#next + 1) % parts)] as Set<EventStream>;
    const onEnded = (ended: EventStream, reason: EndReason): void => {
      // A client that is gone by now ends its stream within the constructor.
      part.delete(ended);
      this.#open[kind] -= 1;
      this.#metrics.closed(kind, reason);
      free();
    };
    this.#open[kind] += 1;
    const stream = new EventStream(received, this.#metrics.counts[kind], onEnded);
    if (!stream.isOpen) stream.end('client');
    else {
      part.add(stream);
      this.#timer ??= setInterval(() => this.#sweep(), everyMs).unref();
      // Not refused: a browser reconnects to a stream that ends, but never after a 503.
      if (this.#isDraining) stream.drain();
    }
    return stream;
  }

  get open(): number {
    const { transactions, ledger_info: ledgerInfo, changes } = this.#open;
    return transactions + ledgerInfo + changes;
  }

  /** Ends each stream at its next event, idle ones within 5 s. */
  drain(): void {
    this.#isDraining = true;
    for (const part of this.#parts) for (const stream of part) stream.drain();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #sweep(): void {
    this.#swept = (this.#swept + 1) % parts;
    const part = this.#parts[this.#swept] as Set<EventStream>;
    this.#unread[this.#swept] = 0;
    let unread = this.#unread.reduce((sum, bytes) => sum + bytes, 0);
    const others = unread;
    for (const stream of part) {
      stream.sweep(this.#access);
      if (!stream.isOpen) continue;
      if (stream.isStalled && unread + stream.unread > this.#mostUnread) stream.end('slow');
      else unread += stream.unread;
    }
    this.#unread[this.#swept] = unread - others;
    if (this.#parts.every(({ size }) => size === 0)) this.close();
  }
}

type StreamCounts = ReturnType<typeof createStreamMetrics>['counts'][StreamKind];

/** A stream over one response. */
export class EventStream implements EventSink {
  readonly #request: Incoming;
  readonly #admitted: AdmittedRequest | undefined;
  readonly #response: Outgoing;
  readonly #counts: StreamCounts;
  readonly #onEnded: (stream: EventStream, reason: EndReason) => void;
  readonly #known: NonNullable<Parameters<Access['stillAdmits']>[2]> = { generation: 0, entry: undefined };
  readonly #mostQuiet = quietSweeps + Math.floor(Math.random() * 2);
  #quiet = 0;
  #written = 0;
  /** At the last sweep: bytes that the client had taken, and whether others waited for it. */
  #taken = 0;
  #hasUnread = false;
  /** Bytes wait for the client that has taken none between the last two sweeps. */
  isStalled = false;
  /** Bytes that usage does not have yet. */
  #uncharged = 0;
  /** Sweeps until the end of a stream that drains; `undefined`: it does not. */
  #drainsIn: number | undefined;
  #hasEnded = false;
  #onEnd: () => void = () => undefined;

  /** Behind a head that the caller has written. `onEnded`: called once. */
  constructor(
    { request, response, admitted }: ReceivedHead,
    counts: StreamCounts,
    onEnded: (stream: EventStream, reason: EndReason) => void,
  ) {
    this.#request = request;
    this.#admitted = admitted;
    this.#response = response;
    this.#counts = counts;
    this.#onEnded = onEnded;
    response.once('close', () => this.end('client'));
    this.#write(Buffer.from(retryLine(retryFault)));
  }

  /** False as well for a client that has half-closed: nothing more would be written, and nothing be destroyed. */
  get isOpen(): boolean {
    return !this.#hasEnded && !this.#response.destroyed && !this.#request.socket.writableEnded;
  }

  get unread(): number {
    return this.#response.writableLength;
  }

  /** Set after the end, it is called all the same, behind the caller's turn. */
  set onEnd(onEnd: () => void) {
    this.#onEnd = onEnd;
    if (this.#hasEnded) queueMicrotask(onEnd);
  }

  get onEnd(): () => void {
    return this.#onEnd;
  }

  send(frames: Buffer, events: number): boolean {
    if (!this.#write(frames)) return false;
    this.#counts.events.inc(events);
    if (this.#drainsIn === undefined || events === 0) return true;
    this.end('drain');
    return false;
  }

  end(reason: EndReason): void {
    if (this.#hasEnded) return;
    const { isOpen } = this;
    this.#hasEnded = true;
    // Written bytes go out, except to a client that does not read, or is gone.
    if (!isOpen || reason === 'slow' || reason === 'client') this.#destroy();
    else this.#response.end(reason === 'drain' ? retryLine(retryDrain) : undefined);
    this.#charge();
    this.#onEnded(this, reason);
    this.#onEnd();
  }

  /** Ends at its next event; without one, within 5 s. */
  drain(): void {
    this.#drainsIn ??= Math.floor(Math.random() * drainSweeps);
  }

  /** Called each second: rights, comments, usage, and the end of a drain. */
  sweep(access: Access | undefined): void {
    if (!this.isOpen) return this.end('client');
    if (this.#admitted !== undefined && access?.stillAdmits(this.#request, this.#admitted, this.#known) === false) {
      return this.end('revoked');
    }
    this.#charge();
    const { unread } = this;
    // The response frames what it writes: without progress, the difference falls.
    const taken = this.#written - unread;
    this.isStalled = unread > 0 && this.#hasUnread && taken <= this.#taken;
    this.#hasUnread = unread > 0;
    this.#taken = taken;
    if (this.#drainsIn !== undefined && (this.#drainsIn -= 1) < 0) return this.end('drain');
    this.#quiet += 1;
    if (this.#quiet > this.#mostQuiet) this.#write(comment);
    return undefined;
  }

  #write(bytes: Buffer): boolean {
    if (this.#hasEnded) return false;
    if (!this.isOpen) {
      this.end('client');
      return false;
    }
    this.#quiet = 0;
    this.#uncharged += bytes.length;
    this.#written += bytes.length;
    this.#counts.bytes.inc(bytes.length);
    const isAllRead = this.#response.writableLength === 0;
    this.#response.write(bytes);
    // An event may be above the bound by itself: its reader would never get beyond it.
    if (isAllRead || this.#response.writableLength <= mostUnread) return true;
    this.end('slow');
    return false;
  }

  /** A response behind another one of its pipeline has no socket, and would keep its bytes until its turn. */
  #destroy(): void {
    this.#response.destroy();
    if (this.#request.httpVersionMajor < 2) this.#request.socket.destroy();
  }

  #charge(): void {
    if (this.#uncharged === 0) return;
    this.#admitted?.addBytes(this.#uncharged);
    this.#uncharged = 0;
  }
}

/** A client that loses its stream reconnects after a time of its own: thousands must not come at once. */
function retryLine({ least, most }: typeof retryFault): string {
  const ms = (least + Math.random() * (most - least)) * 1_000;
  return `retry: ${Math.round(ms)}\n\n`;
}
