/** Kinds of reads that a node may do well or badly, each for itself: what it costs to answer them differs by far. */
import type { RetentionWindow } from './retention-window.ts';
import { positionOf, type Need } from './need.ts';
import { holdingOf } from './ranking.ts';
import type { Tier } from './upstream.ts';

/** `head`: of recent state. `archive`: of state that some full node has pruned. `view`: runs code a client chose. */
export type ReadClass = 'head' | 'archive' | 'view';

export const readClasses: readonly ReadClass[] = ['head', 'archive', 'view'];

/** What a node's depth is told by. */
interface Node {
  readonly tier: Tier;
  readonly window: Pick<RetentionWindow, 'around'>;
  latencyMs(nowMs: number): number;
}

/** The class of a read. Pure: of what is known of the nodes at `nowMs`. */
export function readClassOf(need: Need, isView: boolean, nodes: readonly Node[], nowMs: number): ReadClass {
  if (isView) return 'view';
  const position = positionOf(need);
  if (position === undefined) return 'head';
  const unit = need.kind === 'block' ? 'blocks' : 'versions';
  const isPruned = nodes.some((node) => {
    const { tier, window } = node;
    if (tier !== 'full') return false;
    const holding = holdingOf(window.around(nowMs + node.latencyMs(nowMs), unit), position);
    return holding === 'pruned' || holding === 'edge';
  });
  return isPruned ? 'archive' : 'head';
}
