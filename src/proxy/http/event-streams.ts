/** The open event streams of one process: their bounds, comments, rights and drain. */
import type { Registry } from 'prom-client';
import type { Access, AdmittedRequest } from '../../access/index.ts';
import { GatewayError } from '../../ledger/index.ts';
import type { EndReason, StreamKind } from '../reads/index.ts';
import { EventStream } from './event-stream.ts';
import type { Incoming, IncomingExchange, Outgoing } from './message.ts';
import { createStreamMetrics } from './stream-metrics.ts';

/** Each stream is swept once a second, a tenth of them at a time: all at once would stall the event loop. */
const parts = 10;
const everyMs = 1_000 / parts;
/** Unread bytes of all streams, all processes together, above which stalled ones end: a page may be one of its own. */
const mostUnreadOfAll = 128 * 1024 * 1024;

/** The place of one stream within the bounds. */
interface Permit {
  /** Frees the place in the client's plan; absent without such a bound. */
  readonly release: (() => void) | undefined;
}

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
    this.#metrics = createStreamMetrics(registry, (kind) => this.count(kind));
  }

  /** Takes a place for a client's stream: `begin` or `release` frees it. Throws, or rejects with, 429 or 503. */
  take(admitted: AdmittedRequest | undefined): Permit | Promise<Permit> {
    if (this.#taken >= this.#settings.max) {
      this.#metrics.refused('max');
      throw new GatewayError('unavailable', 'too many event streams are open; try again', { reason: 'streams' });
    }
    this.#taken += 1;
    const decided = admitted?.openStream();
    return decided instanceof Promise ? decided.then((end) => this.#permitOf(end)) : this.#permitOf(decided);
  }

  #permitOf(decided: (() => void) | GatewayError | undefined): Permit {
    if (!(decided instanceof GatewayError)) return { release: decided };
    this.#taken -= 1;
    this.#metrics.refused('plan');
    throw decided;
  }

  /** Frees a place that no stream has taken. */
  release({ release }: Permit): void {
    this.#taken -= 1;
    release?.();
  }

  /** Begins the stream behind a head that is written. */
  begin(kind: StreamKind, received: IncomingExchange<Incoming, Outgoing>, permit: Permit): EventStream {
    const part = this.#parts[(this.#next = (this.#next + 1) % parts)] as Set<EventStream>;
    const onEnded = (ended: EventStream, reason: EndReason): void => {
      // A client that is gone by now ends its stream within the constructor.
      part.delete(ended);
      this.#open[kind] -= 1;
      this.#metrics.closed(kind, reason);
      this.release(permit);
    };
    this.#open[kind] += 1;
    const stream = new EventStream(kind, received, this.#metrics.counts[kind], onEnded);
    if (!stream.isOpen) stream.end('client');
    else {
      part.add(stream);
      this.#timer ??= setInterval(() => this.#sweep(), everyMs).unref();
      // Not refused: a browser reconnects to a stream that ends, but never after a 503.
      if (this.#isDraining) stream.drain();
    }
    return stream;
  }

  /** Open streams of all kinds. */
  get open(): number {
    const { transactions, ledger_info: ledgerInfo, changes } = this.#open;
    return transactions + ledgerInfo + changes;
  }

  /** Open streams of a kind. */
  count(kind: StreamKind): number {
    return this.#open[kind];
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
