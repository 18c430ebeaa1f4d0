/**
 * The first choice of most reads without a look at every node. All trusted nodes hold the versions between the highest of
 * their edges and the lowest of their heads, so `pick` draws two of the same nodes for each of these versions. A shortlist
 * names these nodes for some ms; only the two that are drawn are scored, as of now. So the cost of a read does not grow
 * with the fleet.
 */
import type { PlaceKind } from '../node/limits.ts';
import type { Unit } from '../node/retention-window.ts';
import { candidatesOf, type FleetNodes, type Moment, NodeNow, type Upstream } from '../node/upstream.ts';
import { type Choice, shallowest, twoOf } from './pick.ts';
import {
  type Candidate,
  isAskable,
  type Need,
  type PositionedNeed,
  prunedBelow,
  type ReadClass,
  readClassOf,
  score,
  trustRank,
  unitOf,
} from './ranking.ts';

/** The nodes that are as good for every position from `from` to `to`. */
interface Shortlist {
  readonly nodes: readonly Upstream[];
  readonly tier: Candidate['tier'];
  readonly from: bigint;
  readonly to: bigint;
}

/** A summary of the fleet, until `untilMs` and as long as the fleet has these nodes. */
interface Kept<T> {
  readonly value: T;
  readonly upstreams: readonly Upstream[];
  readonly untilMs: number;
}

/** The time that the view of a window is kept (`RetentionWindow.around`). */
const keptMs = 5;

/** First choices among the nodes of one fleet. */
export class FirstChoices {
  readonly #fleet: FleetNodes;
  readonly #random: () => number;
  readonly #lists: Readonly<Record<Unit, Map<ReadClass | undefined, Kept<Shortlist | undefined>>>> = {
    versions: new Map(),
    blocks: new Map(),
  };
  readonly #edges = new Map<Unit, Kept<bigint>>();

  /** `random`: a number in [0, 1). */
  constructor(fleet: FleetNodes, random: () => number = Math.random) {
    this.#fleet = fleet;
    this.#random = random;
  }

  /**
   * A node with a free place that `pick` could choose first. `undefined`: a node that was drawn is not as good as the
   * others, or has no place, or none is on the shortlist, so all nodes have to be compared.
   */
  find(
    need: PositionedNeed,
    readClass: ReadClass | undefined,
    kind: PlaceKind,
    nowMs: number,
  ): Choice<Upstream> | undefined {
    const position = need.kind === 'block' ? need.height : need.version;
    const list = this.#listAt(need, readClass, nowMs);
    if (list === undefined || position < list.from || position > list.to) return undefined;
    const { nodes, tier } = list;
    const moment = { fleet: this.#fleet, nowMs, need, readClass, kind };
    const [one, other] = twoOf(nodes.length, this.#random);
    const first = fitAt(nodes[one], moment);
    const second = other === one ? first : fitAt(nodes[other], moment);
    if (first === undefined || second === undefined) return undefined;
    const node = second.cost < first.cost ? second : first;
    return { node, isFree: true, alike: [node], tier };
  }

  /** The class of a read, by the nodes' reports. */
  classOf(need: Need, isView: boolean, nowMs: number): ReadClass {
    const unit = unitOf(need);
    const kept = this.#findKept(this.#edges, unit, nowMs);
    const edge = kept ?? this.#keep(this.#edges, unit, nowMs, prunedBelow(this.#fleet.upstreams, unit, nowMs));
    return readClassOf(need, isView, edge.value);
  }

  #listAt(need: Need, readClass: ReadClass | undefined, nowMs: number): Shortlist | undefined {
    const lists = this.#lists[unitOf(need)];
    const kept = this.#findKept(lists, readClass, nowMs);
    if (kept !== undefined) return kept.value;
    return this.#keep(lists, readClass, nowMs, shortlistOf(candidatesOf(this.#fleet, nowMs, need, readClass))).value;
  }

  #findKept<K, T>(all: ReadonlyMap<K, Kept<T>>, key: K, nowMs: number): Kept<T> | undefined {
    const kept = all.get(key);
    return kept !== undefined && nowMs < kept.untilMs && kept.upstreams === this.#fleet.upstreams ? kept : undefined;
  }

  #keep<K, T>(all: Map<K, Kept<T>>, key: K, nowMs: number, value: T): Kept<T> {
    const kept = { value, upstreams: this.#fleet.upstreams, untilMs: nowMs + keptMs };
    all.set(key, kept);
    return kept;
  }
}

/** The node as a candidate, if it is trusted, surely holds the position and has a place. */
function fitAt(upstream: Upstream | undefined, moment: Moment): Candidate<Upstream> | undefined {
  const node = upstream && new NodeNow(upstream, moment);
  const isFit = node?.isFull === false && score(node, { need: moment.need, isMissed: false, freshest: 0 }) === 0;
  return isFit ? node : undefined;
}

/** `undefined`: no position is held by all trusted nodes, or weights decide between them. */
function shortlistOf(candidates: readonly Candidate<Upstream>[]): Shortlist | undefined {
  const trusted = candidates.filter((node) => isAskable(node) && trustRank(node) === 0);
  const tier = trusted.some((node) => node.tier === 'full') ? 'full' : 'archival';
  let from = 0n;
  let to: bigint | undefined;
  for (const { window, weight } of trusted) {
    if (window === undefined || weight !== trusted[0]?.weight) return undefined;
    if (window.safeOldest > from) from = window.safeOldest;
    if (to === undefined || window.head < to) to = window.head;
  }
  if (to === undefined) return undefined;
  const nodes = shallowest(trusted.filter((node) => node.tier === tier)).map(({ upstream }) => upstream);
  return { nodes, tier, from, to };
}
