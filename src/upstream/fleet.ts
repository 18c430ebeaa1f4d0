/**
 * The fleet of one process: the nodes that the config and DNS list, what their answers show of the ledger, and the ways
 * to ask them: `sender` for requests, `latest` for the state of reads without a version.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Config } from '../config/index.ts';
import { Dialect, type LedgerInfo, type LedgerVersion } from '../ledger/index.ts';
import type { Journal } from '../metrics/index.ts';
import { type ByteBudget, createAnswerBudget } from './byte-budget.ts';
import type { AnswerHead } from './dispatch/exchange.ts';
import type { SendLimits } from './dispatch/fleet-request.ts';
import { createSenderMetrics, type SenderMetrics } from './dispatch/sender-metrics.ts';
import { Sender } from './dispatch/sender.ts';
import { type FleetEvents, FleetState, type LedgerReport } from './fleet-state.ts';
import { candidatesOf, type FleetView } from './fleet-view.ts';
import { Latest, type LatestOptions, type PublishedState } from './latest.ts';
import { LedgerIdentity } from './node/ledger-identity.ts';
import { Prober, type ProberOptions } from './node/probe.ts';
import { Upstream } from './node/upstream.ts';
import {
  type FoundAddresses,
  type LookUp,
  lookUpBySystem,
  lookUpNames,
  type NodeConfig,
  Nodes,
  nodesOf,
} from './nodes.ts';
import { Roots, type RootsOptions } from './roots.ts';
import { readClassOf } from './select/candidates.ts';
import { explainNodes } from './select/explain.ts';
import type { Need } from './select/ranking.ts';
import { createUpstreamMetrics, limitsOf, reportOf, type UpstreamMetrics } from './upstream-metrics.ts';

/** Knowledge of nodes that one process of the gateway publishes to the others. */
export type FleetNews =
  /** Answers carry this head in their headers; the node named `upstream` reported it. */
  | { readonly kind: 'head'; readonly upstream: string; readonly info: LedgerInfo }
  /** A read without a version is answered with this version. */
  | { readonly kind: 'served'; readonly version: LedgerVersion }
  /** Reads without a version share this state. */
  | { readonly kind: 'snapshot'; readonly snapshot: PublishedState }
  /** The node with this fingerprint refused `version` as pruned. */
  | { readonly kind: 'refused'; readonly fingerprint: string; readonly version: LedgerVersion }
  /** The ledger was rolled back or replaced: every process drops its state of the ledger. */
  | { readonly kind: 'ledger replaced'; readonly reports: readonly LedgerReport[] };

/** The process that the fleet is a part of. */
export interface FleetDeps {
  readonly log: Logger;
  readonly journal: Journal;
  readonly registry: Registry;
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
  /** A generation begins, as the ledger was rolled back or replaced: no earlier answer is valid. */
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

/** All nodes of one process, and its ways to ask them. */
export class Fleet {
  readonly sender: Sender;
  readonly latest: Latest;
  /** The name of the ledger, for keys of stored answers. */
  readonly identity: LedgerIdentity;
  /** The nodes' roots beside a known one, for tiers whose answers outlive the process. */
  readonly roots: Roots;
  /** Bounds the bytes of answers, while they are read and while clients take them. */
  readonly answerBudget: ByteBudget;
  readonly #deps: FleetDeps;
  readonly #state: FleetState;
  readonly #prober: Prober;
  readonly #nodes: Nodes;
  readonly #metrics: UpstreamMetrics & SenderMetrics;

  constructor(config: Config, deps: FleetDeps & { readonly lookUp: LookUp; readonly found: FoundAddresses }) {
    const { journal, settings, found, drained = [], processes } = deps;
    const create = (node: NodeConfig): Upstream => this.#create(node, config.upstream.connections);
    this.#deps = deps;
    const configs = new Map(nodesOf(config.upstreams, found).map((node) => [create(node), node] as const));
    for (const upstream of configs.keys()) upstream.isDrained = drained.includes(upstream.name);
    const dialect = config.dialect === 'auto' ? config.dialect : new Dialect(config.dialect);
    const limits = { limits: settings.fleet, chainId: config.chainId };
    const state = new FleetState([...configs.keys()], dialect, this.#events(), limits);
    this.#state = state;
    this.#metrics = this.#createMetrics();
    this.#prober = new Prober(state, settings.probes, journal);
    this.answerBudget = createAnswerBudget(processes);
    const lookAround = (): Promise<void> | undefined => this.#prober.compareHeads();
    this.sender = new Sender({
      fleet: state,
      limits: settings.sender,
      metrics: this.#metrics,
      log: journal,
      onDoubt: (upstream) => this.#prober.look(upstream),
      budget: this.answerBudget,
      lookAround,
      addresses: this.#prober.addresses,
    });
    const events = {
      onServed: (version: LedgerVersion, snapshot?: PublishedState) =>
        deps.publish(snapshot === undefined ? { kind: 'served', version } : { kind: 'snapshot', snapshot }),
      onUnreached: (version: LedgerVersion) => this.#noteUnreached(version),
    };
    this.latest = new Latest({ fleet: state, sender: this.sender, events, lookAround }, settings.latest);
    this.identity = new LedgerIdentity(state, this.sender);
    this.#nodes = new Nodes(config.upstreams, {
      ...deps,
      fleet: state,
      prober: this.#prober,
      metrics: this.#metrics,
      configs,
      create,
      listen: config.listen,
      discovery: settings.discovery,
    });
    this.roots = new Roots(state, this.#prober, {
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
    this.#state.ledger.settle();
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

  /** Ends everything that sends requests by itself. */
  stop(): void {
    this.#nodes.stop();
    for (const part of [this.#prober, this.roots, this.latest, this.sender, this.identity]) part.close();
  }

  /** Closes the connections to nodes, once their requests in flight have ended. */
  async close(): Promise<void> {
    await Promise.all([this.#nodes.close(), ...this.#state.upstreams.map((upstream) => upstream.close())]);
  }

  /** The facts for an answer that goes out now. */
  get view(): FleetView {
    return this.#state.view;
  }

  get dialect(): Dialect {
    return this.#state.dialect;
  }

  /** See `FleetFacts` for these. */
  get generation(): number {
    return this.#state.generation;
  }

  get chainId(): number | undefined {
    return this.#state.chainId;
  }

  get head(): LedgerInfo | undefined {
    return this.#state.head;
  }

  get oldest(): LedgerInfo | undefined {
    return this.#state.oldest;
  }

  /** Start of an outage on the clock of `performance.now()`. */
  get outageFromMs(): number | undefined {
    return this.#state.outageFromMs;
  }

  /** The state of the fleet and of each node, as plain data: 64-bit numbers are text. */
  report() {
    return reportOf(this.#state, performance.now());
  }

  /** The nodes in the order in which a request would be sent to them now. `kind`: of a read of state. Asks no node. */
  explain(need: Need, kind?: 'read' | 'view') {
    const nowMs = performance.now();
    const readClass = kind && readClassOf(need, kind === 'view', this.#state.upstreams, nowMs);
    return explainNodes(candidatesOf(this.#state, nowMs, need, readClass), need);
  }

  /** Drains or resumes the node (see `FleetState.setDrained`); `undefined`: no node has this name. */
  drain(name: string, isDrained: boolean): { readonly isNews: boolean; readonly inFlight: number } | undefined {
    const upstream = this.#find(name);
    if (upstream === undefined) return undefined;
    const isNews = upstream.isDrained !== isDrained;
    if (isNews) this.#state.setDrained(upstream, isDrained, performance.now());
    return { isNews, inFlight: upstream.inFlight };
  }

  /** The headers of a node's answer that belong to it alone (see `textOfFields`). */
  ownHeadersOf(answer: AnswerHead): string | undefined {
    return this.#state.headersOfLedger.ownOf(answer);
  }

  /** Present for an answer at a version that other nodes have yet to reach (see `FleetLedger.awaited`). */
  awaited(upstream: Upstream, version: bigint) {
    return this.#state.ledger.awaited(upstream, version, performance.now());
  }

  /** Nodes report another history at `version` than before: a generation begins. */
  replaceHistory(version: LedgerVersion): void {
    this.#state.replaceHistory(version);
  }

  /** Looks at the node with the second newest head: other processes wait for an answer to become final. */
  lookAtSecond(): void {
    this.#prober.lookAtSecond();
  }

  /** Applies news of another process, checked like an answer of a node: news that contradict the fleet change nothing. */
  onNews(news: FleetNews): void {
    switch (news.kind) {
      case 'head':
        this.#observe(news.upstream, news.info);
        break;
      case 'served':
        this.latest.onPeerVersion(news.version);
        break;
      case 'snapshot':
        if (this.#observe(news.snapshot.upstream, news.snapshot.info)) this.latest.onPeerState(news.snapshot);
        break;
      case 'refused':
        this.#state.onPeerRefusal(news.fingerprint, news.version, performance.now());
        break;
      case 'ledger replaced':
        this.#state.follow(news.reports, performance.now());
        break;
      default:
        news satisfies never;
    }
  }

  /**
   * A node reported `info` to a peer. Returns whether the report counts here: the node is one of the fleet, on its chain,
   * and other nodes do not contradict it. None counts until a node has shown here in which dialect answers carry it.
   */
  #observe(name: string, info: LedgerInfo): boolean {
    const state = this.#state;
    const upstream = this.#find(name);
    if (upstream === undefined || state.isDialectOpen) return false;
    if (info.version > (upstream.window.info?.version ?? -1n)) {
      const nowMs = performance.now();
      // The node has just answered a peer: an outage here is over.
      upstream.recordAnswer(upstream.latencyMs(nowMs), nowMs);
      if (state.observe(upstream, info, nowMs)) state.headersOfLedger.onReport(upstream, info);
      state.refresh();
    }
    return state.isOurs(upstream, info) && !upstream.isSuspect;
  }

  #find(name: string): Upstream | undefined {
    return this.#state.upstreams.find((upstream) => upstream.name === name);
  }

  #create(node: NodeConfig, connections: number): Upstream {
    const { name, url, address, tier, headers, maxRequestsPerSecond, weight } = node;
    const { settings, ownLag } = this.#deps;
    const options = { name, url: new URL(url), address, tier, headers, maxRequestsPerSecond, weight, connections };
    return new Upstream({ ...options, ...settings.connect, ownLag });
  }

  #events(): FleetEvents {
    const { journal, publish, onGeneration, onRollback, onConfirmed } = this.#deps;
    return {
      onChange: (change, fields, message) => {
        journal.record(change, fields, message);
        if (change === 'rollback') onRollback();
      },
      onDoubt: (upstream) => {
        const { doubted: chainId } = upstream.chain;
        // A node of another chain that answers for the fleet's chain is on its way back.
        if (chainId !== undefined && chainId !== this.chainId) {
          const fields = { upstream: upstream.name, chainId, fleetChainId: this.chainId };
          journal.record('chain doubted', fields, 'an answer names another chain: the ledger info decides');
        }
        void this.#prober.look(upstream);
      },
      onAllBack: (upstream) => void this.#prober.addresses.settle(upstream),
      onGeneration: () => {
        // Synchronous for memory and loads in flight; only writes to Redis finish later.
        onGeneration();
        // At the start the first reports alone turn the ledger over, and no client has an answer yet.
        if (!this.#state.ledger.isStarting) publish({ kind: 'ledger replaced', reports: this.#state.reports() });
      },
      onRefused: ({ fingerprint }, version) => publish({ kind: 'refused', fingerprint, version }),
      onConfirmed,
      onHead: (info, upstream) => publish({ kind: 'head', info, upstream }),
      onAwaited: () => this.#prober.hurry(),
    };
  }

  #createMetrics(): UpstreamMetrics & SenderMetrics {
    const { registry } = this.#deps;
    const state = this.#state;
    return {
      ...createUpstreamMetrics(registry, state),
      ...createSenderMetrics(registry, () => ({ waiting: this.sender.waiting, nodes: limitsOf(state) })),
    };
  }

  #noteUnreached(version: LedgerVersion): void {
    this.#metrics.unreached.inc();
    this.#deps.log.warn(
      { version, head: this.head?.version },
      'no node of this replica has reached the version of another replica',
    );
  }
}
