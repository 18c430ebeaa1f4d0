/**
 * Watches of reads of "latest": one read of a node for each key and round, and an event where its answer changed. A round
 * reads all keys at one state, which other readers share; its answers are those of ordinary reads there.
 */
import { type Cache, ownBytes } from '../../cache/index.ts';
import { CancelToken, GatewayError, JsonBody, type LedgerVersion } from '../../ledger/index.ts';
import type { Outcome } from '../../metrics/index.ts';
import type { PublishedState, ReportedState } from '../../upstream/index.ts';
import { eventFrame, rollbackFrame } from './event-frame.ts';
import type { Freshness } from './freshness.ts';
import type { Pulse } from './pulse.ts';
import { fanOut, type StreamClient } from './push-types.ts';
import type { Read, ReadResult } from './read.ts';
import type { Reader } from './reader.ts';

/** Bytes of a watched answer at most: two of them are a client's unread bytes. */
const mostBytes = 512 * 1024;
/** Keys of a round that are read at once. */
const mostInFlight = 32;
/** Clients whose plans are asked to admit one read, in one round. */
const mostPayers = 8;
/** In ms. A round is late by one beat of the pulse at most, and the next one is not put off by that. */
const beatMs = 100;

/** One stream. */
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
  /** Ahead of the first round, and without an answer: `undefined`. */
  at: { readonly version: LedgerVersion; readonly generation: number; readonly purges: number } | undefined;
}

/** The watches of one process, by key. */
export class Watches {
  readonly #reader: Reader;
  readonly #freshness: Freshness;
  readonly #pulse: Pulse;
  readonly #tiers: Pick<Cache['tiers'], 'purges'>;
  readonly #settings: { readonly intervalMs: number };
  readonly #watches = new Map<string, Watch>();
  #stop: (() => void) | undefined;
  #isRunning = false;
  /** Time from which the interval to the next round counts, and of the last beat; `performance.now()`. */
  #roundMs = -Infinity;
  #beatenMs = 0;

  /** `settings`: the live interval of rounds. */
  constructor(
    reader: Reader,
    freshness: Freshness,
    pulse: Pulse,
    tiers: Pick<Cache['tiers'], 'purges'>,
    settings: { readonly intervalMs: number },
  ) {
    this.#reader = reader;
    this.#freshness = freshness;
    this.#pulse = pulse;
    this.#tiers = tiers;
    this.#settings = settings;
  }

  /**
   * Whether a stream can begin with this answer to an ordinary read: a success, or a final 404, whose item may come to be.
   * Throws `GatewayError` 400 for one that is too large.
   */
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
      watch = { read: ownRead(read), watchers: new Set(), gone: new CancelToken(), answer, at: undefined };
      this.#watches.set(key, watch);
    }
    const { version } = first;
    const shared = answer.equals(watch.answer) ? watch.answer : answer;
    const watcher = { client, answer: shared, version, generation: this.#pulse.generation };
    watch.watchers.add(watcher);
    client.signal.addEventListener('abort', () => this.#leave(key, watch, watcher));
    client.sink.send(shared.frameAt(version), 1);
    if (this.#watches.size === 0 || this.#stop !== undefined) return;
    this.#roundMs = performance.now();
    this.#beatenMs = this.#roundMs;
    this.#stop = this.#pulse.listen(
      (state) => this.#onBeat(state),
      (error) => this.#onMiss(error),
    );
  }

  #leave(key: string, watch: Watch, watcher: Watcher): void {
    watch.watchers.delete(watcher);
    if (watch.watchers.size > 0) return;
    watch.gone.abort(new Error('nobody watches any more'));
    this.#watches.delete(key);
    if (this.#watches.size > 0) return;
    this.#stop?.();
    this.#stop = undefined;
  }

  #onBeat(state: PublishedState): void {
    const nowMs = performance.now();
    this.#beatenMs = nowMs;
    if (!this.#isDue(nowMs)) return;
    const { generation } = this.#pulse;
    void this.#run((watch) => this.#renew(watch, state, generation));
  }

  /** Without a state for an interval, each watch has the error that reads get. */
  #onMiss(error: unknown): void {
    const nowMs = performance.now();
    const isLong = nowMs - this.#beatenMs >= Math.max(this.#settings.intervalMs, 1_000);
    if (!isLong || !(error instanceof GatewayError) || !this.#isDue(nowMs)) return;
    const answer = Answer.ofError(error);
    void this.#run((watch) => this.#fail(watch, answer));
  }

  /** Whether a round begins now. A round never overlaps the one before it. */
  #isDue(nowMs: number): boolean {
    const { intervalMs } = this.#settings;
    if (this.#isRunning || nowMs < this.#roundMs + intervalMs) return false;
    this.#roundMs = Math.max(this.#roundMs + intervalMs, nowMs - beatMs);
    return true;
  }

  async #run(step: (watch: Watch) => Promise<void>): Promise<void> {
    this.#isRunning = true;
    const left = this.#watches.values();
    const work = async (): Promise<void> => {
      for (const watch of left) await step(watch);
    };
    try {
      await Promise.all(Array.from({ length: Math.min(mostInFlight, this.#watches.size) }, work));
    } finally {
      this.#isRunning = false;
    }
  }

  /** Reads the key at the state, unless it has been, and shows its watchers what is new to them. */
  async #renew(watch: Watch, state: PublishedState, generation: number): Promise<void> {
    const { version } = state.info;
    const { purges } = this.#tiers;
    const { at } = watch;
    if (at?.version !== version || at.generation !== generation || at.purges !== purges) {
      const answer = await this.#readAt(state, watch);
      if (answer === undefined || generation !== this.#pulse.generation) return undefined;
      if (answer.isFailure) return this.#fail(watch, answer);
      if (!answer.equals(watch.answer)) watch.answer = answer;
      watch.at = { version, generation, purges };
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
    const frame = answer.frameAt(version);
    if (isReplaced) client.sink.send(Buffer.concat([rollbackFrame(version), frame]), 2);
    else client.sink.send(frame, 1);
  }

  /** The answer of memory, or of a node; `undefined`: there is none in this round. */
  async #readAt(state: ReportedState, watch: Watch): Promise<Answer | undefined> {
    const pinned = this.#freshness.pinned(watch.read, state.info.version);
    const hit = this.#reader.find(pinned);
    if (hit !== undefined) return Answer.of(hit.entry);
    const payer = await this.#payerOf(watch);
    if (payer === undefined) return undefined;
    const { admitted, client } = payer;
    try {
      const served = await this.#reader.load(pinned, { client, signal: watch.gone });
      charge(admitted, served);
      this.#freshness.requireVersion(served, state);
      return Answer.of(served.entry);
    } catch (error) {
      // Charged already, where a node has answered.
      settle(admitted, 'failed', error instanceof GatewayError ? error.status : 500);
      if (watch.gone.aborted) return undefined;
      if (!(error instanceof GatewayError)) throw error;
      // The next round has the state of nodes that can be reached, and perhaps a client with room of its own.
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

type Admitted = StreamClient['admitted'];

/** Charges the read of a node, or a share in another client's. */
function charge(admitted: Admitted, { source, entry: { status, gasUsed } }: ReadResult): void {
  if (source.kind !== 'upstream') settle(admitted, source.kind, status);
  else if (source.isCollapsed) settle(admitted, 'collapsed', status);
  else settle(admitted, 'miss', status, source.tookMs, gasUsed);
}

function settle(admitted: Admitted, outcome: Outcome, statusCode: number, upstreamMs = 0, gas?: string): void {
  const gasUsed = gas !== undefined && /^\d{1,20}$/.test(gas) ? BigInt(gas) : undefined;
  // The stream's bytes are charged as they leave.
  admitted?.follow({ outcome, upstreamMs, gasUsed, bytes: 0, bodyBytes: 0 });
  admitted?.settle({ headersSent: true, statusCode });
}

/** An answer without its version: the frame of its last version is kept for all who get it. */
class Answer {
  /** No node has answered, or with an error of its own: the next round asks again, at the same version, too. */
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
