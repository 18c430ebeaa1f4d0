/** Moves of the nodes' oldest versions. Pruners work in small steps, so that the steps of a minute are one event. */
import type { StatusEvent } from './events.ts';

/** Steps within this time are one move. */
const togetherMs = 60_000;
/** Moves per node. */
const mostMoves = 3;

interface Move {
  readonly atMs: number;
  readonly from: bigint;
  readonly to: bigint;
  readonly steps: number;
}

/** Records the last moves of each node's oldest version. */
export class EdgeWatch {
  readonly #last = new Map<string, bigint>();
  readonly #moves = new Map<string, Move[]>();

  /** Called once a second with every node of the fleet; the moves of a missing node are dropped. */
  sample(nodes: readonly { readonly name: string; readonly oldest: bigint | undefined }[], nowMs: number): void {
    for (const { name, oldest } of nodes) {
      if (oldest === undefined) continue;
      const before = this.#last.get(name);
      this.#last.set(name, oldest);
      if (before !== undefined && before !== oldest) this.#moved(name, before, oldest, nowMs);
    }
    const names = new Set(nodes.map(({ name }) => name));
    for (const name of this.#last.keys()) {
      if (names.has(name)) continue;
      this.#last.delete(name);
      this.#moves.delete(name);
    }
  }

  /** The last moves of each node, oldest first. */
  get events(): readonly StatusEvent[] {
    return [...this.#moves].flatMap(([upstream, moves]) =>
      moves.map(({ atMs, from, to, steps }) => ({
        atMs,
        kind: 'edge moved' as const,
        fields: { upstream, from: String(from), to: String(to), steps: String(steps), versions: String(to - from) },
      })),
    );
  }

  #moved(name: string, from: bigint, to: bigint, nowMs: number): void {
    const moves = this.#moves.get(name) ?? [];
    const open = moves.at(-1);
    // An edge that goes back is a move of its own: the node was restored.
    const isSame = open !== undefined && nowMs - open.atMs < togetherMs && to > from === open.to > open.from;
    if (isSame) moves[moves.length - 1] = { ...open, to, steps: open.steps + 1 };
    else moves.push({ atMs: nowMs, from, to, steps: 1 });
    this.#moves.set(name, moves.slice(-mostMoves));
  }
}
