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
  /** Absent for transactions and history. */
  readonly block: number | undefined;
  /** Name of its key. */
  readonly name: string;
}

export interface OthersOptions {
  /** Their part of all traffic. */
  readonly share: number;
  /** How long the group has answered reads of "latest" from a block until a moment, in milliseconds. */
  readonly latestMs: (subject: Subject, block: number, atMs: number) => number;
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
    const { share, subjects } = subject.shape;
    const shared = subjects.kind === 'hash' ? 1 - subjects.own : 1;
    const rate = traffic.rate * share * shared * subject.share;
    if (block === undefined) return rate * this.#source.hashExposure(this.#source.committedMs(subject), atMs);
    if (subjects.kind !== 'state') return 0;
    if (subject.isDeep === true) return (rate * subjects.deep * (atMs + (redis?.historyMs ?? 0))) / 1000;
    const latest = (1 - subjects.pinned) * (this.#options.latestMs(subject, block, atMs) / 1000);
    const head = (subjects.pinned - subjects.deep) * this.#source.headExposure(block, atMs);
    return rate * (latest + head);
  }
}
