/** Lower edges of nodes, watched: a pruner works in steps, and what is told of them is a line a minute, not each step. */
import type { StatusEvent } from './events.ts';

/** Steps are told together for so long. */
const togetherMs = 60_000;
/** Moves that are remembered of one node. */
const mostMoves = 3;

interface Move {
  readonly atMs: number;
  readonly from: bigint;
  readonly to: bigint;
  readonly steps: number;
}

/** Remembers the last moves of each lower edge. */
export class EdgeWatch {
  readonly #last = new Map<string, bigint>();
  readonly #moves = new Map<string, Move[]>();

  /** To be called now and then, with every node of the fleet: one that is left out is forgotten. */
  look(nodes: readonly { readonly name: string; readonly oldest: bigint | undefined }[], nowMs: number): void {
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
    // An edge that goes back is another story: the node was restored.
    const isSame = open !== undefined && nowMs - open.atMs < togetherMs && to > from === open.to > open.from;
    if (isSame) moves[moves.length - 1] = { ...open, to, steps: open.steps + 1 };
    else moves.push({ atMs: nowMs, from, to, steps: 1 });
    this.#moves.set(name, moves.slice(-mostMoves));
  }
}
