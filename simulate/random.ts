/** Seeded chance: the same seed gives the same run on every machine. */

/** Uniform numbers from 0 up to 1. */
export type Random = () => number;

const twoTo32 = 2 ** 32;

/** A small generator (mulberry32's recurrence); `stream` sets apart several that share a seed. */
export function randomOf(seed: number, stream = 0): Random {
  let state = mix32(seed ^ Math.imul(stream + 1, 0x9e3779b1));
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let word = Math.imul(state ^ (state >>> 15), state | 1);
    word ^= word + Math.imul(word ^ (word >>> 7), word | 61);
    return ((word ^ (word >>> 14)) >>> 0) / twoTo32;
  };
}

/** Exponential with mean 1. */
export function exponential(uniform: number): number {
  return -Math.log(1 - uniform);
}

/** One uniform number that belongs to a text for ever: the same for each reader at each time. */
export function uniformOf(text: string, salt: number): number {
  let word = mix32(salt);
  for (let index = 0; index < text.length; index += 1) word = Math.imul(word ^ text.charCodeAt(index), 0x01000193);
  return mix32(word) / twoTo32;
}

function mix32(value: number): number {
  let word = value | 0;
  word = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  word = Math.imul(word ^ (word >>> 13), 0xc2b2ae35);
  return (word ^ (word >>> 16)) >>> 0;
}

/** Ranks 0 to `count - 1`, where rank r is drawn as often as 1 / (r + 1)^skew. */
export class Zipf {
  readonly #upTo: Float64Array;

  constructor(count: number, skew: number) {
    const upTo = new Float64Array(count);
    let sum = 0;
    for (let rank = 0; rank < count; rank += 1) {
      sum += (rank + 1) ** -skew;
      upTo[rank] = sum;
    }
    for (let rank = 0; rank < count; rank += 1) upTo[rank] = (upTo[rank] as number) / sum;
    this.#upTo = upTo;
  }

  draw(random: Random): number {
    const wanted = random();
    let low = 0;
    let high = this.#upTo.length - 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#upTo[middle] as number) < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** How often this rank is drawn, of all draws. */
  shareOf(rank: number): number {
    return (this.#upTo[rank] as number) - (rank === 0 ? 0 : (this.#upTo[rank - 1] as number));
  }
}

const tables = new Map<string, Zipf>();

/** The distribution, made once: shapes mostly share theirs. */
export function zipfOf(count: number, skew: number): Zipf {
  const name = `${count} ${skew}`;
  let zipf = tables.get(name);
  if (zipf === undefined) tables.set(name, (zipf = new Zipf(count, skew)));
  return zipf;
}
