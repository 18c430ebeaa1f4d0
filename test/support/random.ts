/** A small seeded source of chance (mulberry32), so that a failing case can be made again from its number. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** 0 to 2^32 - 1. */
  u32(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }

  /** 0 to `limit - 1`. */
  below(limit: number): number {
    return this.u32() % limit;
  }

  chance(oneIn: number): boolean {
    return this.below(oneIn) === 0;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }

  /** An unsigned integer of `bits`, near an edge more often than not. */
  integer(bits: number): bigint {
    const limit = 1n << BigInt(bits);
    if (this.chance(2)) return this.pick([0n, 1n, 127n, 128n, 255n, limit - 1n, limit - 2n, limit / 2n]) % limit;
    let value = 0n;
    for (let have = 0; have < bits; have += 32) value = (value << 32n) | BigInt(this.u32());
    return (value >> BigInt(this.below(bits))) % limit;
  }

  hex(digits: number): string {
    let text = '';
    for (let at = 0; at < digits; at += 1) text += this.below(16).toString(16);
    return text;
  }

  shuffle<T>(items: readonly T[]): T[] {
    return items
      .map((item) => ({ item, order: this.u32() }))
      .sort((a, b) => a.order - b.order)
      .map(({ item }) => item);
  }
}
