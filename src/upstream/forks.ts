/**
 * Finds nodes with another history. At intervals, all nodes that hold one committed version report their root there:
 * equal roots mean equal histories. A difference is bisected to the first version that differs. A version that a node has
 * not reached or has pruned gives no root, so nodes that lag, prune or are rebuilt are no fork.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { FleetState } from './fleet-state.ts';
import { narrowed, nextComparison, voteOnRoots, type ForkRange, type NodeRoot } from './contradictions.ts';
import type { Upstream } from './node/upstream.ts';
import type { Witness } from './witness.ts';

/** A change of the nodes on forks. */
export type ForkChange = 'fork' | 'fork over';

/** Parts of a `Forks`. */
export interface ForksParts {
  readonly fleet: Pick<FleetState, 'upstreams' | 'generation'>;
  readonly witness: Pick<Witness, 'rootAt'>;
  readonly onChange: (change: ForkChange, fields: object, message: string) => void;
  /** Nodes are on a fork: answers of theirs may be in the cache. */
  readonly onFork: () => void;
  /** Milliseconds between two comparisons of the fleet. */
  readonly intervalMs: number;
  /** Least milliseconds between two reads of one node during a bisection. */
  readonly pauseMs: number;
}

/** Comparisons of one bisection; with those before and after it, a node gets at most 30 reads. */
const mostComparisons = 28;

/** Compares the histories of a fleet's nodes, and marks those that are doubted (`Upstream.forkedAt`). */
export class Forks {
  readonly #parts: ForksParts;
  readonly #stop = new AbortController();
  /** The newest version at which a node agreed with others: a bisection begins there. */
  readonly #agreedAt = new WeakMap<Upstream, bigint>();
  #turn = 0;

  constructor(parts: ForksParts) {
    this.#parts = parts;
  }

  /** Compares at intervals, until `close`. */
  start(): void {
    void this.#run();
  }

  close(): void {
    this.#stop.abort(new Error('closing'));
  }

  async #run(): Promise<void> {
    while (await this.#pause(this.#parts.intervalMs)) await this.compare();
  }

  /** Compares the nodes once, and bisects a new difference. Never rejects. */
  async compare(): Promise<void> {
    const { fleet } = this.#parts;
    const { generation } = fleet;
    const nowMs = performance.now();
    const nodes = fleet.upstreams.filter((node) => node.isTrusted && node.head >= 0n && node.mayBeAskedMore(nowMs));
    // By turns at each node's head: every two nodes that hold a common version are compared.
    this.#turn += 1;
    const version = nodes[this.#turn % nodes.length]?.head;
    const marked = fleet.upstreams.filter(({ forkedAt, isDrained }) => forkedAt !== undefined && !isDrained);
    if (version === undefined) return;
    const holders = nodes.filter((node) => node.head >= version && oldestOf(node) <= version);
    if (holders.length < 2 && marked.length === 0) return;
    const reports = await this.#rootsAt(holders, version);
    if (generation !== fleet.generation) return;
    const absent = marked.filter((node) => !reports.some((report) => report.node === node)).length;
    const { believed, doubted } = voteOnRoots(reports, absent);
    for (const node of believed) this.#believe(node, version);
    const one = doubted.find(({ forkedAt }) => forkedAt === undefined);
    const rootOfOne = reports.find(({ node }) => node === one)?.root;
    const other = reports.find(
      ({ node, root }) => root !== rootOfOne && !(doubted.includes(node) && believed.length > 0),
    );
    if (one === undefined || other === undefined) return;
    const found = await this.#bisect(one, other.node, version);
    if (found === undefined || generation !== fleet.generation) return;
    // Without a most frequent root, either side may be right.
    const isDoubted = ({ node, root }: NodeRoot<Upstream>) =>
      doubted.includes(node) && (root === rootOfOne || (believed.length === 0 && root === other.root));
    this.#mark(
      reports.filter(isDoubted).map(({ node }) => node),
      other.node,
      found,
    );
  }

  /** The first version at which two nodes differ; `undefined`: a node gave no root, or they agree after all. */
  async #bisect(one: Upstream, other: Upstream, differsAt: bigint): Promise<ForkRange | undefined> {
    let range: ForkRange = { from: larger(oldestOf(one), oldestOf(other)), differsAt };
    let hint: bigint | undefined = smaller(this.#agreedAt.get(one) ?? -1n, this.#agreedAt.get(other) ?? -1n);
    for (let compared = 0; compared < mostComparisons; compared += 1) {
      const version = nextComparison(range, hint);
      if (version === undefined) break;
      hint = undefined;
      const found = await this.#compareAt(one, other, version);
      if (found === undefined) return undefined;
      range = narrowed(range, version, found);
    }
    // A node may have been rebuilt meanwhile.
    return (await this.#compareAt(one, other, range.differsAt)) === 'other' ? range : undefined;
  }

  async #compareAt(one: Upstream, other: Upstream, version: bigint): Promise<'same' | 'other' | 'pruned' | undefined> {
    if (!(await this.#pause(this.#parts.pauseMs))) return undefined;
    const { witness } = this.#parts;
    const roots = await Promise.all([one, other].map((node) => witness.rootAt(node, version)));
    if (roots.includes('pruned')) return 'pruned';
    if (roots.includes(undefined)) return undefined;
    return roots[0] === roots[1] ? 'same' : 'other';
  }

  async #rootsAt(nodes: readonly Upstream[], version: bigint): Promise<readonly NodeRoot<Upstream>[]> {
    const reports = nodes.map(async (node) => ({ node, root: await this.#parts.witness.rootAt(node, version) }));
    return (await Promise.all(reports)).flatMap(({ node, root }) =>
      root === undefined || root === 'pruned' ? [] : [{ node, root }],
    );
  }

  #believe(node: Upstream, version: bigint): void {
    if (node.forkedAt !== undefined && version < node.forkedAt) return;
    this.#agreedAt.set(node, version);
    if (node.forkedAt === undefined) return;
    node.forkedAt = undefined;
    this.#parts.onChange('fork over', { upstream: node.name, version }, 'upstream has the history of the others again');
  }

  #mark(nodes: readonly Upstream[], other: Upstream, { from, differsAt }: ForkRange): void {
    for (const node of nodes) {
      if (node.forkedAt !== undefined) continue;
      node.forkedAt = from;
      const than = node === other ? nodes.find((each) => each !== node) : other;
      const fields = { upstream: node.name, other: than?.name, version: from, isExact: from === differsAt };
      this.#parts.onChange('fork', fields, 'upstream has another history than others: its answers are not stored');
    }
    this.#parts.onFork();
  }

  /** Resolves after `ms` with true, or at the end with false. */
  async #pause(ms: number): Promise<boolean> {
    const { signal } = this.#stop;
    await sleep(ms, undefined, { signal, ref: false }).catch(() => undefined);
    return !signal.aborted;
  }
}

function oldestOf({ window }: Upstream): bigint {
  return window.info?.oldestVersion ?? 0n;
}

function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
