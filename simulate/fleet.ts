/**
 * The nodes of one region in simulated time. Which is asked is the product's own choice (`selectUpstreams`), by windows
 * that it learned from answers (`RetentionWindow`); what they take is drawn.
 */
import type { LedgerInfo } from '../src/ledger/ledger-headers.ts';
import { RetentionWindow } from '../src/upstream/retention-window.ts';
import type { Need } from '../src/upstream/need.ts';
import { selectUpstreams } from '../src/upstream/candidates.ts';
import { headToleranceMs, type Candidate, type Tier } from '../src/upstream/ranking.ts';
import { exponential, type Random } from './random.ts';
import type { SimulatedLedger } from './ledger.ts';
import type { NodesShape, Shape } from './shape.ts';

/** An archive takes longer over its reads. */
const archivalTimes = 2;

interface SimulatedNode {
  readonly name: string;
  readonly tier: Tier;
  readonly lagMs: number;
  readonly window: RetentionWindow;
  readonly slower: number;
}

/** An answer that is on its way. */
export interface Asked {
  readonly endMs: number;
  readonly tier: Tier;
  /** What the node's headers tell. */
  readonly info: LedgerInfo;
  /** Nodes that were asked for it, those that did not have it included. */
  readonly calls: number;
}

export class SimulatedFleet {
  readonly #shape: NodesShape;
  readonly #ledger: SimulatedLedger;
  readonly #random: Random;
  readonly #nodes: readonly SimulatedNode[];
  readonly #versionsPerMs: number;

  constructor(
    { nodes, ledger: { blocksPerSecond, versionsPerBlock } }: Shape,
    ledger: SimulatedLedger,
    random: Random,
  ) {
    this.#shape = nodes;
    this.#ledger = ledger;
    this.#random = random;
    this.#versionsPerMs = (blocksPerSecond * versionsPerBlock) / 1000;
    const node = (tier: Tier, index: number): SimulatedNode => ({
      name: `${tier}-${index}`,
      tier,
      lagMs: nodes.lagMs * (1 + index / 3),
      window: new RetentionWindow(),
      slower: tier === 'archival' ? archivalTimes : 1,
    });
    this.#nodes = [
      ...Array.from({ length: nodes.full }, (_, index) => node('full', index)),
      ...Array.from({ length: nodes.archival }, (_, index) => node('archival', index)),
    ];
  }

  /** Asks for the state after a block; `undefined`: for the newest there is. */
  ask(atMs: number, block?: number): Asked {
    const need: Need =
      block === undefined ? { kind: 'head' } : { kind: 'version', version: this.#ledger.versionOf(block) };
    let startMs = atMs;
    let calls = 0;
    for (const node of this.#select(need, atMs)) {
      calls += 1;
      const half = (this.#shape.readMs * node.slower) / 2;
      const arrivalMs = startMs + half * 0.4;
      const endMs = startMs + half + exponential(this.#random()) * half;
      const info = this.#infoOf(node, arrivalMs);
      node.window.observe(info, endMs);
      if (block === undefined || this.#holds(node, block, arrivalMs)) {
        return { endMs, tier: node.tier, info, calls };
      }
      startMs = endMs;
    }
    // Nobody is there yet: the version is waited for, and read then.
    const [first] = this.#nodes;
    const reachedMs = Math.max(startMs, this.#visibleMs(block ?? 0, first));
    const info = this.#ledger.infoAt(block ?? 0, this.#ledger.oldestOf(block ?? 0));
    return { endMs: reachedMs + this.#shape.readMs, tier: 'full', info, calls: calls + 1 };
  }

  /** A look at the freshest node: its newest block, or, once it is there, `least`. */
  look(atMs: number, least: number): { readonly block: number; readonly endMs: number; readonly calls: number } {
    const [candidate] = this.#select({ kind: 'head' }, atMs);
    const node = this.#nodes.find(({ name }) => name === candidate?.name);
    const arrivalMs = atMs + this.#shape.lookMs / 2;
    const block = this.#ledger.blockAt(arrivalMs - (node?.lagMs ?? 0));
    node?.window.observe(this.#infoOf(node, arrivalMs), arrivalMs);
    if (block >= least) return { block, endMs: atMs + this.#shape.lookMs, calls: 1 };
    const [freshest] = this.#nodes;
    const reachedMs = Math.max(atMs + this.#shape.lookMs, this.#visibleMs(least, freshest));
    return { block: least, endMs: reachedMs + this.#shape.lookMs, calls: 2 };
  }

  /** When the freshest node has a block. */
  visibleMs(block: number): number {
    return this.#visibleMs(block, this.#nodes[0]);
  }

  #visibleMs(block: number, node: SimulatedNode | undefined): number {
    return this.#ledger.committedMs(block) + (node?.lagMs ?? 0);
  }

  #select(need: Need, atMs: number): SimulatedNode[] {
    const candidates = this.#nodes.map((node): Candidate & { readonly node: SimulatedNode } => {
      if (node.window.info === undefined || atMs - node.window.observedAtMs > this.#shape.probeMs) {
        node.window.observe(this.#infoOf(node, atMs), atMs);
      }
      return {
        name: node.name,
        tier: node.tier,
        health: 'usable',
        window: node.window.at(atMs + this.#shape.readMs / 2),
        cost: this.#shape.readMs * node.slower,
        headTolerance: headToleranceMs * this.#versionsPerMs,
        node,
      };
    });
    return selectUpstreams(candidates, need, this.#random).map(({ node }) => node);
  }

  #infoOf({ tier, lagMs }: SimulatedNode, atMs: number): LedgerInfo {
    const block = this.#ledger.blockAt(atMs - lagMs);
    return this.#ledger.infoAt(block, tier === 'archival' ? 0 : this.#ledger.oldestOf(block));
  }

  #holds(node: SimulatedNode, block: number, atMs: number): boolean {
    const newest = this.#ledger.blockAt(atMs - node.lagMs);
    return block <= newest && (node.tier === 'archival' || block >= this.#ledger.oldestOf(newest));
  }
}
