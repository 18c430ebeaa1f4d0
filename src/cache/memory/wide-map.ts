/** Numbers are consecutive: their last bits spread them evenly. */
const parts = 64;

/** A map by number without V8's bound: a Map throws at 2^24 entries, under churn at half as many. */
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
