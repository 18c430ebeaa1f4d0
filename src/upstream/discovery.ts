/**
 * One node for each address of an upstream with `discover: dns`. The name is looked up again and again, and changes are
 * applied as a reload applies them. While a look-up fails, or finds no address, the nodes found before stay.
 */
import { hash } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { isIP, isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config, UpstreamConfig } from '../config/index.ts';
import type { Journal } from '../metrics/index.ts';
import type { UpstreamMetrics } from './upstream-metrics.ts';

/** A node: an upstream of the config, or one address of its name; '': the name has no address of a node. */
export type NodeConfig = UpstreamConfig & { readonly address?: string };

/** The IP addresses of a host name, IPv4 and IPv6, without duplicates, in a stable order. Rejects when there is no answer. */
export type LookUp = (host: string) => Promise<readonly string[]>;

/** The addresses of nodes by origin, none of them the gateway's own. */
export type FoundAddresses = ReadonlyMap<string, readonly string[]>;

/** The place where the gateway itself listens. */
type Listening = Pick<Config['listen'], 'host' | 'port'>;

/** Series of metrics, connections and probes of each node are bounded by this. */
const mostAddresses = 64;
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
  { upstreams, listen }: Pick<Config, 'upstreams' | 'listen'>,
  lookUp: LookUp,
  withinMs: number,
): Promise<FoundAddresses> {
  const found = new Map<string, readonly string[]>();
  const looks = upstreams.filter(isDiscovered).map(async (upstream) => {
    const addresses = await lookUp(hostOf(upstream)).catch(() => []);
    if (addresses.length > 0) found.set(originOf(upstream), bounded(withoutOwn(addresses, upstream, listen)));
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
    const addresses = isDiscovered(upstream) ? found.get(originOf(upstream)) : undefined;
    if (addresses === undefined) return [upstream];
    // Over its name the gateway would ask itself.
    if (addresses.length === 0) return [{ ...upstream, address: '' }];
    return addresses.map((address) => nodeAt(upstream, address));
  });
}

/** The address of a node found by its name; `undefined` for any other. */
export function shownAddress({ address }: NodeConfig): string | undefined {
  return address === '' ? undefined : address;
}

function nodeAt(upstream: UpstreamConfig, address: string): NodeConfig {
  return { ...upstream, name: `${upstream.name}-${hash('sha256', address, 'hex').slice(0, 6)}`, address };
}

/** At most 64 of the addresses, in their order; a new one does not displace one in use. */
function bounded(addresses: readonly string[], inUse: readonly string[] = []): readonly string[] {
  const preferred = new Set([...inUse.filter((address) => addresses.includes(address)), ...addresses]);
  const chosen = new Set([...preferred].slice(0, mostAddresses));
  return addresses.filter((address) => chosen.has(address));
}

/** The addresses at which another process listens: a gateway that is its own node would never see an outage. */
function withoutOwn(addresses: readonly string[], upstream: UpstreamConfig, listen: Listening): readonly string[] {
  const { port, protocol } = new URL(upstream.url);
  const isOfPort = (port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)) === listen.port;
  if (!isOfPort) return addresses;
  const local = new Set(Object.values(networkInterfaces()).flatMap((interfaces = []) => interfaces.map(plainAddress)));
  const isLocal = (address: string): boolean =>
    local.has(address) || address.startsWith('127.') || ['::1', '::', '0.0.0.0'].includes(address);
  return addresses.filter((text) => {
    const address = plainAddress({ address: text });
    if (listen.host === '0.0.0.0') return !isIPv4(address) || !isLocal(address);
    return isIP(listen.host) === 0 || listen.host === '::' ? !isLocal(address) : address !== listen.host;
  });
}

/** Without the zone of a link-local address, and IPv4 as such. */
function plainAddress({ address }: { readonly address: string }): string {
  return address.replace(/%.*/, '').replace(/^::ffff:(?=[\d.]+$)/, '');
}

interface DiscoveryParts {
  readonly lookUp: LookUp;
  readonly listen: Listening;
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
      const { name: upstream } = node;
      const address = shownAddress(node);
      if (address !== undefined)
        this.#parts.journal.record('node found', { upstream, address }, 'a node was found by its name');
    }
    const isComplete = this.#discovered.every((upstream) => this.#found.has(originOf(upstream)));
    this.#schedule(isComplete ? this.#parts.settings.intervalMs : 0);
  }

  /** Follows the upstreams of another config, with the addresses that are known. Rejects as `Nodes.follow` does. */
  follow(upstreams: readonly UpstreamConfig[]): Promise<void> {
    return this.#enqueue(async () => {
      this.#upstreams = upstreams;
      const discovered = this.#discovered;
      const origins = new Set(discovered.map(originOf));
      for (const origin of this.#found.keys()) if (!origins.has(origin)) this.#found.delete(origin);
      for (const name of this.#faults.keys()) {
        if (discovered.some((upstream) => upstream.name === name)) continue;
        this.#faults.delete(name);
        this.#parts.metrics.forgetDiscovery(name);
      }
      const isNew = (upstream: UpstreamConfig): boolean => !this.#found.has(originOf(upstream));
      await Promise.all(discovered.filter(isNew).map((upstream) => this.#lookUp(upstream)));
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
    const faults = await Promise.all(discovered.map((upstream) => this.#lookUp(upstream)));
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

  /** Looks the name up; on a failure the addresses found before stay. Returns the fault, and never rejects. */
  async #lookUp(upstream: UpstreamConfig): Promise<string | undefined> {
    const all = await this.#addressesOf(hostOf(upstream)).catch(() => undefined);
    if (all === undefined) return 'the look-up of its name fails';
    if (all.length === 0) return 'its name has no address';
    const origin = originOf(upstream);
    const before = this.#found.get(origin) ?? [];
    const addresses = withoutOwn(all, upstream, this.#parts.listen);
    if (addresses.length > 0 || before.length === 0) {
      this.#found.set(origin, bounded(addresses, before));
    }
    if (addresses.length === 0) return "its name has no address but this gateway's own";
    const excess = addresses.length - mostAddresses;
    if (excess > 0) return `its name has ${addresses.length} addresses, of which ${excess} are left out`;
    return addresses.length < all.length ? "an address of its name is this gateway's own, and is left out" : undefined;
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

/** Whether an address is the gateway's own depends on the port, too. */
function originOf({ url }: UpstreamConfig): string {
  return new URL(url).origin;
}
