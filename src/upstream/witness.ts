/**
 * Compares the histories that nodes are on. The transaction at a version holds the root of the accumulator over all
 * transactions up to there (`accumulator_root_hash`), so two nodes with the same root at a version agree on everything
 * up to it.
 */
import { Bound } from './bound.ts';
import { ByteBudget } from './byte-budget.ts';
import { fetchWhole, type NodeAnswer, type Progress } from './exchange.ts';
import type { Fleet } from './fleet.ts';
import { overLiveConnection } from './lost-connection.ts';
import type { Upstream } from './upstream.ts';

export interface Root {
  readonly version: bigint;
  /** 64 digits in lower case, without `0x`. */
  readonly root: string;
}

/** Of a root. `same`: a node reports it, and none reports another. `other`: every node reports another. */
export type Agreement = 'same' | 'other' | 'mixed' | 'unknown';

export interface WitnessOptions {
  /** Bound of one question, in milliseconds; read whenever it matters. */
  readonly timeoutMs: number;
}

/** The last transaction of a block is small; a head that is in a block's middle may be any transaction. */
const bodies = { largest: 1024 * 1024, all: 8 * 1024 * 1024 };

export class Witness {
  readonly #fleet: Fleet;
  readonly #options: WitnessOptions;
  readonly #stop = new AbortController();
  readonly #budget = new ByteBudget(bodies);

  constructor(fleet: Fleet, options: WitnessOptions) {
    this.#fleet = fleet;
    this.#options = options;
  }

  close(): void {
    this.#stop.abort(new Error('closing'));
  }

  /**
   * Reads the root at `known` from every usable node. `wantsNext`: reads the root at the head of the freshest node before
   * that. `next` is set only when that node reports the root of `known` afterwards: then both are of one history. Never
   * rejects.
   */
  async look(
    known: Root | undefined,
    wantsNext: boolean,
  ): Promise<{ readonly agreement: Agreement; readonly next: Root | undefined }> {
    const nodes = this.#fleet.upstreams.filter(({ health, isSuspect }) => health === 'usable' && !isSuspect);
    const { headSource } = this.#fleet;
    const first = headSource !== undefined && nodes.includes(headSource) ? headSource : nodes[0];
    const head = first?.window.info?.version;
    const ask = async (upstream: Upstream, version: bigint): Promise<string | undefined> =>
      findRoot(await this.#ask(upstream, version).catch(() => undefined), version);
    const root = wantsNext && first !== undefined && head !== undefined ? await ask(first, head) : undefined;
    const next = root === undefined || head === undefined ? undefined : { version: head, root };
    if (known === undefined) return { agreement: 'unknown', next };
    const reports = await Promise.all(
      nodes.map(async (node) => ({
        isFirst: node === first,
        root: await ask(node, known.version),
        head: node.window.info?.version ?? -1n,
      })),
    );
    const isProven = reports.some((node) => node.isFirst && node.root === known.root);
    return { agreement: agreementOf(known, reports), next: isProven ? next : undefined };
  }

  async #ask(upstream: Upstream, version: bigint): Promise<NodeAnswer> {
    const bound = new Bound(this.#stop.signal, this.#options.timeoutMs);
    const { signal } = bound;
    const progress: Progress = { sentAtMs: undefined, isAnswered: false };
    const context = { dialect: this.#fleet.dialect, signal, progress, budget: this.#budget };
    const path = `/transactions/by_version/${version}`;
    const wire = { method: 'GET', path, headers: { accept: 'application/json' } } as const;
    const exchange = (): Promise<NodeAnswer> => fetchWhole(upstream, wire, context, upstream.lookPool);
    try {
      return await overLiveConnection(exchange, progress, signal);
    } finally {
      bound.end();
    }
  }
}

/** `root`: of a node at the version of `known`; `undefined`: it reports none. `head`: the newest version it reported. */
export function agreementOf(
  known: Root,
  reports: readonly { readonly root: string | undefined; readonly head: bigint }[],
): Agreement {
  const isConfirmed = reports.some(({ root }) => root === known.root);
  const isDenied = reports.some(({ root }) => root !== undefined && root !== known.root);
  if (isConfirmed) return isDenied ? 'mixed' : 'same';
  // A node without an answer may confirm the root yet; a node that is behind has none.
  const isOpen = reports.some(({ root, head }) => root === undefined && head >= known.version);
  return isDenied && !isOpen ? 'other' : 'unknown';
}

function findRoot(answer: NodeAnswer | undefined, version: bigint): string | undefined {
  if (answer?.status !== 200 || !answer.json.isJson) return undefined;
  const { version: reports, accumulator_root_hash: root } = answer.json.members;
  if (reports !== String(version) || typeof root !== 'string') return undefined;
  return /^0x([0-9a-f]{64})$/.exec(root)?.[1];
}
