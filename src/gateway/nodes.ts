/**
 * Makes the fleet what the config lists, while it runs. A node that is new, or has another address or tier, is asked for
 * its ledger before one that goes is let go; one that goes finishes what it was sent, and then its connections close.
 */
import type { Logger } from 'pino';
import type { UpstreamConfig } from '../config/config.ts';
import type { SenderMetrics } from '../metrics/sender-metrics.ts';
import type { UpstreamMetrics } from '../metrics/upstream-metrics.ts';
import type { Journal } from '../proxy/operations/status/events.ts';
import type { Fleet } from '../upstream/fleet.ts';
import type { Finding, Prober } from '../upstream/node/probe.ts';
import type { Upstream } from '../upstream/node/upstream.ts';

export interface NodesParts {
  readonly fleet: Fleet;
  readonly prober: Prober;
  readonly metrics: Pick<UpstreamMetrics, 'forgetUpstream'> & Pick<SenderMetrics, 'forgetEjections'>;
  readonly log: Logger;
  readonly journal: Journal;
  /** Those of the fleet, by what the config said of them. */
  readonly configs: ReadonlyMap<Upstream, UpstreamConfig>;
  readonly create: (config: UpstreamConfig) => Upstream;
}

/** First answers of new nodes are waited for so long before the old ones are let go. */
const firstLookMs = 700;
/** Who waits in turn for a place at a node may be given one for as long after it was taken out. */
const handedOutMs = 2_500;
const lookAgainMs = 100;
/** Answers that are still being handed on then are cut off. */
const longestMs = 300_000;

export class Nodes {
  readonly #parts: NodesParts;
  readonly #configs: Map<Upstream, UpstreamConfig>;
  /** Taken out, with the timer that looks whether they are done. */
  readonly #leaving = new Map<Upstream, NodeJS.Timeout>();

  constructor(parts: NodesParts) {
    this.#parts = parts;
    this.#configs = new Map(parts.configs);
  }

  /**
   * Resolves when the fleet is as `wanted`. Rejects, and leaves it as it was, when none of these nodes can be asked
   * while one of before can: a wrong address must not end what works. Not to be called again before.
   */
  async follow(wanted: readonly UpstreamConfig[]): Promise<void> {
    const { fleet, prober, journal } = this.#parts;
    const before = fleet.upstreams;
    const added = new Map<Upstream, UpstreamConfig>();
    const after = wanted.map((config) => {
      const known = before.find((upstream) => isSame(this.#configs.get(upstream), config));
      const upstream = known ?? this.#parts.create(config);
      if (known === undefined) added.set(upstream, config);
      return upstream;
    });
    const findings = await this.#lookAt([...added.keys()]);
    if (
      before.some(isUsable) &&
      !after.some(isUsable) &&
      ![...findings.values()].some((found) => this.#isOurs(found))
    ) {
      await Promise.all([...added.keys()].map((upstream) => upstream.close()));
      throw new Error('none of the upstreams answers as a node of this chain');
    }
    const gone = before.filter((upstream) => !after.includes(upstream));
    // The new ones speak first, so that there is never a fleet of which nobody can be asked.
    fleet.replace([...after, ...gone], performance.now());
    for (const [upstream, config] of added) {
      this.#configs.set(upstream, config);
      const found = findings.get(upstream);
      if (found !== undefined) prober.hear(upstream, found);
      void prober.add(upstream);
    }
    fleet.replace(after, performance.now());
    for (const upstream of gone) this.#release(upstream);
    if (added.size + gone.length === 0) return;
    const changed = { added: namesOf([...added.keys()]), removed: namesOf(gone) };
    journal.tell('nodes changed', changed, 'the nodes of the fleet have changed');
  }

  /** What nodes that are not of the fleet yet say of their ledgers, if they do so at once. */
  async #lookAt(added: readonly Upstream[]): Promise<ReadonlyMap<Upstream, Finding>> {
    const findings = new Map<Upstream, Finding>();
    await Promise.all(
      added.map(async (upstream) => {
        const found = await this.#parts.prober.peek(upstream, firstLookMs);
        if (found !== undefined) findings.set(upstream, found);
      }),
    );
    return findings;
  }

  #isOurs({ info }: Finding): boolean {
    const { chainId } = this.#parts.fleet;
    return info !== undefined && (chainId === undefined || info.chainId === chainId);
  }

  /** Ends what nodes that were taken out still do. */
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
    this.#configs.delete(upstream);
    const timer = setInterval(() => {
      const sinceMs = performance.now() - releasedMs;
      const isIdle = upstream.inFlight === 0 && upstream.places.inFlight === 0;
      if (sinceMs < handedOutMs || (!isIdle && sinceMs < longestMs)) return;
      if (!isIdle) this.#parts.log.warn({ upstream: upstream.name }, 'a removed upstream did not finish in time');
      clearInterval(timer);
      this.#leaving.delete(upstream);
      this.#end(upstream);
    }, lookAgainMs);
    timer.unref();
    this.#leaving.set(upstream, timer);
  }

  #end(upstream: Upstream): void {
    const { name } = upstream;
    void upstream.close();
    // One of the same name has taken its place, or is about to go itself.
    const isUsed = [...this.#parts.fleet.upstreams, ...this.#leaving.keys()].some((other) => other.name === name);
    if (isUsed) return;
    this.#parts.metrics.forgetUpstream(name);
    this.#parts.metrics.forgetEjections(name);
  }
}

function isUsable({ health }: Upstream): boolean {
  return health === 'usable';
}

/** Whatever the config says of a node makes it another one, but for its place in the list. */
function isSame(one: UpstreamConfig | undefined, other: UpstreamConfig): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function namesOf(upstreams: readonly Upstream[]): readonly string[] {
  return upstreams.map(({ name }) => name);
}
