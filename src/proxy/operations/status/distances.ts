/** Reads by distance from the head, which no metric family counts. A read costs one addition. */
import { outcomes, type Outcome } from '../../../metrics/http-metrics.ts';
import type { Counts } from './counts.ts';

/** Versions behind the head by doublings: 0, 1, 2 to 3, 4 to 7, ... The last bin begins at 2^46. */
export const distanceBins = 48;

/** The outcomes before it needed no node. */
const firstAsked = outcomes.indexOf('miss');

/** Counts reads by distance from the head. */
export class Distances {
  readonly #held = new Float64Array(distanceBins);
  readonly #asked = new Float64Array(distanceBins);
  /** A float: beyond 2^53 its error is below the width of a bin. */
  #head = -1;

  /** The fleet's head, set once a second, so that the hit path need not read it. */
  set head(version: bigint | undefined) {
    this.#head = version === undefined ? -1 : Number(version);
  }

  /** Counts an ended request; `version`: the ledger version of the answer's body. */
  count(outcome: Outcome, version: bigint | undefined): void {
    if (version === undefined || this.#head < 0) return;
    const bin = binOf(this.#head - Number(version));
    const bins = outcomes.indexOf(outcome) < firstAsked ? this.#held : this.#asked;
    bins[bin] = (bins[bin] ?? 0) + 1;
  }

  /** Cells with their counts since the start, without those that are zero. */
  *cells(): Iterable<readonly [string, number]> {
    for (const [kind, bins] of [['held', this.#held] as const, ['asked', this.#asked] as const]) {
      for (const [bin, count] of bins.entries()) if (count > 0) yield [`distance ${kind} ${bin}`, count];
    }
  }
}

/** Reads by bin: `held` without a node, `asked` with one. */
export function distancesOf(counts: Counts): readonly { readonly held: number; readonly asked: number }[] {
  return Array.from({ length: distanceBins }, (_, bin) => ({
    held: counts.get(`distance held ${bin}`) ?? 0,
    asked: counts.get(`distance asked ${bin}`) ?? 0,
  }));
}

/** The bin of a distance; a version above this second's head counts as the head. */
export function binOf(distance: number): number {
  if (distance < 1) return 0;
  const bin = (distance < 2 ** 31 ? 31 - Math.clz32(distance) : Math.floor(Math.log2(distance))) + 1;
  return bin < distanceBins ? bin : distanceBins - 1;
}

/** The distances of a bin: `from` is included, `to` is not. */
export function binBounds(bin: number): readonly [from: number, to: number] {
  return bin === 0 ? [0, 1] : [2 ** (bin - 1), 2 ** bin];
}
