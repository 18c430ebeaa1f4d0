/**
 * Watches of reads of "latest": one read of a node for each key and interval, and an event where its answer changed. It is
 * an ordinary read of the newest state, which other readers share. Keys have turns of their own, spread over the interval:
 * all at once would hold the event loop for tens of milliseconds, and a slow key would hold up the others.
 */
import { ownBytes } from '../../../cache/index.ts';
import { CancelToken, GatewayError, JsonBody, type LedgerVersion } from '../../../ledger/index.ts';
import type { PublishedState, ReportedState } from '../../../upstream/index.ts';
import type { Freshness } from '../freshness.ts';
import { chargeFailure, chargeRead, eventFrame, fanOut, sendState, type StreamClient } from '../push.ts';
import type { Read, ReadResult } from '../read.ts';
import type { Reader } from '../reader.ts';
import { beatMs, type Pulse, type PulseListener } from './pulse.ts';

/** Bytes of a watched answer at most: two of them are a client's unread bytes. */
const mostBytes = 512 * 1024;
/** Keys that are read at once. */
const mostInFlight = 32;
/** Clients whose plans are asked to admit one read, in one turn. */
const mostPayers = 8;
/** Keys that have a turn at one beat, relative to its share of the interval: late ones catch up. */
const haste = 1.25;

interface Watcher {
  readonly client: StreamClient;
  /** That of its last event, or an equal one that streams of its key share. */
  answer: Answer;
  /** At which its client holds the answer, as far as it is known, and the ledger's generation then. */
  version: LedgerVersion | undefined;
  generation: number;
}

/** A key that is watched. */
interface Watch {
  readonly read: Read;
  /** The oldest first. */
  readonly watchers: Set<Watcher>;
  /** Aborts when the last one has left. */
  readonly gone: CancelToken;
  answer: Answer;
  /** Ahead of the first turn, and without an answer: `undefined`. */
  at: { readonly version: LedgerVersion; readonly purges: number } | undefined;
  /** Time from which the interval to its next turn counts; `performance.now()`. */
  turnMs: number;
  /** Has a turn, or waits for one of `mostInFlight`. */
  isBusy: boolean;
}

/** The watches of one process, by key. */
export class Watches implements PulseListener {
  readonly #reader: Reader;
  readonly #freshness: Freshness;
  readonly #pulse: Pulse;
  readonly #settings: { readonly intervalMs: number };
  /** In the order of their next turns. */
  readonly #watches = new Map<string, Watch>();
  /** Watches that are due, and the work of a turn at present. */
  readonly #due = new Set<Watch>();
  #turn: (watch: Watch) => Promise<void> = () => Promise.resolve();
  #inFlight = 0;
  /** Times of the last turns, and of the last beat with a state; `performance.now()`. */
  #turnsMs = 0;
  #beatenMs = 0;

  /** `settings`: the live interval between turns. */
  constructor(reader: Reader, freshness: Freshness, pulse: Pulse, settings: { readonly intervalMs: number }) {
    this.#reader = reader;
    this.#freshness = freshness;
    this.#pulse = pulse;
    this.#settings = settings;
  }

  /** A success, or a final 404, whose item may come to be. Throws `GatewayError` 400 for one that is too large. */
  canBegin({ entry: { status, lifetimeMs, body } }: ReadResult): boolean {
    if (body.length > mostBytes) throw tooLarge();
    return status === 200 || (status === 404 && lifetimeMs > 0);
  }

  /** Begins with `first`, which `canBegin` admits. The client's sink is open. */
  open(client: StreamClient, read: Read, first: ReadResult): void {
    if (client.signal.aborted) return;
    const key = `${read.operation}|${read.subject}`;
    const answer = Answer.of(first.entry);
    let watch = this.#watches.get(key);
    if (watch === undefined) {
      watch = {
        read: ownRead(read),
        watchers: new Set(),
        gone: new CancelToken(),
        answer,
        at: undefined,
        turnMs: performance.now(),
        isBusy: false,
      };
      this.#watches.set(key, watch);
    }
    const { version } = first;
    const shared = answer.equals(watch.answer) ? watch.answer : answer;
    const watcher = { client, answer: shared, version, generation: this.#pulse.generation };
    watch.watchers.add(watcher);
    client.signal.addEventListener('abort', () => this.#leave(key, watch, watcher));
    client.sink.send(shared.frameAt(version), 1);
    if (this.#watches.size === 0 || !this.#pulse.join(this)) return;
    this.#beatenMs = performance.now();
    this.#turnsMs = this.#beatenMs;
  }

  #leave(key: string, watch: Watch, watcher: Watcher): void {
    watch.watchers.delete(watcher);
    if (watch.watchers.size > 0) return;
    watch.gone.abort(new Error('the last watcher has left'));
    this.#watches.delete(key);
    this.#due.delete(watch);
    if (this.#watches.size === 0) this.#pulse.leave(this);
  }

  /** Begins turns at this state. */
  onBeat(state: PublishedState): void {
    const nowMs = performance.now();
    this.#beatenMs = nowMs;
    const { generation } = this.#pulse;
    this.#take(nowMs, (watch) => this.#renew(watch, state, generation));
  }

  /** Without a state for an interval, each watch has the error that reads get. */
  onMiss(error: unknown): void {
    const nowMs = performance.now();
    const isLong = nowMs - this.#beatenMs >= Math.max(this.#settings.intervalMs, 1_000);
    if (!isLong || !(error instanceof GatewayError)) return;
    const answer = Answer.ofError(error);
    this.#take(nowMs, (watch) => this.#fail(watch, answer));
  }

  /** Begins the turns of a beat: its share of those that are due, the longest due first. A key has one turn at a time. */
  #take(nowMs: number, turn: (watch: Watch) => Promise<void>): void {
    const { intervalMs } = this.#settings;
    const share = (haste * Math.max(nowMs - this.#turnsMs, beatMs)) / intervalMs;
    let left = Math.ceil(this.#watches.size * Math.min(1, share));
    this.#turnsMs = nowMs;
    this.#turn = turn;
    for (const [key, watch] of this.#watches) {
      if (left === 0 || nowMs < watch.turnMs + intervalMs) break;
      if (watch.isBusy) continue;
      left -= 1;
      // A turn is late by one beat at most, and the next one is not put off by that.
      watch.turnMs = Math.max(watch.turnMs + intervalMs, nowMs - beatMs);
      watch.isBusy = true;
      this.#due.add(watch);
      this.#watches.delete(key);
      this.#watches.set(key, watch);
    }
    for (let free = Math.min(mostInFlight - this.#inFlight, this.#due.size); free > 0; free -= 1) void this.#work();
  }

  async #work(): Promise<void> {
    this.#inFlight += 1;
    try {
      for (const watch of this.#due) {
        this.#due.delete(watch);
        await this.#turn(watch);
        watch.isBusy = false;
      }
    } finally {
      this.#inFlight -= 1;
    }
  }

  /** Reads the key at the state, unless it has been, and shows its watchers what is new to them. */
  async #renew(watch: Watch, state: PublishedState, generation: number): Promise<void> {
    const { version } = state.info;
    const { purges } = this.#reader;
    const { at } = watch;
    // Another generation is a purge, too.
    if (at?.version !== version || at.purges !== purges) {
      const answer = await this.#readAt(state, watch);
      if (answer === undefined || generation !== this.#pulse.generation) return undefined;
      if (answer.isFailure) return this.#fail(watch, answer);
      if (!answer.equals(watch.answer)) watch.answer = answer;
      watch.at = { version, purges };
    }
    const nowMs = performance.now();
    return fanOut(watch.watchers, (watcher) => {
      if (generation === this.#pulse.generation) this.#show(watcher, watch.answer, state, generation, nowMs);
    });
  }

  #fail(watch: Watch, answer: Answer): Promise<void> {
    if (!answer.equals(watch.answer)) watch.answer = answer;
    watch.at = undefined;
    return fanOut(watch.watchers, (watcher) => {
      if (watcher.answer.equals(watch.answer)) return;
      watcher.answer = watch.answer;
      watcher.client.sink.send(watch.answer.frameAt(undefined), 1);
    });
  }

  #show(watcher: Watcher, answer: Answer, state: ReportedState, generation: number, nowMs: number): void {
    const { client } = watcher;
    const { version } = state.info;
    const isReplaced = watcher.generation !== generation;
    // The nodes that held a newer state may be gone.
    if (!isReplaced && watcher.version !== undefined && watcher.version > version) return;
    if (!isReplaced && watcher.answer.equals(answer)) {
      watcher.answer = answer;
      watcher.version = version;
      return;
    }
    if (!client.sink.isOpen || !this.#freshness.mayFollow(state, client)) return;
    watcher.answer = answer;
    watcher.version = version;
    watcher.generation = generation;
    this.#freshness.recordServed(client, state, nowMs);
    sendState(client.sink, version, answer.frameAt(version), isReplaced);
  }

  /** The answer of memory, or of a node; `undefined`: there is none in this turn. */
  async #readAt(state: ReportedState, watch: Watch): Promise<Answer | undefined> {
    const pinned = this.#freshness.pinned(watch.read, state.info.version);
    const hit = this.#reader.find(pinned);
    if (hit !== undefined) return Answer.of(hit.entry);
    const payer = await this.#payerOf(watch);
    if (payer === undefined) return undefined;
    const { admitted, client } = payer;
    try {
      const served = await this.#reader.load(pinned, { client, signal: watch.gone });
      chargeRead(admitted, served);
      this.#freshness.requireVersion(served, state);
      return Answer.of(served.entry);
    } catch (error) {
      // Charged already, where a node has answered.
      chargeFailure(admitted, error);
      if (watch.gone.aborted) return undefined;
      if (!(error instanceof GatewayError)) throw error;
      // The next turn has the state of nodes that can be reached, and perhaps a client with room of its own.
      return error.reason === 'not reached' || error.client !== undefined ? undefined : Answer.ofError(error);
    }
  }

  /** The oldest watcher whose plan admits the read, which is charged once for all of them. */
  async #payerOf({ watchers, gone }: Watch) {
    const refused = new Set<unknown>();
    for (const watcher of watchers) {
      if (refused.size === mostPayers || gone.aborted) return undefined;
      const { admitted, client, sink } = watcher.client;
      if (!sink.isOpen) continue;
      if (admitted === undefined) return { admitted: undefined, client };
      if (refused.has(admitted.principal)) continue;
      const again = await admitted.again(gone);
      if (again !== undefined) return { admitted: again, client };
      refused.add(admitted.principal);
      // Others are asked first from now on.
      if (watchers.delete(watcher)) watchers.add(watcher);
    }
    return undefined;
  }
}

/** An answer without its version: the frame of its last version is kept for all who get it. */
class Answer {
  /** No node has answered, or with an error of its own: the next turn asks again, at the same version, too. */
  readonly isFailure: boolean;
  readonly #status: number;
  readonly #body: Buffer;
  /** `error_code` of an error: its message may name the version. */
  readonly #code: unknown;
  #frame: Buffer | undefined;
  #version: LedgerVersion | undefined;

  private constructor(status: number, body: Buffer) {
    this.isFailure = status >= 500 || status === 429;
    this.#status = status;
    this.#body = body;
    this.#code = status === 200 ? undefined : new JsonBody(body).members['error_code'];
  }

  static of({ status, body }: ReadResult['entry']): Answer {
    return body.length > mostBytes ? Answer.ofError(tooLarge()) : new Answer(status, body);
  }

  static ofError({ status, body }: GatewayError): Answer {
    return new Answer(status, Buffer.from(body));
  }

  /** Errors are equal whatever their message says. */
  equals(other: Answer): boolean {
    if (this === other) return true;
    if (this.#status !== other.#status) return false;
    return this.#status === 200 ? this.#body.equals(other.#body) : this.#code === other.#code;
  }

  frameAt(version: LedgerVersion | undefined): Buffer {
    if (this.#frame === undefined || this.#version !== version) {
      this.#frame = eventFrame(this.#status === 200 ? 'change' : 'failure', version, this.#body);
      this.#version = version;
    }
    return this.#frame;
  }
}

function tooLarge(): GatewayError {
  return new GatewayError('invalidInput', `the answer is larger than the ${mostBytes} bytes of an event`);
}

/** A slice of the received request would keep all of it in memory. */
function ownRead(read: Read): Read {
  const { wire } = read;
  const copy = { ...read, wire: Buffer.isBuffer(wire.body) ? { ...wire, body: ownBytes(wire.body) } : wire };
  delete copy.keyed;
  return copy;
}
