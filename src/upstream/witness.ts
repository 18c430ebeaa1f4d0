/**
 * Compares the histories of nodes. The transaction at a version holds the root of the accumulator over all transactions
 * up to it (`accumulator_root_hash`), so two nodes with the same root at a version agree on everything up to it.
 */
import type { NodeAnswer } from './dispatch/exchange.ts';
import type { FleetState } from './fleet-state.ts';
import type { Prober } from './node/probe.ts';
import type { Upstream } from './node/upstream.ts';

/** The root of the accumulator at a version. */
export interface Root {
  readonly version: bigint;
  /** 64 digits in lower case, without `0x`. */
  readonly root: string;
}

/**
 * The agreement of nodes on a root. `same`: a node reports it, and none reports another. `other`: every node reports
 * another. `pruned`: no node reports one, and one holds nothing that old.
 */
export type Agreement = 'same' | 'other' | 'mixed' | 'pruned' | 'unknown';

/** Nodes that are asked for the root at their head. */
const mostAsked = 3;

/** Reads roots from the nodes of a fleet. */
export class Witness {
  readonly #fleet: FleetState;
  readonly #prober: Pick<Prober, 'ask'>;

  constructor(fleet: FleetState, prober: Pick<Prober, 'ask'>) {
    this.#fleet = fleet;
    this.#prober = prober;
  }

  /**
   * Reads the root at `known` from every usable node. `wantsNext`: first reads the root at the second newest head, of the
   * freshest node that reports one. `next` is set only when that node then reports the root of `known`: both are of one history. Never
   * rejects.
   */
  async look(
    known: Root | undefined,
    wantsNext: boolean,
  ): Promise<{ readonly agreement: Agreement; readonly next: Root | undefined }> {
    const nodes = this.#fleet.upstreams.filter(({ isTrusted }) => isTrusted);
    const head = wantsNext ? await this.#findHead(nodes) : undefined;
    const next = head?.root;
    if (known === undefined) return { agreement: 'unknown', next };
    const reports = await Promise.all(
      nodes.map(async (node) => ({
        isFirst: node === head?.node,
        root: await this.#rootAt(node, known.version),
        head: node.head,
        oldest: node.window.info?.oldestVersion ?? 0n,
      })),
    );
    const isProven = reports.some((node) => node.isFirst && node.root === known.root);
    return { agreement: agreementOf(known, reports), next: isProven ? next : undefined };
  }

  /**
   * The root at the second newest head, of the freshest node that reports one: a node without roots would stop every
   * checkpoint, and one above all others would set one that they never confirm.
   */
  async #findHead(nodes: readonly Upstream[]): Promise<{ readonly node: Upstream; readonly root: Root } | undefined> {
    const reported = nodes.filter(({ window }) => window.info !== undefined);
    const freshest = reported.sort((one, other) => Number(other.head > one.head) - Number(other.head < one.head));
    // All at one moment: nodes that hang together cost one timeout.
    const heads = await Promise.all(
      freshest.slice(0, mostAsked).map(async (node) => {
        const { confirmed = node.head } = this.#fleet.ledger;
        const version = confirmed < node.head ? confirmed : node.head;
        return { node, version, root: await this.#rootAt(node, version) };
      }),
    );
    for (const { node, version, root } of heads) if (root !== undefined) return { node, root: { version, root } };
    return undefined;
  }

  /** The node's root at `version`, 64 digits, or `pruned`; `undefined`: it reports none. Never rejects. */
  async rootAt(upstream: Upstream, version: bigint): Promise<string | undefined> {
    const path = `/transactions/by_version/${version}`;
    const answer = await this.#prober.ask(upstream, path).catch(() => undefined);
    return answer?.status === 410 ? 'pruned' : findRoot(answer, version);
  }

  async #rootAt(upstream: Upstream, version: bigint): Promise<string | undefined> {
    const root = await this.rootAt(upstream, version);
    return root === 'pruned' ? undefined : root;
  }
}

/** The part of one node in an agreement. */
export interface RootReport {
  /** The node's root at the version of `known`; `undefined`: it reports none. */
  readonly root: string | undefined;
  /** The newest version that the node has reported, and the oldest that it holds. */
  readonly head: bigint;
  readonly oldest: bigint;
}

/** The agreement on `known` after these reports. */
export function agreementOf(known: Root, reports: readonly RootReport[]): Agreement {
  const isConfirmed = reports.some(({ root }) => root === known.root);
  const isDenied = reports.some(({ root }) => root !== undefined && root !== known.root);
  if (isConfirmed) return isDenied ? 'mixed' : 'same';
  const silent = reports.filter(({ root }) => root === undefined);
  // A silent node may confirm the root yet; a node that is behind, or has pruned the version, cannot.
  const isOpen = silent.some(({ head, oldest }) => head >= known.version && oldest <= known.version);
  if (isDenied) return isOpen ? 'unknown' : 'other';
  return silent.some(({ oldest }) => oldest > known.version) ? 'pruned' : 'unknown';
}

function findRoot(answer: NodeAnswer | undefined, version: bigint): string | undefined {
  if (answer?.status !== 200 || !answer.json.isJson) return undefined;
  const { version: reports, accumulator_root_hash: root } = answer.json.members;
  if (reports !== String(version) || typeof root !== 'string') return undefined;
  return /^0x([0-9a-f]{64})$/.exec(root)?.[1];
}
