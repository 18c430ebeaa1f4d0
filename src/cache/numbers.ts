/** Tables of numbers: an index that is within the table, and a longer table with the same beginning. */

export function at(numbers: Uint32Array, index: number): number {
  return numbers[index] as number;
}

export function longer(numbers: Uint32Array<ArrayBuffer>, length: number): Uint32Array<ArrayBuffer> {
  const grown = new Uint32Array(length);
  grown.set(numbers);
  return grown;
}
