/**
 * One node for each address of an upstream with `discover: dns`. The name is looked up again and again, and changes are
 * applied as a reload applies them. While a look-up fails, or finds no address, the nodes found before stay.
 */
import { hash } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { UpstreamConfig } from '../config/config.ts';
import type { UpstreamMetrics } from '../metrics/upstream-metrics.ts';
import type { Journal } from '../proxy/operations/status/events.ts';

/** A node: an upstream of the config, or one address of its name. */
export type NodeConfig = UpstreamConfig & { readonly address?: string };

/** The IP addresses of a host name, IPv4 and IPv6, without duplicates, in a stable order. Rejects when there is no answer. */
export type LookUp = (host: string) => Promise<readonly string[]>;

/** The addresses of host names. */
export type FoundAddresses = ReadonlyMap<string, readonly string[]>;

/** Series of metrics, connections and probes of each node are bounded by this. */
export const mostAddresses = 64;
/** A look-up counts as failed after this; it goes on, and the next one of the name waits for it. */
const longestLookUpMs = 5_000;

/**
 * Looks up by the system (getaddrinfo), as every connection does: with /etc/hosts and the search domains by which a pod
 * shortens the name of a Service. Queries of `resolve4` and `resolve6` have neither.
 */
export const lookUpBySystem: LookUp = async (host) => {
  const found = await lookup(host, { all: true });
  return [...new Set(found.map(({ address }) => address))].sort();
};

/** The names of the upstreams with `discover: dns`, looked up once. A name that fails, or is late, is left out. */
export async function lookUpNames(
  upstreams: readonly UpstreamConfig[],
  lookUp: LookUp,
  withinMs: number,
): Promise<FoundAddresses> {
  const found = new Map<string, readonly string[]>();
  const looks = upstreams.filter(isDiscovered).map(async (upstream) => {
    const host = hostOf(upstream);
    const addresses = await lookUp(host).catch(() => []);
    if (addresses.length > 0) found.set(host, addresses);
  });
  await Promise.race([Promise.all(looks), sleep(withinMs, undefined, { ref: false })]);
  return new Map(found);
}

/**
 * The nodes of these upstreams. A name holds a digest of the address: clients see names, and must not learn addresses.
 * An upstream without an address so far is one node, which is down with the reason of its connections.
 */
export function nodesOf(upstreams: readonly UpstreamConfig[], found: FoundAddresses): readonly NodeConfig[] {
  return upstreams.flatMap((upstream): readonly NodeConfig[] => {
    const addresses = isDiscovered(upstream) ? found.get(hostOf(upstream)) : undefined;
    if (addresses === undefined) return [upstream];
    return addresses.slice(0, mostAddresses).map((address) => nodeAt(upstream, address));
  });
}

function nodeAt(upstream: UpstreamConfig, address: string): NodeConfig {
  return { ...upstream, name: `${upstream.name}-${hash('sha256', address, 'hex').slice(0, 6)}`, address };
}

interface DiscoveryParts {
  readonly lookUp: LookUp;
  /** The addresses that the nodes of the start were made of. */
  readonly found: FoundAddresses;
  /** Read at each use, so it may change. */
  readonly settings: { readonly intervalMs: number };
  readonly journal: Pick<Journal, 'record'>;
  readonly metrics: Pick<UpstreamMetrics, 'nodesNotFound' | 'forgetDiscovery'>;
  /** Makes these nodes the fleet (`Nodes.follow`). One call at a time. */
  readonly follow: (nodes: readonly NodeConfig[]) => Promise<void>;
}

/** Keeps the nodes of the fleet as config and DNS have them. */
export class Discovery {
  readonly #parts: DiscoveryParts;
  #upstreams: readonly UpstreamConfig[];
  readonly #found: Map<string, readonly string[]>;
  readonly #lookUps = new Map<string, Promise<readonly string[]>>();
  /** The logged fault of each upstream, by its name. */
  readonly #faults = new Map<string, string>();
  /** The nodes of the fleet, as JSON. */
  #followed: string;
  #last: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(upstreams: readonly UpstreamConfig[], parts: DiscoveryParts) {
    this.#upstreams = upstreams;
    this.#found = new Map(parts.found);
    this.#followed = JSON.stringify(nodesOf(upstreams, parts.found));
    this.#parts = parts;
  }

  /** Logs the addresses of the nodes, and looks their names up at intervals, at once after a look-up that failed. */
  start(): void {
    for (const node of nodesOf(this.#discovered, this.#found)) {
      const { name: upstream, address } = node;
      if (address !== undefined)
        this.#parts.journal.record('node found', { upstream, address }, 'a node was found by its name');
    }
    const isComplete = this.#discovered.every((upstream) => this.#found.has(hostOf(upstream)));
    this.#schedule(isComplete ? this.#parts.settings.intervalMs : 0);
  }

  /** Follows the upstreams of another config, with the addresses that are known. Rejects as `Nodes.follow` does. */
  follow(upstreams: readonly UpstreamConfig[]): Promise<void> {
    return this.#enqueue(async () => {
      this.#upstreams = upstreams;
      const discovered = this.#discovered;
      const hosts = new Set(discovered.map(hostOf));
      for (const host of this.#found.keys()) if (!hosts.has(host)) this.#found.delete(host);
      for (const name of this.#faults.keys()) {
        if (discovered.some((upstream) => upstream.name === name)) continue;
        this.#faults.delete(name);
        this.#parts.metrics.forgetDiscovery(name);
      }
      const isNew = (upstream: UpstreamConfig): boolean => !this.#found.has(hostOf(upstream));
      await Promise.all(discovered.filter(isNew).map((upstream) => this.#lookUp(hostOf(upstream))));
      await this.#apply();
    });
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  get #discovered(): readonly UpstreamConfig[] {
    return this.#upstreams.filter(isDiscovered);
  }

  #enqueue(run: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(run, run);
    return this.#last;
  }

  #schedule(afterMs: number): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => {
      void this.#enqueue(() => this.#round()).finally(() => this.#schedule(this.#parts.settings.intervalMs));
    }, afterMs).unref();
  }

  async #round(): Promise<void> {
    const discovered = this.#discovered;
    if (discovered.length === 0 || this.#isClosed) return;
    const faults = await Promise.all(discovered.map((upstream) => this.#lookUp(hostOf(upstream))));
    const isApplied = await this.#apply().then(
      () => true,
      () => false,
    );
    for (const [index, upstream] of discovered.entries()) {
      this.#note(upstream, faults[index] ?? (isApplied ? undefined : 'none of the nodes that were found answers'));
    }
  }

  /** Replaces the nodes of the fleet when they have changed. */
  async #apply(): Promise<void> {
    const nodes = nodesOf(this.#upstreams, this.#found);
    const text = JSON.stringify(nodes);
    if (text === this.#followed || this.#isClosed) return;
    await this.#parts.follow(nodes);
    this.#followed = text;
  }

  /** Looks the host up; on a failure the addresses found before stay. Returns the fault, and never rejects. */
  async #lookUp(host: string): Promise<string | undefined> {
    const addresses = await this.#addressesOf(host).catch(() => undefined);
    if (addresses === undefined) return 'the look-up of its name fails';
    if (addresses.length === 0) return 'its name has no address';
    this.#found.set(host, addresses);
    return addresses.length > mostAddresses ? `its name has more than ${mostAddresses} addresses` : undefined;
  }

  /** The addresses of a host; concurrent callers share one look-up. */
  #addressesOf(host: string): Promise<readonly string[]> {
    const running = this.#lookUps.get(host) ?? this.#parts.lookUp(host).finally(() => this.#lookUps.delete(host));
    this.#lookUps.set(host, running);
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error('no answer in time')), longestLookUpMs);
    return Promise.race([running, late.promise]).finally(() => clearTimeout(timer));
  }

  /** Counts a failure, and logs the first of its kind and the end of failures. */
  #note({ name: upstream }: UpstreamConfig, reason: string | undefined): void {
    const { metrics, journal } = this.#parts;
    const before = this.#faults.get(upstream);
    if (reason !== undefined) metrics.nodesNotFound(upstream);
    if (reason === before) return;
    if (reason === undefined) {
      this.#faults.delete(upstream);
      journal.record('nodes found', { upstream }, 'the nodes of an upstream are found again');
    } else {
      this.#faults.set(upstream, reason);
      journal.record('nodes not found', { upstream, reason }, 'nodes of an upstream are not found: those before stay');
    }
  }
}

function isDiscovered({ discover }: UpstreamConfig): boolean {
  return discover === 'dns';
}

function hostOf({ url }: UpstreamConfig): string {
  return new URL(url).hostname;
}
