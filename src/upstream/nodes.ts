/**
 * Keeps the nodes of the fleet as config and DNS have them. Names with `discover: dns` are looked up again and again;
 * while a look-up fails, or finds no address, the nodes found before stay. A new node, or one with another address or
 * tier, reports its ledger before removed nodes leave; a removed one finishes its requests in flight. A node with other
 * headers or TLS stays the node that it is (`NodeCredentials`).
 */
import { hash } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { isIP, isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Config, UpstreamConfig } from '../config/index.ts';
import { settlesWithin } from '../ledger/index.ts';
import type { Journal } from '../metrics/index.ts';
import type { FleetState } from './fleet-state.ts';
import type { NodeConfig, NodeCredentials } from './node/node-credentials.ts';
import type { NodeFault } from './node/node-fault.ts';
import type { Prober, ProbeResult } from './node/probe.ts';
import type { Upstream } from './node/upstream.ts';
import type { FleetMetrics } from './upstream-metrics.ts';

/** The IP addresses of a host name, without duplicates, in a stable order. Rejects when there is no answer. */
export type LookUp = (host: string) => Promise<readonly string[]>;

/** The addresses of nodes by origin, none of them the gateway's own. */
export type FoundAddresses = ReadonlyMap<string, readonly string[]>;

type Listening = Pick<Config['listen'], 'host' | 'port'>;

/** Series of metrics, connections and probes of each node are bounded by this. */
const mostAddresses = 64;

/**
 * By the system (getaddrinfo), with /etc/hosts and the search domains by which a pod shortens the name of a Service,
 * which queries of `resolve4` and `resolve6` lack.
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

interface NodesParts {
  readonly fleet: FleetState;
  readonly prober: Prober;
  readonly metrics: Pick<FleetMetrics, 'nodesNotFound' | 'forgetDiscovery' | 'forgetUpstream'>;
  readonly log: Logger;
  readonly journal: Journal;
  readonly credentials: NodeCredentials;
  readonly lookUp: LookUp;
  readonly listen: Listening;
  readonly found: FoundAddresses;
  /** Read at each use. */
  readonly discovery: { readonly intervalMs: number };
}

/** A look-up counts as failed after this; it goes on, and the next one of the name waits for it. */
const longestLookUpMs = 5_000;
const firstLookMs = 700;
/** A queued request may still get a permit of a removed node for this long. */
const handedOutMs = 2_500;
const lookAgainMs = 100;
/** Answers still in flight after this are cut off. */
const longestMs = 300_000;

/** The nodes of the config, in the fleet or on their way out. */
export class Nodes {
  readonly #parts: NodesParts;
  #upstreams: readonly UpstreamConfig[];
  readonly #found: Map<string, readonly string[]>;
  readonly #lookUps = new Map<string, Promise<readonly string[]>>();
  readonly #faults = new Map<string, string>();
  /** The nodes of the fleet, as JSON. */
  #followed: string;
  #last: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;
  /** Removed nodes, each with its timer that polls for idleness. */
  readonly #leaving = new Map<Upstream, NodeJS.Timeout>();

  constructor(upstreams: readonly UpstreamConfig[], parts: NodesParts) {
    this.#upstreams = upstreams;
    this.#found = new Map(parts.found);
    this.#followed = JSON.stringify(nodesOf(upstreams, parts.found));
    this.#parts = parts;
  }

  /** Looks names up at intervals, at once after a look-up that failed. */
  start(): void {
    for (const node of nodesOf(this.#discovered, this.#found)) {
      const { name: upstream } = node;
      const address = shownAddress(node);
      if (address !== undefined)
        this.#parts.journal.record('node found', { upstream, address }, 'a node was found by its name');
    }
    const isComplete = this.#discovered.every((upstream) => this.#found.has(originOf(upstream)));
    this.#schedule(isComplete ? this.#parts.discovery.intervalMs : 0);
  }

  /**
   * Follows the upstreams of another config. Rejects without a change when none of their nodes is usable while one of
   * the present ones is.
   */
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

  stop(): void {
    this.#isStopped = true;
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
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => {
      void this.#enqueue(() => this.#round()).finally(() => this.#schedule(this.#parts.discovery.intervalMs));
    }, afterMs).unref();
  }

  async #round(): Promise<void> {
    const discovered = this.#discovered;
    if (discovered.length === 0 || this.#isStopped) return;
    const faults = await Promise.all(discovered.map((upstream) => this.#lookUp(upstream)));
    const isApplied = await this.#apply().then(
      () => true,
      () => false,
    );
    for (const [index, upstream] of discovered.entries()) {
      this.#note(upstream, faults[index] ?? (isApplied ? undefined : 'none of the nodes that were found answers'));
    }
  }

  async #apply(): Promise<void> {
    const nodes = nodesOf(this.#upstreams, this.#found);
    const text = JSON.stringify(nodes);
    if (text === this.#followed || this.#isStopped) return;
    await this.#replace(nodes);
    this.#followed = text;
  }

  /** Looks the name up; on a failure the addresses found before stay. Returns the fault, and never rejects. */
  async #lookUp(upstream: UpstreamConfig): Promise<string | undefined> {
    const all = await this.#addressesOf(hostOf(upstream));
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

  /** The addresses of a host, `undefined` when they are not found in time; concurrent callers share one look-up. */
  async #addressesOf(host: string): Promise<readonly string[] | undefined> {
    const running = this.#lookUps.get(host) ?? this.#parts.lookUp(host).finally(() => this.#lookUps.delete(host));
    this.#lookUps.set(host, running);
    return (await settlesWithin(running, longestLookUpMs)) ? running.catch(() => undefined) : undefined;
  }

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

  /**
   * Resolves when the fleet is as `wanted`, one call at a time. Rejects without a change when the files of a node cannot be
   * used, or none of these nodes is usable while one of the present ones is: a wrong address must not cause an outage.
   */
  async #replace(wanted: readonly NodeConfig[]): Promise<void> {
    const { fleet, prober, credentials } = this.#parts;
    const before = fleet.upstreams;
    const configs = new Map<Upstream, NodeConfig>();
    const added = new Map<Upstream, ProbeResult | NodeFault>();
    try {
      for (const config of wanted) {
        const known = before.find((upstream) => isSame(credentials.configOf(upstream), config));
        const upstream = known ?? credentials.create(config);
        configs.set(upstream, config);
        if (known !== undefined) continue;
        added.set(upstream, 'time-out');
        // The name is drained: another address or tier makes a new node of it.
        upstream.isDrained = before.some(({ name, isDrained }) => isDrained && name === config.name);
      }
      const looks = [...added.keys()].map(async (upstream) =>
        added.set(upstream, await prober.peek(upstream, firstLookMs)),
      );
      await Promise.all(looks);
      const isAnyUsable =
        [...configs.keys()].some(isUsable) || [...added.values()].some((found) => this.#isOurs(found));
      if (before.some(isUsable) && !isAnyUsable)
        throw new Error('none of the upstreams answers as a node of this chain');
      const takes = [...configs].map(([upstream, config]) => credentials.prepare(upstream, config));
      for (const [upstream, config] of configs) {
        upstream.allowance.change(config.maxRequestsPerSecond, performance.now());
        upstream.weight = config.weight;
      }
      await Promise.all(takes.map((take) => take()));
    } catch (error) {
      await Promise.all([...added.keys()].map((upstream) => this.#discard(upstream)));
      throw error;
    }
    const gone = before.filter((upstream) => !configs.has(upstream));
    // New nodes join before old ones leave: the fleet always has a usable node.
    fleet.replace([...configs.keys(), ...gone], performance.now());
    for (const [upstream, found] of added) {
      credentials.admit(upstream);
      if (typeof found === 'object') prober.admit(upstream, found);
      void prober.add(upstream);
    }
    fleet.replace([...configs.keys()], performance.now());
    for (const upstream of gone) this.#release(upstream);
    this.#record([...added.keys()], gone);
  }

  #record(added: readonly Upstream[], removed: readonly Upstream[]): void {
    if (added.length + removed.length === 0) return;
    // In the log alone: events hold no address.
    const addresses = added.flatMap((upstream) => {
      const config = this.#parts.credentials.configOf(upstream);
      const address = config && shownAddress(config);
      return address === undefined ? [] : [[upstream.name, address]];
    });
    const changed = { added: namesOf(added), removed: namesOf(removed) };
    const fields = addresses.length === 0 ? changed : { ...changed, addresses: Object.fromEntries(addresses) };
    this.#parts.journal.record('nodes changed', fields, 'nodes of the fleet changed');
  }

  #isOurs(found: ProbeResult | NodeFault): boolean {
    const { chainId } = this.#parts.fleet;
    return typeof found === 'object' && (chainId === undefined || found.info.chainId === chainId);
  }

  #discard(upstream: Upstream): Promise<void> {
    this.#parts.credentials.release(upstream);
    return upstream.close();
  }

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
    this.#parts.credentials.release(upstream);
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
    if (!isUsed) this.#parts.metrics.forgetUpstream(name);
  }
}

function isUsable({ health }: Upstream): boolean {
  return health === 'usable';
}

function namesOf(upstreams: readonly Upstream[]): readonly string[] {
  return upstreams.map(({ name }) => name);
}

/** Any difference in its config makes a new node, except allowance, weight and credentials; its place in the list does not. */
function isSame(one: NodeConfig | undefined, other: NodeConfig): boolean {
  return one !== undefined && identityOf(one) === identityOf(other);
}

function identityOf({ name, url, address, discover, tier }: NodeConfig): string {
  return JSON.stringify([name, url, address, discover, tier]);
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

function isDiscovered({ discover }: UpstreamConfig): boolean {
  return discover === 'dns';
}

function hostOf({ url }: UpstreamConfig): string {
  return new URL(url).hostname;
}

/** Key of found addresses: the port decides, too, whether an address is the gateway's own. */
function originOf({ url }: UpstreamConfig): string {
  return new URL(url).origin;
}
