/**
 * Streams of transactions. Each is a cursor into the ledger, and moves on with what it sends: neither a page that the
 * tail lost nor one that came twice makes a gap or a double. Streams in step share frames of the tail; one that is behind
 * reads pages until the tail has its cursor. None is ahead of the state that reads share, so that a client's other reads
 * are never older than its last event.
 */
import { GatewayError, type LedgerVersion } from '../../../ledger/index.ts';
import { LargeAnswerError, type PublishedState } from '../../../upstream/index.ts';
import type { Follower, FollowSettings } from '../follower/follower.ts';
import { type Filter, type Frames, Items } from '../follower/page.ts';
import type { Tail, TailListener } from '../follower/tail.ts';
import type { Freshness } from '../freshness.ts';
import { type EndReason, eventFrame, fanOut, rollbackData, type StreamClient } from '../push.ts';
import type { DemandingCaller, ReadResult } from '../read.ts';
import type { PastPages } from './past-pages.ts';
import type { Pulse, PulseListener } from './pulse.ts';

/** Versions that a stream gets at one beat from the tail; one that lacks more catches up in steps. */
const mostInStep = 500n;
/** Most versions, and bytes of frames, of one step of a stream that catches up. */
const stepVersions = 100n;
const stepBytes = 256 * 1024;
/** A stream that catches up waits above this: what it missed must not make a good reader a slow one. */
const mostUnread = 512 * 1024;
/** A reader that takes nothing for so long while its stream catches up is a slow one. */
const heldMs = 30_000;
/** The tail has this long to reach the shared state before streams read pages themselves. */
const tailMs = 2_000;
/** Versions without an event after which a stream's last id moves on nevertheless. */
const versionsAnId = 1_000n;
/** After a failed page read: doubles up to the second. */
const retryMs = { first: 100, most: 2_000 };

/** The start of a stream. */
export interface StreamStart {
  readonly cursor: LedgerVersion;
  /** The client has nothing ahead of it to be withdrawn by a rollback. */
  readonly origin: LedgerVersion;
  /** The page at the cursor, if it had to be read, and `Pulse.generation` then. */
  readonly page: Items | undefined;
  readonly generation: number;
}

/** One open stream. A class: V8 keeps its shape. */
class TransactionStream {
  readonly client: StreamClient;
  readonly filter: Filter | undefined;
  readonly origin: LedgerVersion;
  /** The next version. */
  cursor: LedgerVersion;
  /** The version behind the last id that was sent. */
  marked: LedgerVersion;
  page: Items | undefined;
  /** The version of a rollback that its client has not been sent. */
  rolledBackTo: LedgerVersion | undefined;
  /** A step is in flight. */
  isBusy = false;
  /** It has not been in step with the tail since. */
  isBehind = true;
  /** Unread bytes above which it waits while it is behind. */
  mostUnread = mostUnread;
  heldSinceMs: number | undefined;
  failures = 0;
  retryAtMs = 0;

  constructor(client: StreamClient, { cursor, origin, page }: StreamStart, filter: Filter | undefined) {
    this.client = client;
    this.cursor = cursor;
    this.marked = cursor;
    this.origin = origin;
    this.page = page;
    this.filter = filter;
  }
}

/** One beat. `frames`: shared by streams at one cursor with one filter. */
interface Flush {
  readonly epoch: number;
  readonly upTo: LedgerVersion | undefined;
  readonly nowMs: number;
  readonly frames: Map<string, Frames | undefined>;
}

/** The streams of transactions of one process. */
export class TransactionStreams implements TailListener, PulseListener {
  readonly #pages: PastPages;
  readonly #freshness: Pick<Freshness, 'findLedgerInfo' | 'ledgerInfo' | 'recordSeen'>;
  readonly #tail: Tail;
  readonly #pulse: Pick<Pulse, 'join' | 'leave' | 'generation'>;
  readonly #settings: Pick<FollowSettings, 'mode'>;
  readonly #streams = new Set<TransactionStream>();
  /** The version behind the shared state. */
  #reached = 0n as LedgerVersion;
  /** Counts rollbacks. */
  #epoch = 0;
  /** The generation of the ledger whose history streams have. */
  #generation: number;
  #isFlushing = false;
  #tailNext: LedgerVersion | undefined;
  #tailMovedMs = 0;

  /** `settings`: live. */
  constructor(
    pages: PastPages,
    freshness: Pick<Freshness, 'findLedgerInfo' | 'ledgerInfo' | 'recordSeen'>,
    tail: Tail,
    follower: Pick<Follower, 'needs'>,
    pulse: Pick<Pulse, 'join' | 'leave' | 'generation'>,
    settings: Pick<FollowSettings, 'mode'>,
  ) {
    this.#pages = pages;
    this.#freshness = freshness;
    this.#tail = tail;
    this.#pulse = pulse;
    this.#settings = settings;
    this.#generation = pulse.generation;
    tail.listeners.add(this);
    follower.needs.add(() => this.#streams.size > 0);
  }

  /** `refused`: the answer to the read of the first page, where that is no success. Rejects with `GatewayError`. */
  async prepare(
    { cursor: asked, isResumed }: { readonly cursor: LedgerVersion | undefined; readonly isResumed: boolean },
    exchange: DemandingCaller,
  ): Promise<StreamStart | { readonly refused: ReadResult }> {
    if (this.#settings.mode === 'off') {
      throw new GatewayError('disabled', 'streams of transactions are disabled here: follow.mode is off');
    }
    if (this.#tail.isDistrusted) {
      throw new GatewayError('unavailable', 'streams of transactions have ended: a node contradicts itself', {
        reason: 'streams',
      });
    }
    const freshness = this.#freshness;
    const { version } = freshness.findLedgerInfo(exchange) ?? (await freshness.ledgerInfo(exchange, exchange.signal));
    const { generation } = this.#pulse;
    const reached = (version + 1n) as LedgerVersion;
    const cursor = asked ?? reached;
    const origin = isResumed ? (0n as LedgerVersion) : cursor;
    const isHeld = cursor >= reached || this.#tail.frames(cursor, (cursor + 1n) as LedgerVersion) !== undefined;
    const page = isHeld ? undefined : await this.#pages.at(cursor, reached, exchange);
    if (page === undefined || page instanceof Items) return { cursor, origin, page, generation };
    return { refused: page };
  }

  /** Begins at `start`. The client's sink is open, or was. */
  open(client: StreamClient, start: StreamStart, filter: Filter | undefined): void {
    if (!client.sink.isOpen) return;
    const stream = new TransactionStream(client, start, filter);
    const { generation } = this.#pulse;
    if (start.generation !== generation) stream.page = undefined;
    this.#streams.add(stream);
    client.signal.addEventListener('abort', () => this.#forget(stream));
    if (!this.#pulse.join(this)) return;
    this.#tailMovedMs = performance.now();
    this.#generation = generation;
  }

  onRollback(version: LedgerVersion): void {
    this.#epoch += 1;
    this.#generation = this.#pulse.generation;
    this.#pages.clear();
    for (const stream of this.#streams) {
      const { cursor, origin, rolledBackTo } = stream;
      const to = version > origin ? version : origin;
      stream.page = undefined;
      if (cursor <= to) continue;
      stream.cursor = to;
      stream.marked = to;
      if (rolledBackTo === undefined || rolledBackTo > to) stream.rolledBackTo = to;
    }
  }

  onDistrusted(): void {
    this.#endAll('failed');
  }

  #forget(stream: TransactionStream): void {
    this.#streams.delete(stream);
    if (this.#streams.size > 0) return;
    this.#pulse.leave(this);
    this.#pages.clear();
  }

  #endAll(reason: EndReason): void {
    for (const { client } of this.#streams) client.sink.end(reason);
  }

  /** Begins a walk of the streams, unless one goes on. */
  onBeat({ info }: PublishedState): void {
    if (this.#settings.mode === 'off') {
      this.#endAll('reload');
      return;
    }
    const { next, isChecking } = this.#tail;
    const wasInStep = next !== undefined && next >= this.#reached;
    this.#reached = (info.version + 1n) as LedgerVersion;
    // A tail that was empty has nothing to compare: what is above the new state, at least, is withdrawn.
    if (this.#generation !== this.#pulse.generation && !isChecking) this.onRollback(this.#reached);
    const nowMs = performance.now();
    // Without new transactions the tail has nothing to move for.
    if (wasInStep || next !== this.#tailNext) {
      this.#tailNext = next;
      this.#tailMovedMs = nowMs;
    }
    if (!this.#isFlushing) void this.#flush(nowMs);
  }

  async #flush(nowMs: number): Promise<void> {
    this.#isFlushing = true;
    const flush: Flush = { epoch: this.#epoch, upTo: this.#upTo(), nowMs, frames: new Map() };
    await fanOut(this.#streams, (stream) => this.#advance(stream, flush)).finally(() => {
      this.#isFlushing = false;
    });
  }

  /** The version behind the last one that the tail has of the shared state. */
  #upTo(): LedgerVersion | undefined {
    const { next } = this.#tail;
    return next === undefined || next < this.#reached ? next : this.#reached;
  }

  #advance(stream: TransactionStream, flush: Flush): void {
    const { client, cursor, filter } = stream;
    const { upTo, nowMs } = flush;
    if (stream.isBusy || this.#epoch !== flush.epoch || !this.#sendRollback(stream)) return;
    if (cursor >= this.#reached || nowMs < stream.retryAtMs) return;
    if (this.#isHeld(stream, nowMs)) return;
    if (upTo !== undefined && cursor < upTo && upTo - cursor <= mostInStep) {
      const frames = this.#framesFor(cursor, upTo, filter, flush);
      if (frames !== undefined && frames.frames.length <= mostUnread) {
        this.#send(stream, frames, upTo);
        stream.isBehind = false;
        return;
      }
    }
    if (!this.#isDue(cursor)) return;
    stream.isBusy = true;
    stream.isBehind = true;
    void this.#catchUp(stream).finally(() => {
      stream.isBusy = false;
      if (client.signal.aborted) stream.page = undefined;
    });
  }

  /** Whether a stream at `cursor` catches up. What the tail will have next is waited for, a while. */
  #isDue(cursor: LedgerVersion): boolean {
    const { next, isChecking } = this.#tail;
    if (isChecking) return false;
    return next === undefined || cursor < next || performance.now() - this.#tailMovedMs >= tailMs;
  }

  #framesFor(cursor: LedgerVersion, upTo: LedgerVersion, filter: Filter | undefined, { frames }: Flush) {
    const key = filter === undefined ? `${cursor}` : `${cursor}|${filter.key}`;
    const known = frames.get(key);
    if (known !== undefined || frames.has(key)) return known;
    const made = this.#tail.frames(cursor, upTo, filter);
    frames.set(key, made);
    return made;
  }

  /** Whether a stream that catches up waits for its reader. */
  #isHeld(stream: TransactionStream, nowMs: number): boolean {
    const { sink } = stream.client;
    if (!stream.isBehind || sink.unread <= stream.mostUnread) {
      stream.heldSinceMs = undefined;
      return false;
    }
    stream.heldSinceMs ??= nowMs;
    if (nowMs - stream.heldSinceMs >= heldMs) sink.end('slow');
    return true;
  }

  /** Sends what is in the tail, or else in pages, step by step, until the stream is in step, is held, or must wait. */
  async #catchUp(stream: TransactionStream): Promise<void> {
    const { client } = stream;
    const { sink, signal } = client;
    const epoch = this.#epoch;
    const { generation } = this.#pulse;
    // The generation changes ahead of the rollback that it may bring.
    const isValid = () => !signal.aborted && epoch === this.#epoch && generation === this.#pulse.generation;
    try {
      while (isValid() && stream.cursor < this.#reached && this.#isDue(stream.cursor) && sink.unread <= mostUnread) {
        const step = this.#stepInTail(stream);
        if (step === 'held') return;
        if (step === 'absent') {
          const page = await this.#pageOf(stream);
          if (!isValid()) return;
          if (page === undefined) {
            this.#retryLater(stream);
            return;
          }
          if (!(page instanceof Items)) {
            sink.send(eventFrame('failure', undefined, page.entry.body), 0);
            sink.end('pruned');
            return;
          }
          if (!this.#stepInPage(stream, page)) return;
        }
        stream.failures = 0;
        await new Promise((resolve) => {
          setImmediate(resolve);
        });
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof LargeAnswerError) sink.end('failed');
      else if (error instanceof GatewayError) this.#retryLater(stream);
      else {
        sink.end('failed');
        throw error;
      }
    }
  }

  #retryLater(stream: TransactionStream): void {
    stream.retryAtMs = performance.now() + Math.min(retryMs.first * 2 ** stream.failures, retryMs.most);
    stream.failures += 1;
  }

  #stepInTail(stream: TransactionStream): 'sent' | 'held' | 'absent' {
    const { cursor, filter } = stream;
    const upTo = this.#upTo();
    if (upTo === undefined || cursor >= upTo) return 'absent';
    const left = upTo - cursor;
    for (let count = left < stepVersions ? left : stepVersions; ; count = (count + 3n) / 4n) {
      const end = (cursor + count) as LedgerVersion;
      const frames = this.#tail.frames(cursor, end, filter);
      if (frames === undefined) return 'absent';
      if (frames.frames.length > stepBytes && count > 1n) continue;
      if (mustWait(stream, frames)) return 'held';
      this.#send(stream, frames, end);
      return 'sent';
    }
  }

  /** `undefined`: later. */
  async #pageOf(stream: TransactionStream): Promise<Items | ReadResult | undefined> {
    const { client, cursor, page } = stream;
    // `first`: a rollback leads back.
    if (page !== undefined && page.first <= cursor && cursor < page.end) return page;
    stream.page = undefined;
    const found = await this.#pages.at(cursor, this.#reached, client, client.admitted);
    if (found === undefined || found instanceof Items) return found;
    return found.entry.status === 410 ? found : undefined;
  }

  /** False: it is held. */
  #stepInPage(stream: TransactionStream, page: Items): boolean {
    const { next, ...frames } = page.framesOf(stream.cursor, this.#reached, stream.filter, stepBytes);
    stream.page = page;
    if (mustWait(stream, frames)) return false;
    this.#send(stream, frames, next);
    return true;
  }

  /** Sends frames of [cursor, upTo). */
  #send(stream: TransactionStream, { frames, events }: Frames, upTo: LedgerVersion): void {
    const { client } = stream;
    stream.cursor = upTo;
    stream.mostUnread = mostUnread;
    if (events > 0) {
      stream.marked = upTo;
      this.#freshness.recordSeen(client, (upTo - 1n) as LedgerVersion, true);
      client.sink.send(frames, events);
    } else if (upTo - stream.marked >= versionsAnId) {
      stream.marked = upTo;
      client.sink.send(Buffer.from(`id: ${upTo - 1n}\n\n`), 0);
    }
  }

  /** Whether the stream is open, and its client has been sent the last rollback. */
  #sendRollback(stream: TransactionStream): boolean {
    const { client, rolledBackTo: version } = stream;
    if (version === undefined) return client.sink.isOpen;
    stream.rolledBackTo = undefined;
    const frame = eventFrame('rollback', undefined, rollbackData(version));
    // An empty id: nothing is left that the client could resume behind.
    const id = Buffer.from(version === 0n ? 'id: \n' : `id: ${version - 1n}\n`);
    return client.sink.send(Buffer.concat([id, frame]), 1);
  }
}

/** Whether frames that alone are above the bound of unread bytes wait until the client has read all before them. */
function mustWait(stream: TransactionStream, { frames }: Frames): boolean {
  if (frames.length <= mostUnread || stream.client.sink.unread === 0) return false;
  stream.mostUnread = 0;
  return true;
}
