/** Reads that are repeated at the next shared state ahead of their first client, because clients asked often for them. */
import type { HotShape } from './shape.ts';
import type { Subject } from './traffic.ts';

/** Counts the reads of one shared state. */
export class HotReads {
  readonly #shape: HotShape;
  readonly #counts = new Map<string, { readonly subject: Subject; times: number }>();

  constructor(shape: HotShape) {
    this.#shape = shape;
  }

  record(subject: Subject): void {
    const found = this.#counts.get(subject.text);
    if (found === undefined) this.#counts.set(subject.text, { subject, times: 1 });
    else found.times += 1;
  }

  /** The hot reads of the state that ends; counting begins anew. */
  end(): readonly Subject[] {
    const { times, most } = this.#shape;
    const hot = [...this.#counts.values()].filter((read) => read.times >= times);
    this.#counts.clear();
    return hot
      .sort((a, b) => b.times - a.times)
      .slice(0, most)
      .map(({ subject }) => subject);
  }
}
