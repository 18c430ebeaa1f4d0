/**
 * What the clients of replicas that are not simulated have read. Requests come at random, so how often a key was read by
 * them until a moment has a Poisson distribution whose mean follows from the traffic alone; whether it was read at all
 * is drawn once for each key, and stays. A thousand replicas' effect on what they share is had for the price of one.
 */
import { exponential, uniformOf } from './random.ts';
import type { Shape } from './shape.ts';
import type { Subject, TrafficSource } from './traffic.ts';

/** A read as it is shared: `block` is absent for transactions. */
export interface SharedRead {
  readonly kind: 'state' | 'deep';
  readonly subject: Subject;
  readonly block: number | undefined;
  /** Of its key. */
  readonly name: string;
}

export interface OthersOptions {
  /** Their part of all traffic. */
  readonly share: number;
  /** Sets apart the luck of different tiers. */
  readonly salt: number;
  /** For how long the catalogue has been read when the run begins. */
  readonly historyMs: number;
  /** For how long a block has been what reads of "latest" are given; absent where those do not count. */
  readonly latestMs?: ((block: number, atMs: number) => number) | undefined;
}

export class Others {
  readonly #shape: Shape;
  readonly #source: TrafficSource;
  readonly #options: OthersOptions;

  constructor(shape: Shape, source: TrafficSource, options: OthersOptions) {
    this.#shape = shape;
    this.#source = source;
    this.#options = options;
  }

  /** Whether one of them had read it by then. */
  hasRead(read: SharedRead, atMs: number): boolean {
    const { share, salt } = this.#options;
    if (share <= 0) return false;
    return this.#expected(read, atMs) * share >= exponential(uniformOf(read.name, salt));
  }

  /** Reads of it by all clients until then, on average. */
  #expected(read: SharedRead, atMs: number): number {
    const { rate, mix } = this.#shape.traffic;
    const { subject, block } = read;
    if (read.kind === 'deep') return (rate * mix.deep * subject.share * (atMs + this.#options.historyMs)) / 1000;
    if (block === undefined) {
      return rate * mix.hash * this.#source.hashExposure(this.#source.committedMs(subject), atMs);
    }
    const isView = subject.operation === 'view';
    const latestMs = this.#options.latestMs?.(block, atMs) ?? 0;
    const latest = (isView ? mix.latestView : mix.latest) * (latestMs / 1000);
    const head = (isView ? mix.headView : mix.head) * this.#source.headExposure(block, atMs);
    const recent = isView ? 0 : mix.recent * this.#source.recentExposure(block, atMs);
    return rate * subject.share * (latest + head + recent);
  }
}
