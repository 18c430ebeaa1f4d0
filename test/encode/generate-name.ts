/** Made-up addresses and names. */
import type { Random } from '../support/random.ts';

/** 64 hex digits, many of them leading zeros in a third of the cases. */
export function address(random: Random): string {
  return random.chance(3) ? random.hex(1 + random.below(4)).padStart(64, '0') : random.hex(64);
}

const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';

/** A name that no keyword or type parameter is spelled like. */
export function name(random: Random): string {
  const tail = Array.from({ length: random.chance(12) ? 125 : random.below(6) }, () => letters[random.below(52)]);
  return `${letters[random.below(52)]}_${tail.join('')}${random.below(10)}`;
}
