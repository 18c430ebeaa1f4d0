/**
 * Applies a changed list of nodes at run time. A new node, or one with another address or tier, reports its ledger before
 * removed nodes leave; a removed node finishes its requests in flight, then its connections close.
 */
import type { Logger } from 'pino';
import type { Journal } from '../metrics/index.ts';
import { shownAddress, type NodeConfig } from './discovery.ts';
import type { SenderMetrics } from './dispatch/sender-metrics.ts';
import type { FleetState } from './fleet-state.ts';
import type { Prober, ProbeResult } from './node/probe.ts';
import type { Upstream } from './node/upstream.ts';
import type { UpstreamMetrics } from './upstream-metrics.ts';

interface NodesParts {
  readonly fleet: FleetState;
  readonly prober: Prober;
  readonly metrics: Pick<UpstreamMetrics, 'forgetUpstream'> & Pick<SenderMetrics, 'forgetEjections'>;
  readonly log: Logger;
  readonly journal: Journal;
  /** The nodes of the fleet, with their configs. */
  readonly configs: Map<Upstream, NodeConfig>;
  readonly create: (config: NodeConfig) => Upstream;
}

/** Longest wait for the first answers of new nodes. */
const firstLookMs = 700;
/** A queued request may still get a permit of a removed node for this long. */
const handedOutMs = 2_500;
const lookAgainMs = 100;
/** Answers still in flight after this are cut off. */
const longestMs = 300_000;

/** The nodes of the config, in the fleet or on their way out. */
export class Nodes {
  readonly #parts: NodesParts;
  /** Removed nodes, each with its timer that polls for idleness. */
  readonly #leaving = new Map<Upstream, NodeJS.Timeout>();

  constructor(parts: NodesParts) {
    this.#parts = parts;
  }

  /**
   * Resolves when the fleet is as `wanted`. Rejects without a change when none of these nodes is usable while one of the
   * present ones is: a wrong address must not cause an outage. One call at a time.
   */
  async follow(wanted: readonly NodeConfig[]): Promise<void> {
    const { fleet, prober, journal } = this.#parts;
    const before = fleet.upstreams;
    const added = new Map<Upstream, NodeConfig>();
    const configs = new Map<Upstream, NodeConfig>();
    const after = wanted.map((config) => {
      const known = before.find((upstream) => isSame(this.#parts.configs.get(upstream), config));
      const upstream = known ?? this.#parts.create(config);
      // The name is drained: another address or tier makes a new node of it.
      if (known === undefined)
        upstream.isDrained = before.some(({ name, isDrained }) => isDrained && name === config.name);
      if (known === undefined) added.set(upstream, config);
      configs.set(upstream, config);
      return upstream;
    });
    const results = await this.#lookAt([...added.keys()]);
    if (before.some(isUsable) && !after.some(isUsable) && ![...results.values()].some((found) => this.#isOurs(found))) {
      await Promise.all([...added.keys()].map((upstream) => upstream.close()));
      throw new Error('none of the upstreams answers as a node of this chain');
    }
    const gone = before.filter((upstream) => !after.includes(upstream));
    for (const [upstream, { maxRequestsPerSecond, weight }] of configs) {
      upstream.allowance.change(maxRequestsPerSecond, performance.now());
      upstream.weight = weight;
    }
    // New nodes join before old ones leave: the fleet always has a usable node.
    fleet.replace([...after, ...gone], performance.now());
    for (const [upstream, config] of added) {
      this.#parts.configs.set(upstream, config);
      const found = results.get(upstream);
      if (found !== undefined) prober.admit(upstream, found);
      void prober.add(upstream);
    }
    fleet.replace(after, performance.now());
    for (const upstream of gone) this.#release(upstream);
    if (added.size + gone.length === 0) return;
    const changed = { added: namesOf([...added.keys()]), removed: namesOf(gone) };
    // In the log alone: events hold no address.
    const addresses = [...added.values()].flatMap((config) => {
      const address = shownAddress(config);
      return address === undefined ? [] : [[config.name, address]];
    });
    const fields = addresses.length === 0 ? changed : { ...changed, addresses: Object.fromEntries(addresses) };
    journal.record('nodes changed', fields, 'nodes of the fleet changed');
  }

  /** The ledgers that new nodes report within `firstLookMs`. */
  async #lookAt(added: readonly Upstream[]): Promise<ReadonlyMap<Upstream, ProbeResult>> {
    const results = new Map<Upstream, ProbeResult>();
    await Promise.all(
      added.map(async (upstream) => {
        const found = await this.#parts.prober.peek(upstream, firstLookMs);
        if (found !== undefined) results.set(upstream, found);
      }),
    );
    return results;
  }

  #isOurs({ info }: ProbeResult): boolean {
    const { chainId } = this.#parts.fleet;
    return info !== undefined && (chainId === undefined || info.chainId === chainId);
  }

  /** Closes removed nodes at once. */
  async close(): Promise<void> {
    const leaving = [...this.#leaving];
    this.#leaving.clear();
    await Promise.all(
      leaving.map(async ([upstream, timer]) => {
        clearInterval(timer);
        await upstream.close();
      }),
    );
  }

  #release(upstream: Upstream): void {
    const releasedMs = performance.now();
    this.#parts.prober.remove(upstream);
    this.#parts.configs.delete(upstream);
    const timer = setInterval(() => {
      const sinceMs = performance.now() - releasedMs;
      const isIdle = upstream.inFlight === 0 && upstream.places.inFlight === 0;
      if (sinceMs < handedOutMs || (!isIdle && sinceMs < longestMs)) return;
      if (!isIdle)
        this.#parts.log.warn(
          { upstream: upstream.name },
          'removed upstream did not drain in time: its requests in flight are cut off',
        );
      clearInterval(timer);
      this.#leaving.delete(upstream);
      this.#end(upstream);
    }, lookAgainMs).unref();
    this.#leaving.set(upstream, timer);
  }

  #end(upstream: Upstream): void {
    const { name } = upstream;
    void upstream.close();
    // Another node of the same name still uses the metrics.
    const isUsed = [...this.#parts.fleet.upstreams, ...this.#leaving.keys()].some((other) => other.name === name);
    if (isUsed) return;
    this.#parts.metrics.forgetUpstream(name);
    this.#parts.metrics.forgetEjections(name);
  }
}

function isUsable({ health }: Upstream): boolean {
  return health === 'usable';
}

/** Any difference in its config makes a new node, except its allowance and weight; its place in the list does not. */
function isSame(one: NodeConfig | undefined, other: NodeConfig): boolean {
  return one !== undefined && identityOf(one) === identityOf(other);
}

function identityOf({ maxRequestsPerSecond: _, weight: _weight, ...identity }: NodeConfig): string {
  return JSON.stringify(identity);
}

function namesOf(upstreams: readonly Upstream[]): readonly string[] {
  return upstreams.map(({ name }) => name);
}
