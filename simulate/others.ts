/**
 * Reads of the replicas that are not simulated. Requests come at random, so the number of reads of a key until a moment
 * has a Poisson distribution, and its mean follows from the traffic alone. Whether a key was read at all is drawn once
 * for each key. One simulated replica stands for a thousand that way.
 */
import { exponential, uniformOf } from './random.ts';
import type { Shape } from './shape.ts';
import type { Subject, TrafficSource } from './traffic.ts';

/** A read as replicas share it. */
export interface SharedRead {
  readonly subject: Subject;
  /** Absent for transactions. */
  readonly block: number | undefined;
  /** Name of its key. */
  readonly name: string;
}

export interface OthersOptions {
  /** Their part of all traffic. */
  readonly share: number;
  /** How long the group has answered reads of "latest" from a block until a moment, in milliseconds. */
  readonly latestMs: (block: number, atMs: number) => number;
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
    const { share } = this.#options;
    return share > 0 && this.#expected(read, atMs) * share >= exponential(uniformOf(read.name, 11));
  }

  /** Mean number of reads by all clients until then. */
  #expected({ subject, block }: SharedRead, atMs: number): number {
    const { traffic, redis } = this.#shape;
    const { rate, mix } = traffic;
    if (subject.isDeep === true) return (rate * mix.deep * subject.share * (atMs + (redis?.historyMs ?? 0))) / 1000;
    if (block === undefined) {
      return rate * mix.hash * this.#source.hashExposure(this.#source.committedMs(subject), atMs);
    }
    const isView = subject.operation === 'view';
    const latest = (isView ? mix.latestView : mix.latest) * (this.#options.latestMs(block, atMs) / 1000);
    const head = (isView ? mix.headView : mix.head) * this.#source.headExposure(block, atMs);
    return rate * subject.share * (latest + head);
  }
}
