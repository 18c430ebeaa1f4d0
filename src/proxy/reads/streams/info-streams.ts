/** Streams of the ledger info: an event whenever the shared state moves. */
import type { LedgerVersion } from '../../../ledger/index.ts';
import type { PublishedState } from '../../../upstream/index.ts';
import type { Freshness, InfoBody } from '../freshness.ts';
import { eventFrame, fanOut, sendState, type StreamClient } from '../push.ts';
import type { Pulse, PulseListener } from './pulse.ts';

/** One stream. */
interface InfoStream {
  readonly client: StreamClient;
  /** Version of its last event, and the ledger's generation then. */
  version: LedgerVersion;
  generation: number;
}

/** The streams of the ledger info of one process. */
export class InfoStreams implements PulseListener {
  readonly #freshness: Freshness;
  readonly #pulse: Pulse;
  readonly #streams = new Set<InfoStream>();
  /** The newest beat's: a walk of the streams that takes several beats sends it from its arrival on. */
  #state: PublishedState | undefined;
  #generation = 0;
  #isSending = false;
  /** The last frame. All streams share it while its body is that of the state. */
  #last: { readonly info: InfoBody; readonly frame: Buffer } | undefined;

  constructor(freshness: Freshness, pulse: Pulse) {
    this.#freshness = freshness;
    this.#pulse = pulse;
  }

  /** Begins with `first`, the answer to an ordinary read. The client's sink is open. */
  open(client: StreamClient, first: InfoBody): void {
    if (client.signal.aborted) return;
    const stream = { client, version: first.version, generation: this.#pulse.generation };
    this.#streams.add(stream);
    client.signal.addEventListener('abort', () => this.#leave(stream));
    client.sink.send(this.#frameOf(first), 1);
    if (this.#streams.size > 0) this.#pulse.join(this);
  }

  #leave(stream: InfoStream): void {
    this.#streams.delete(stream);
    if (this.#streams.size > 0) return;
    this.#pulse.leave(this);
    this.#state = undefined;
    this.#last = undefined;
  }

  /** Begins a walk of the streams, unless one goes on. */
  onBeat(state: PublishedState): void {
    this.#state = state;
    this.#generation = this.#pulse.generation;
    if (!this.#isSending) void this.#walk();
  }

  async #walk(): Promise<void> {
    this.#isSending = true;
    await fanOut(this.#streams, (stream) => this.#send(stream));
    this.#isSending = false;
  }

  #send(stream: InfoStream): void {
    const state = this.#state;
    const generation = this.#generation;
    const { client } = stream;
    if (state === undefined || !client.sink.isOpen) return;
    const isReplaced = stream.generation !== generation;
    if (!isReplaced && stream.version === state.info.version) return;
    // The ledger was replaced since the beat.
    if (generation !== this.#pulse.generation) return;
    const info = this.#freshness.infoAt(state, client);
    if (info === undefined) return;
    stream.version = info.version;
    stream.generation = generation;
    sendState(client.sink, info.version, this.#frameOf(info), isReplaced);
  }

  #frameOf(info: InfoBody): Buffer {
    if (this.#last?.info !== info) this.#last = { info, frame: eventFrame('ledger_info', info.version, info.body) };
    return this.#last.frame;
  }
}
