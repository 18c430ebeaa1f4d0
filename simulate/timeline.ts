/** What is to happen at which moment of simulated time: a heap, so that what ends first is found first. */
interface Due {
  readonly atMs: number;
  /** Of two that are due at once, the one that was added first. */
  readonly turn: number;
  readonly run: () => void;
}

export class Timeline {
  readonly #heap: Due[] = [];
  #turns = 0;

  at(atMs: number, run: () => void): void {
    const heap = this.#heap;
    let place = heap.length;
    const due = { atMs, turn: (this.#turns += 1), run };
    heap.push(due);
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (isBefore(heap[parent] as Due, due)) break;
      heap[place] = heap[parent] as Due;
      place = parent;
    }
    heap[place] = due;
  }

  /** Does what is due by then, in order. */
  runUntil(atMs: number): void {
    for (let first = this.#heap[0]; first !== undefined && first.atMs <= atMs; first = this.#heap[0]) {
      this.#takeFirst();
      first.run();
    }
  }

  #takeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let place = 0;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= heap.length) break;
      const other = heap[child + 1];
      if (other !== undefined && isBefore(other, heap[child] as Due)) child += 1;
      if (isBefore(last, heap[child] as Due)) break;
      heap[place] = heap[child] as Due;
      place = child;
    }
    heap[place] = last;
  }
}

function isBefore(a: Due, b: Due): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.turn < b.turn);
}
