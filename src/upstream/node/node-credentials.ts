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

/** The parts of a node's config that are renewed. */
type RenewedConfig = Pick<UpstreamConfig, 'name' | 'headers' | 'tls'>;

interface NodeCredentialsParts<Node extends RenewedConfig> {
  readonly make: (config: Node, tls: TlsMaterial | undefined) => Upstream;
  /** Looks at the ledger info of a node outside of the fleet; resolves to the fault. Never rejects. */
  readonly tryOut: (upstream: Upstream, withinMs: number) => Promise<NodeFault | undefined>;
  readonly renewals: Renewals;
  readonly journal: Journal;
}

interface Kept<Node> {
  config: Node;
  files: ClientTls | undefined;
  /** Pauses between the trials of the last change: a trial of an earlier one is void. */
  trials: Circuit;
  again: NodeJS.Timeout | undefined;
}

const trialMs = 1_500;
const pauses = { firstMs: 1_000, longestMs: 5_000, calmMs: 0 };

/** The nodes of a fleet with their credentials. */
export class NodeCredentials<Node extends RenewedConfig> {
  readonly #parts: NodeCredentialsParts<Node>;
  readonly #nodes = new Map<Upstream, Kept<Node>>();

  constructor(parts: NodeCredentialsParts<Node>) {
    this.#parts = parts;
  }

  /** Makes a node. Throws when its files cannot be used. */
  create(config: Node): Upstream {
    const files = this.#open(config);
    const upstream = this.#parts.make(config, files?.material);
    const kept: Kept<Node> = { config, files, trials: new Circuit(pauses), again: undefined };
    this.#nodes.set(upstream, kept);
    files?.watch(() => void this.#renew(upstream, kept));
    if (config.headers !== undefined || files !== undefined) this.#parts.renewals.add(config.name);
    return upstream;
  }

  /**
   * Takes over another config of the node, whose headers and TLS alone differ. Resolves after the first trial. Throws when
   * its files cannot be used.
   */
  async follow(upstream: Upstream, config: Node): Promise<void> {
    const kept = this.#nodes.get(upstream);
    if (kept === undefined || accessOf(kept.config) === accessOf(config)) return;
    if (JSON.stringify(kept.config.tls) !== JSON.stringify(config.tls)) {
      const files = this.#open(config);
      if (files === undefined) this.#parts.renewals.useFiles(config.name);
      kept.files?.close();
      kept.files = files;
      files?.watch(() => void this.#renew(upstream, kept));
    }
    kept.config = config;
    await this.#renew(upstream, kept);
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

  #open({ name, tls }: Node): ClientTls | undefined {
    const { renewals, journal } = this.#parts;
    return tls && new ClientTls(tls, { toward: name, renewals, journal });
  }

  #renew(upstream: Upstream, kept: Kept<Node>): Promise<void> {
    kept.trials = new Circuit(pauses);
    clearTimeout(kept.again);
    return this.#try(upstream, kept, kept.trials);
  }

  async #try(upstream: Upstream, kept: Kept<Node>, trials: Circuit): Promise<void> {
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

function accessOf({ headers, tls }: RenewedConfig): string {
  return JSON.stringify([headers, tls]);
}
