/**
 * One event stream (Server-Sent Events): the writing end behind the head of an answer that has ended as an exchange.
 * https://html.spec.whatwg.org/multipage/server-sent-events.html
 */
import type { Access, AdmittedRequest } from '../../access/index.ts';
import type { EndReason, EventSink, StreamKind } from '../reads/index.ts';
import type { Incoming, IncomingExchange, Outgoing } from './message.ts';
import type { StreamCounts } from './stream-metrics.ts';

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

/** A stream over one response. */
export class EventStream implements EventSink {
  readonly kind: StreamKind;
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
  #isStalled = false;
  /** Bytes that usage does not have yet. */
  #uncharged = 0;
  /** Sweeps until the end of a stream that drains; `undefined`: it does not. */
  #drainsIn: number | undefined;
  #hasEnded = false;
  #onEnd: () => void = () => undefined;

  /** Behind a head that the caller has written. `onEnded`: called once. */
  constructor(
    kind: StreamKind,
    { request, response, admitted }: IncomingExchange<Incoming, Outgoing>,
    counts: StreamCounts,
    onEnded: (stream: EventStream, reason: EndReason) => void,
  ) {
    this.kind = kind;
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

  /** Whether bytes wait for the client that has taken none between the last two sweeps. */
  get isStalled(): boolean {
    return this.#isStalled;
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
    this.#isStalled = unread > 0 && this.#hasUnread && taken <= this.#taken;
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
