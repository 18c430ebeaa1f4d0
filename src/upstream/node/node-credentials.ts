/**
 * Headers and TLS of nodes, renewed while they serve. A node's new ones are tried by a look at its ledger info over a
 * connection of its own. A node that serves keeps the ones before until the trial succeeds, so neither a wrong secret nor
 * one that the node does not know yet takes it out; a node that does not serve gets the new ones at once.
 */
import { ClientTls, type TlsMaterial, type UpstreamConfig } from '../../config/index.ts';
import { Circuit } from '../../ledger/index.ts';
import type { Journal, Renewals } from '../../metrics/index.ts';
import type { NodeFault } from './node-fault.ts';
import type { NodeAccess, Upstream } from './upstream.ts';

/** A node: an upstream of the config, or one address of its name; '': the name has no address of a node. */
export type NodeConfig = UpstreamConfig & { readonly address?: string };

interface NodeCredentialsParts {
  readonly make: (config: NodeConfig, tls: TlsMaterial | undefined) => Upstream;
  /** Looks at a node outside of the fleet; resolves to the fault. Never rejects. */
  readonly tryOut: (upstream: Upstream, withinMs: number) => Promise<NodeFault | undefined>;
  readonly renewals: Renewals;
  readonly journal: Journal;
}

interface Kept {
  config: NodeConfig;
  files: ClientTls | undefined;
  /** Pauses between the trials of the last change: a trial of an earlier one is void. */
  trials: Circuit;
  again: NodeJS.Timeout | undefined;
}

const trialMs = 1_500;
const pauses = { firstMs: 1_000, longestMs: 5_000, calmMs: 0 };

/** The nodes of a fleet with their configs and credentials. */
export class NodeCredentials {
  readonly #parts: NodeCredentialsParts;
  readonly #nodes = new Map<Upstream, Kept>();

  constructor(parts: NodeCredentialsParts) {
    this.#parts = parts;
  }

  /** The config that the node has. */
  configOf(upstream: Upstream): NodeConfig | undefined {
    return this.#nodes.get(upstream)?.config;
  }

  /** Makes a node. Throws when its files cannot be used. `admit` or `release` follows. */
  create(config: NodeConfig): Upstream {
    const files = this.#open(config);
    const upstream = this.#parts.make(config, files?.material);
    this.#nodes.set(upstream, { config, files, trials: new Circuit(pauses), again: undefined });
    return upstream;
  }

  /** A node that was made joins the fleet. */
  admit(upstream: Upstream): void {
    const kept = this.#nodes.get(upstream);
    if (kept === undefined) return;
    this.#useFiles(upstream, kept);
    if (kept.config.headers !== undefined || kept.files !== undefined) this.#parts.renewals.add(upstream.name);
  }

  /**
   * Another config of the node, whose address and tier are the same. Throws when its files cannot be used, else returns the
   * function that takes it over, which resolves after the first trial.
   */
  prepare(upstream: Upstream, config: NodeConfig): () => Promise<void> {
    const kept = this.#nodes.get(upstream);
    if (kept === undefined) return () => Promise.resolve();
    const before = kept.config;
    const hasOtherFiles = JSON.stringify(before.tls) !== JSON.stringify(config.tls);
    const files = hasOtherFiles ? this.#open(config) : kept.files;
    return async () => {
      kept.config = config;
      if (!hasOtherFiles && JSON.stringify(before.headers) === JSON.stringify(config.headers)) return;
      if (hasOtherFiles) {
        kept.files?.close();
        kept.files = files;
        this.#useFiles(upstream, kept);
      }
      await this.#renew(upstream, kept);
    };
  }

  /** Ends the watch on the files of a node that has left the fleet. */
  release(upstream: Upstream): void {
    const kept = this.#nodes.get(upstream);
    if (kept === undefined) return;
    kept.trials = new Circuit(pauses);
    clearTimeout(kept.again);
    kept.files?.close();
    this.#nodes.delete(upstream);
    const isUsed = [...this.#nodes.keys()].some(({ name }) => name === upstream.name);
    if (!isUsed) this.#parts.renewals.forget(upstream.name);
  }

  close(): void {
    for (const upstream of this.#nodes.keys()) this.release(upstream);
  }

  #open({ name, tls }: NodeConfig): ClientTls | undefined {
    const { renewals, journal } = this.#parts;
    return tls && new ClientTls(tls, { toward: name, renewals, journal });
  }

  #useFiles(upstream: Upstream, kept: Kept): void {
    // A node of this name may have had some before.
    if (kept.files === undefined) this.#parts.renewals.useFiles(upstream.name);
    else kept.files.use(() => void this.#renew(upstream, kept));
  }

  #renew(upstream: Upstream, kept: Kept): Promise<void> {
    kept.trials = new Circuit(pauses);
    clearTimeout(kept.again);
    return this.#try(upstream, kept, kept.trials);
  }

  async #try(upstream: Upstream, kept: Kept, trials: Circuit): Promise<void> {
    const { make, tryOut, renewals } = this.#parts;
    const next: NodeAccess = { headers: kept.config.headers, tls: kept.files?.material };
    const trial = make(kept.config, next.tls);
    const fault = await tryOut(trial, trialMs);
    void trial.close();
    if (kept.trials !== trials) return;
    if (fault === undefined || upstream.health !== 'usable') {
      upstream.renew(next);
      renewals.take(upstream.name);
      return;
    }
    renewals.refuse(upstream.name, 'credentials', `a trial at the node fails: ${fault}`);
    const nowMs = performance.now();
    const pauseMs = trials.endTrial(false, nowMs) ?? trials.fail('trial', nowMs, nowMs);
    kept.again = setTimeout(() => void this.#try(upstream, kept, trials), pauseMs).unref();
  }
}
