/**
 * The fleet of one process: the nodes that the config and DNS list, what their answers show of the ledger, and the ways
 * to ask them: `sender` for requests, `latest` for the state of reads without a version.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Config, TlsMaterial } from '../config/index.ts';
import { Dialect, type LedgerInfo, type LedgerVersion } from '../ledger/index.ts';
import type { Journal, Renewals } from '../metrics/index.ts';
import { type ByteBudget, createAnswerBudget } from './byte-budget.ts';
import type { SendLimits } from './dispatch/fleet-request.ts';
import { Sender } from './dispatch/sender.ts';
import { type FleetEvents, FleetState, type LedgerReport } from './fleet-state.ts';
import { Latest, type LatestNews, type LatestOptions } from './latest.ts';
import { LedgerIdentity } from './node/ledger-identity.ts';
import { type NodeConfig, NodeCredentials } from './node/node-credentials.ts';
import { Prober, type ProberOptions } from './node/probe.ts';
import { candidatesOf, Upstream } from './node/upstream.ts';
import { type FoundAddresses, type LookUp, lookUpBySystem, lookUpNames, Nodes, nodesOf } from './nodes.ts';
import { Roots, type RootsOptions } from './roots.ts';
import { explainNodes } from './select/pick.ts';
import { type Need, prunedBelow, readClassOf, unitOf } from './select/ranking.ts';
import { createFleetMetrics, reportOf } from './upstream-metrics.ts';

/** Knowledge of nodes that one process of the gateway publishes to the others. */
export type FleetNews =
  /** Answers carry this head in their headers; the node named `upstream` reported it. */
  | { readonly kind: 'head'; readonly upstream: string; readonly info: LedgerInfo }
  | LatestNews
  /** Reads with one of `bounds` share this state at another replica. */
  | { readonly kind: 'shared'; readonly info: LedgerInfo; readonly bounds: readonly number[] }
  /** The node with this fingerprint refused `version` as pruned. */
  | { readonly kind: 'refused'; readonly fingerprint: string; readonly version: LedgerVersion }
  /** The ledger was rolled back or replaced: every process drops its state of the ledger. */
  | { readonly kind: 'ledger replaced'; readonly reports: readonly LedgerReport[] };

/** The process that the fleet is a part of. */
export interface FleetDeps {
  readonly log: Logger;
  readonly journal: Journal;
  readonly registry: Registry;
  readonly renewals: Renewals;
  /** Live values of the config, read at each use. */
  readonly settings: {
    readonly connect: { readonly connectTimeoutMs: number };
    readonly sender: SendLimits;
    readonly fleet: { readonly maxLagMs: number };
    readonly discovery: { readonly intervalMs: number };
    readonly probes: ProberOptions;
    readonly latest: LatestOptions;
  };
  /** Processes of this gateway, which share its bounds and its rates. */
  readonly processes: number;
  /** Lag of this process's event loop, in ms. */
  readonly ownLag: () => number;
  /** Names of nodes that are drained from the start. */
  readonly drained?: readonly string[] | undefined;
  /** Finds the addresses of names with `discover: dns`. Default: by the system. */
  readonly lookUp?: LookUp | undefined;
  /** Times of comparisons of nodes' histories. Default: 5 s, in a bisection 1.1 s, times the processes. */
  readonly forkTimes?: Pick<RootsOptions, 'intervalMs' | 'pauseMs'> | undefined;
  /** Publishes to the other processes of the gateway. */
  readonly publish: (news: FleetNews) => void;
  readonly onGeneration: () => void;
  readonly onRollback: () => void;
  /** Answers up to this version may be final (see `FleetEvents.onConfirmed`). */
  readonly onConfirmed: (version: LedgerVersion) => void;
  /** Nodes are on a fork: answers of theirs may be in the cache. */
  readonly onFork: () => void;
}

/** Longest wait of the start for names, and for the first answers of nodes, without which the gateway is not ready. */
const firstLookMs = 1_500;
/** Times of comparisons of nodes by a single process, in ms: a node gets fewer than one read a second. */
const forkMs = { interval: 5_000, pause: 1_100 };

/** Looks up the names of nodes, and composes the fleet of the config. No node gets a request before `start`. */
export async function createFleet(config: Config, deps: FleetDeps): Promise<Fleet> {
  const { lookUp = lookUpBySystem } = deps;
  return new Fleet(config, { ...deps, lookUp, found: await lookUpNames(config, lookUp, firstLookMs) });
}

/** The nodes of one process, the parts that keep their state up to date, and the ways to ask them. */
export class Fleet extends FleetState {
  readonly sender: Sender;
  readonly latest: Latest;
  /** The name of the ledger, for keys of stored answers. */
  readonly identity: LedgerIdentity;
  /** The nodes' roots beside a known one, for tiers whose answers outlive the process. */
  readonly roots: Roots;
  /** Bounds the bytes of answers, while they are read and while clients take them. */
  readonly answerBudget: ByteBudget;
  readonly #prober: Prober;
  readonly #nodes: Nodes;
  readonly #credentials: NodeCredentials;

  constructor(config: Config, deps: FleetDeps & { readonly lookUp: LookUp; readonly found: FoundAddresses }) {
    const { journal, log, registry, publish, settings, found, drained = [], processes } = deps;
    const { connections } = config.upstream;
    const credentials = new NodeCredentials({
      make: (node, tls) => createUpstream(node, { connections, tls }, deps),
      tryOut: async (upstream, withinMs) => {
        const found = await this.#prober.peek(upstream, withinMs);
        if (typeof found === 'string') return found;
        return this.chainId === undefined || found.info.chainId === this.chainId ? undefined : 'other chain';
      },
      renewals: deps.renewals,
      journal,
    });
    const nodes = nodesOf(config.upstreams, found).map((node) => credentials.create(node));
    for (const upstream of nodes) {
      credentials.admit(upstream);
      upstream.isDrained = drained.includes(upstream.name);
    }
    const dialect = config.dialect === 'auto' ? config.dialect : new Dialect(config.dialect);
    const events: FleetEvents = {
      onChange: (change, fields, message) => {
        journal.record(change, fields, message);
        if (change === 'rollback') deps.onRollback();
      },
      onUnconfirmed: (upstream) => {
        const { doubted: chainId } = upstream.chain;
        // A node of another chain that answers for the fleet's chain is on its way back.
        if (chainId !== undefined && chainId !== this.chainId) {
          const fields = { upstream: upstream.name, chainId, fleetChainId: this.chainId };
          journal.record('chain doubted', fields, 'an answer names another chain: the ledger info decides');
        }
        void this.#prober.confirm(upstream);
      },
      onGeneration: () => {
        // Synchronous for memory and loads in flight; only writes to Redis finish later.
        deps.onGeneration();
        // At the start the first reports alone turn the ledger over, and no client has an answer yet.
        if (!this.ledger.isStarting) publish({ kind: 'ledger replaced', reports: this.reports() });
      },
      onRefused: ({ fingerprint }, version) => publish({ kind: 'refused', fingerprint, version }),
      onConfirmed: deps.onConfirmed,
      onHead: (info, upstream) => publish({ kind: 'head', info, upstream }),
      onAwaited: () => this.#prober.hurry(),
    };
    super(nodes, dialect, events, { limits: settings.fleet, chainId: config.chainId });
    const metrics = createFleetMetrics(registry, this);
    this.#prober = new Prober(this, settings.probes, journal);
    this.answerBudget = createAnswerBudget(processes);
    this.sender = new Sender({
      fleet: this,
      limits: settings.sender,
      metrics,
      log: journal,
      onDoubt: (upstream) => this.#prober.look(upstream),
      budget: this.answerBudget,
      lookAround: () => this.#prober.compareHeads(),
    });
    this.latest = new Latest(this, this.sender, settings.latest, {
      compareHeads: () => this.#prober.compareAnew(),
      publish,
      onUnreached: (version) => {
        metrics.unreached.inc();
        const fields = { version, head: this.head?.version };
        log.warn(fields, 'no node of this replica has reached the version of another replica');
      },
    });
    this.identity = new LedgerIdentity(this, this.sender);
    const { listen, upstreams } = config;
    const { discovery } = settings;
    const ofNodes = { ...deps, fleet: this, prober: this.#prober, metrics, credentials, listen, discovery };
    this.#nodes = new Nodes(upstreams, ofNodes);
    this.#credentials = credentials;
    this.roots = new Roots(this, this.#prober, {
      onChange: (change, fields, message) => journal.record(change, fields, message),
      onFork: deps.onFork,
      intervalMs: forkMs.interval * processes,
      pauseMs: forkMs.pause * processes,
      ...deps.forkTimes,
    });
  }

  /** Looks at all nodes, and then at intervals. Resolves when each has answered or failed, or after 1.5 s. */
  async start(): Promise<void> {
    this.#nodes.start();
    await Promise.race([this.#prober.start(), sleep(firstLookMs, undefined, { ref: false })]);
    this.ledger.settle();
    this.roots.start();
  }

  /**
   * Follows the nodes of another config. Rejects without a change when none of them is usable while one of the present
   * ones is.
   */
  async follow({ upstreams }: Pick<Config, 'upstreams'>): Promise<void> {
    await this.#nodes.follow(upstreams);
    this.#prober.reschedule();
  }

  stop(): void {
    this.#nodes.stop();
    this.#credentials.close();
    for (const part of [this.#prober, this.roots, this.latest, this.sender, this.identity]) part.close();
  }

  /** Closes the connections to nodes. */
  async close(): Promise<void> {
    await Promise.all([this.#nodes.close(), ...this.upstreams.map((upstream) => upstream.close())]);
  }

  report() {
    return reportOf(this, performance.now());
  }

  /** The nodes in the order in which a request would be sent to them now. `kind`: of a read of state. Asks no node. */
  explain(need: Need, kind?: 'read' | 'view') {
    const nowMs = performance.now();
    const edge = prunedBelow(this.upstreams, unitOf(need), nowMs);
    const readClass = kind && readClassOf(need, kind === 'view', edge);
    return explainNodes(candidatesOf(this, nowMs, need, readClass), need);
  }

  /** Drains or resumes the node (see `FleetState.setDrained`); `undefined`: no node has this name. */
  drain(name: string, isDrained: boolean): { readonly isNews: boolean; readonly inFlight: number } | undefined {
    const upstream = this.#find(name);
    if (upstream === undefined) return undefined;
    const isNews = upstream.isDrained !== isDrained;
    if (isNews) this.setDrained(upstream, isDrained, performance.now());
    return { isNews, inFlight: upstream.inFlight };
  }

  /** Looks at the node with the second newest head: other processes wait for an answer to become final. */
  lookAtSecond(): void {
    this.#prober.lookAtSecond();
  }

  /** Applies news of another process, checked like an answer of a node: news that contradict the fleet change nothing. */
  onNews(news: FleetNews): void {
    switch (news.kind) {
      case 'head':
        this.#observeOfPeer(news.upstream, news.info);
        break;
      case 'served':
        this.latest.onPeerVersion(news.version);
        break;
      case 'floor':
        this.latest.onPeerFloor(news.client, news.version);
        break;
      case 'snapshot':
        if (this.#observeOfPeer(news.snapshot.upstream, news.snapshot.info))
          this.latest.onPeerState(news.snapshot, news.bounds);
        break;
      case 'shared':
        this.latest.onReplicaState(news.info, news.bounds);
        break;
      case 'refused':
        this.onPeerRefusal(news.fingerprint, news.version, performance.now());
        break;
      case 'ledger replaced':
        this.adopt(news.reports, performance.now());
        break;
      default:
        news satisfies never;
    }
  }

  /**
   * A node reported `info` to a peer. Returns whether it counts here: none does before a node has shown here in which
   * dialect answers carry it.
   */
  #observeOfPeer(name: string, info: LedgerInfo): boolean {
    const upstream = this.#find(name);
    if (upstream === undefined || this.isDialectOpen) return false;
    if (info.version > (upstream.window.info?.version ?? -1n)) {
      const nowMs = performance.now();
      // The node has just answered a peer: an outage here is over.
      upstream.recordAnswer(upstream.latencyMs(nowMs), nowMs);
      if (this.observe(upstream, info, nowMs)) this.headersOfLedger.onReport(upstream, info);
      this.refresh();
    }
    return this.isOurs(upstream, info) && !upstream.isSuspect;
  }

  #find(name: string): Upstream | undefined {
    return this.upstreams.find((upstream) => upstream.name === name);
  }
}

function createUpstream(
  node: NodeConfig,
  client: { readonly connections: number; readonly tls: TlsMaterial | undefined },
  { settings, ownLag }: FleetDeps,
): Upstream {
  const { name, url, address, tier, headers, maxRequestsPerSecond, weight } = node;
  const options = { name, url: new URL(url), address, tier, headers, maxRequestsPerSecond, weight, ...client };
  return new Upstream({ ...options, ...settings.connect, ownLag });
}
