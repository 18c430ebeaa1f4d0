/**
 * A map by number that may become as large as memory is. A Map of V8 throws at 2^24 entries, and already at half as many
 * where they come and go, because it has to take twice the room before it can tidy up.
 */

/** Numbers are given out in turn, so that their last bits spread them evenly. */
const parts = 64;

export class WideMap<Value> {
  readonly #parts: readonly Map<number, Value>[] = Array.from({ length: parts }, () => new Map<number, Value>());

  get(number: number): Value | undefined {
    return this.#partOf(number).get(number);
  }

  set(number: number, value: Value): void {
    this.#partOf(number).set(number, value);
  }

  delete(number: number): void {
    this.#partOf(number).delete(number);
  }

  clear(): void {
    for (const part of this.#parts) part.clear();
  }

  #partOf(number: number): Map<number, Value> {
    return this.#parts[number % parts] as Map<number, Value>;
  }
}
