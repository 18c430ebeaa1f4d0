/**
 * Compares the histories of nodes by their roots. The transaction at a version holds the root of the accumulator over
 * all transactions up to it, so two nodes with one root at a version agree on everything up to it. A version that a
 * node has not reached or has pruned gives no root, so nodes that lag, prune or are rebuilt are no fork. A clock asks
 * for comparisons, which find nodes with another history and bisect the difference to its first version; and so do
 * tiers whose answers outlive the process, by the root of their answers' history.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Journal } from '../metrics/index.ts';
import {
  type Agreement,
  agreementOf,
  type ForkRange,
  narrowed,
  nextComparison,
  type NodeRoot,
  voteOnRoots,
} from './contradictions.ts';
import type { FleetState } from './fleet-state.ts';
import type { Prober } from './node/probe.ts';
import type { Upstream } from './node/upstream.ts';

interface Root {
  readonly version: bigint;
  /** 64 digits in lower case, without `0x`. */
  readonly root: string;
}

/** Times of the comparisons by the clock, and the subscribers to their outcomes. */
export interface RootsOptions {
  readonly onChange: Journal['record'];
  /** Nodes are on a fork: answers of theirs may be in the cache. */
  readonly onFork: () => void;
  readonly intervalMs: number;
  /** Least milliseconds between two reads of one node during a bisection. */
  readonly pauseMs: number;
}

/** Comparisons of one bisection; with those before and after it, a node gets at most 30 reads. */
const mostComparisons = 28;
/** Nodes that are asked for the root at their head. */
const mostAsked = 3;

/** Compares the roots of a fleet's nodes, and marks those that are doubted (`Upstream.forkedAt`). */
export class Roots {
  readonly #fleet: FleetState;
  readonly #prober: Pick<Prober, 'ask'>;
  readonly #options: RootsOptions;
  readonly #stop = new AbortController();
  /** The newest version at which a node agreed with others: a bisection begins there. */
  readonly #agreedAt = new WeakMap<Upstream, bigint>();
  #comparisons = 0;

  constructor(fleet: FleetState, prober: Pick<Prober, 'ask'>, options: RootsOptions) {
    this.#fleet = fleet;
    this.#prober = prober;
    this.#options = options;
  }

  start(): void {
    void this.#run();
  }

  close(): void {
    this.#stop.abort(new Error('closing'));
  }

  async #run(): Promise<void> {
    while (await this.#pause(this.#options.intervalMs)) await this.compare();
  }

  /** Compares the nodes once, and bisects a new difference. Never rejects. */
  async compare(): Promise<void> {
    const { generation, upstreams } = this.#fleet;
    const nowMs = performance.now();
    const nodes = upstreams.filter((node) => node.isTrusted && node.head >= 0n && node.mayBeAskedMore(nowMs));
    // By turns at each node's head: every two nodes that hold a common version are compared.
    this.#comparisons += 1;
    const version = nodes[this.#comparisons % nodes.length]?.head;
    const marked = upstreams.filter(({ forkedAt, isDrained }) => forkedAt !== undefined && !isDrained);
    if (version === undefined) return;
    const holders = nodes.filter((node) => node.head >= version && oldestOf(node) <= version);
    if (holders.length < 2 && marked.length === 0) return;
    const reports = await this.#reportsAt(holders, version);
    if (generation !== this.#fleet.generation) return;
    const absent = marked.filter((node) => !reports.some((report) => report.node === node)).length;
    const { believed, doubted } = voteOnRoots(reports, absent);
    for (const node of believed) this.#believe(node, version);
    const one = reports.find(({ node }) => doubted.includes(node) && node.forkedAt === undefined);
    const other = reports.find(
      ({ node, root }) => root !== one?.root && !(doubted.includes(node) && believed.length > 0),
    );
    if (one === undefined || other === undefined) return;
    const found = await this.#bisect(one.node, other.node, version);
    if (found === undefined || generation !== this.#fleet.generation) return;
    // Without a most frequent root, either side may be right.
    const isDoubted = ({ node, root }: NodeRoot<Upstream>): boolean =>
      doubted.includes(node) && (root === one.root || (believed.length === 0 && root === other.root));
    const nodesToMark = reports.filter(isDoubted).map(({ node }) => node);
    this.#mark(nodesToMark, other.node, found);
  }

  /**
   * Reads the root at `known` from every usable node. `wantsNext`: first that at the second newest head, from the
   * freshest node that reports one. `next` is set only when that node then reports the root of `known`: both are of one
   * history. Never rejects.
   */
  async read(
    known: Root | undefined,
    wantsNext: boolean,
  ): Promise<{ readonly agreement: Agreement; readonly next: Root | undefined }> {
    const nodes = this.#fleet.upstreams.filter(({ isTrusted }) => isTrusted);
    const head = wantsNext ? await this.#findHead(nodes) : undefined;
    const next = head?.root;
    if (known === undefined) return { agreement: 'unknown', next };
    const reports = await this.#reportsAt(nodes, known.version);
    const agreement = agreementOf(
      known,
      nodes.map((node) => ({
        root: reports.find((report) => report.node === node)?.root,
        head: node.head,
        oldest: oldestOf(node),
      })),
    );
    const isProven = reports.some(({ node, root }) => node === head?.node && root === known.root);
    return { agreement, next: isProven ? next : undefined };
  }

  /**
   * The root at the second newest head, of the freshest node that reports one: a node without roots would stop every
   * checkpoint, and one above all others would set one that they never confirm.
   */
  async #findHead(nodes: readonly Upstream[]): Promise<{ readonly node: Upstream; readonly root: Root } | undefined> {
    const freshest = nodes
      .filter(({ head }) => head >= 0n)
      .sort((one, other) => Number(other.head > one.head) - Number(other.head < one.head));
    // All at one moment: nodes that hang together cost one timeout.
    const reports = await Promise.all(
      freshest.slice(0, mostAsked).map(async (node) => {
        const { confirmed = node.head } = this.#fleet.ledger;
        const version = confirmed < node.head ? confirmed : node.head;
        const [report] = await this.#reportsAt([node], version);
        return report && { node, root: { version, root: report.root } };
      }),
    );
    return reports.find((report) => report !== undefined);
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
    if (!(await this.#pause(this.#options.pauseMs))) return undefined;
    const roots = await Promise.all([one, other].map((node) => this.#rootAt(node, version)));
    if (roots.includes('pruned')) return 'pruned';
    if (roots.includes(undefined)) return undefined;
    return roots[0] === roots[1] ? 'same' : 'other';
  }

  async #reportsAt(nodes: readonly Upstream[], version: bigint): Promise<readonly NodeRoot<Upstream>[]> {
    const reports = nodes.map(async (node) => ({ node, root: await this.#rootAt(node, version) }));
    return (await Promise.all(reports)).flatMap(({ node, root }) =>
      root === undefined || root === 'pruned' ? [] : [{ node, root }],
    );
  }

  /** The node's root at `version`, 64 digits, or `pruned`; `undefined`: it reports none. Never rejects. */
  async #rootAt(upstream: Upstream, version: bigint): Promise<string | undefined> {
    const answer = await this.#prober.ask(upstream, `/transactions/by_version/${version}`).catch(() => undefined);
    if (answer?.status === 410) return 'pruned';
    if (answer?.status !== 200 || !answer.json.isJson) return undefined;
    const { version: reported, accumulator_root_hash: root } = answer.json.members;
    if (reported !== String(version) || typeof root !== 'string') return undefined;
    return /^0x([0-9a-f]{64})$/.exec(root)?.[1];
  }

  #believe(node: Upstream, version: bigint): void {
    if (node.forkedAt !== undefined && version < node.forkedAt) return;
    this.#agreedAt.set(node, version);
    if (node.forkedAt === undefined) return;
    node.forkedAt = undefined;
    const fields = { upstream: node.name, version };
    this.#options.onChange('fork over', fields, 'upstream has the history of the others again');
  }

  #mark(nodes: readonly Upstream[], other: Upstream, { from, differsAt }: ForkRange): void {
    for (const node of nodes) {
      if (node.forkedAt !== undefined) continue;
      node.forkedAt = from;
      const than = node === other ? nodes.find((each) => each !== node) : other;
      const fields = { upstream: node.name, other: than?.name, version: from, isExact: from === differsAt };
      this.#options.onChange('fork', fields, 'upstream has another history than others: its answers are not stored');
    }
    this.#options.onFork();
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
