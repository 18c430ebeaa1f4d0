/** Builds the fleet: nodes, their state, and the parts that send requests to them. */
import type { Config } from '../config/index.ts';
import { dialectOf, type LedgerVersion } from '../ledger/index.ts';
import {
  type ByteBudget,
  createSenderMetrics,
  createUpstreamMetrics,
  Fleet,
  type FleetEvents,
  Forks,
  type ForksParts,
  Latest,
  type LatestEvents,
  Prober,
  readClasses,
  Sender,
  Upstream,
  Witness,
} from '../upstream/index.ts';
import { Discovery, nodesOf, type FoundAddresses, type LookUp, type NodeConfig } from './discovery.ts';
import { Nodes } from './nodes.ts';
import type { ServingContext } from './settings.ts';

interface FleetListener {
  /** The ledger was replaced: no earlier answer is valid. */
  readonly onGeneration: () => void;
  readonly onRollback: () => void;
  /** See `FleetEvents.onConfirmed`. */
  readonly onConfirmed: (version: LedgerVersion) => void;
  /** See `ForksParts.onFork`. */
  readonly onFork: () => void;
  /** See `LatestEvents.onServed`. */
  readonly onServed: LatestEvents['onServed'];
  readonly onRefused: (upstream: Upstream, version: LedgerVersion) => void;
}

/** The fleet and its parts. */
export type FleetParts = ReturnType<typeof buildFleet>;

interface FleetContext extends ServingContext {
  /** Lag of this process's event loop, in ms. */
  readonly ownLag: () => number;
  readonly answerBudget: ByteBudget;
  readonly forkTimes?: Pick<ForksParts, 'intervalMs' | 'pauseMs'> | undefined;
  readonly lookUp: LookUp;
  /** The first addresses of names with `discover: dns`. */
  readonly found: FoundAddresses;
}

/** Times of comparisons of nodes by a single process, in ms: a node gets fewer than one read a second. */
const forkMs = { interval: 5_000, pause: 1_100 };

/** Builds the fleet of the config; no node gets a request before `prober.start`. */
export function buildFleet(config: Config, listener: FleetListener, context: FleetContext) {
  const { log, registry, settings, answerBudget, peers, ownLag, journal, lookUp, found, processes } = context;
  const create = ({ name, url, address, tier, headers, maxRequestsPerSecond, weight }: NodeConfig): Upstream =>
    new Upstream({
      name,
      url: new URL(url),
      address,
      tier,
      headers,
      maxRequestsPerSecond,
      weight,
      connections: config.upstream.connections,
      ...settings.connect,
      ownLag,
    });
  const configs = new Map<Upstream, NodeConfig>(
    nodesOf(config.upstreams, found).map((upstream) => [create(upstream), upstream]),
  );
  const events: FleetEvents = {
    onChange: (change, fields, message) => {
      journal.record(change, fields, message);
      if (change === 'rollback') listener.onRollback();
    },
    onDoubt: (upstream) => {
      const { doubted: chainId } = upstream.chain;
      // A node of another chain that answers for the fleet's chain is on its way back.
      if (chainId !== undefined && chainId !== fleet.chainId) {
        const fields = { upstream: upstream.name, chainId, fleetChainId: fleet.chainId };
        journal.record('chain doubted', fields, 'an answer names another chain: the ledger info decides');
      }
      void prober.look(upstream);
    },
    onStepBack: (upstream) => prober.addresses.onStepBack(upstream),
    onGeneration: () => listener.onGeneration(),
    onRefused: (upstream, version) => listener.onRefused(upstream, version),
    onConfirmed: (version) => listener.onConfirmed(version),
    onHead: (info, upstream) => peers?.publish({ kind: 'head', info, upstream }),
    onAwaited: () => prober.hurry(),
  };
  const dialect = config.dialect === 'auto' ? config.dialect : dialectOf(config.dialect);
  const fleet: Fleet = new Fleet([...configs.keys()], dialect, events, {
    limits: settings.fleet,
    chainId: config.chainId,
  });
  const metrics = {
    ...createUpstreamMetrics(
      registry,
      () => gaugesOf(fleet),
      () => ({
        head: fleet.head?.version,
        oldest: fleet.oldest?.oldestVersion,
        isOut: fleet.outageSinceMs !== undefined,
      }),
    ),
    ...createSenderMetrics(registry, () => ({ waiting: sender.waiting, nodes: placesOf(fleet) })),
  };
  const prober: Prober = new Prober(fleet, settings.probes, journal);
  const onDoubt = (upstream: Upstream): unknown => prober.look(upstream);
  const sender: Sender = new Sender({
    fleet,
    limits: settings.sender,
    metrics,
    log: journal,
    onDoubt,
    budget: answerBudget,
    lookAround: () => prober.compareHeads(),
    checkAddress: (upstream) => prober.addresses.check(upstream),
  });
  const latestEvents: LatestEvents = {
    onServed: (version, state) => listener.onServed(version, state),
    onUnreached: (version) => {
      metrics.unreached.inc();
      log.warn(
        { version, head: fleet.head?.version },
        'no node of this replica has reached the version of another replica',
      );
    },
  };
  const lookAround = () => prober.compareHeads();
  const latest = new Latest({ fleet, sender, events: latestEvents, lookAround }, settings.latest);
  const nodes = new Nodes({ fleet, prober, metrics, log, journal, configs, create });
  const discovery = new Discovery(config.upstreams, {
    lookUp,
    listen: config.listen,
    found,
    settings: settings.discovery,
    journal,
    metrics,
    follow: (wanted) => nodes.follow(wanted),
  });
  const witness = new Witness(fleet, prober);
  const forks = new Forks({
    fleet,
    witness,
    onChange: (change, fields, message) => journal.record(change, fields, message),
    onFork: () => listener.onFork(),
    intervalMs: forkMs.interval * processes,
    pauseMs: forkMs.pause * processes,
    ...context.forkTimes,
  });
  return { fleet, nodes, discovery, prober, sender, latest, witness, forks };
}

/** A node whose head is not believed may be ahead of the fleet's. */
function behind(head: bigint, version: bigint): bigint {
  return version > head ? 0n : head - version;
}

function placesOf(fleet: Fleet) {
  return fleet.upstreams.map(({ name, places, ejections }) => ({
    name,
    limit: places.limit,
    ejected: readClasses.filter((readClass) => ejections[readClass].isOut),
  }));
}

function gaugesOf(fleet: Fleet) {
  const head = fleet.head?.version;
  const nowMs = performance.now();
  return fleet.upstreams.map((upstream) => {
    const { name, health, fault, isDrained, forkedAt, inFlight, window, allowance, address } = upstream;
    const { believed: info } = window;
    // The view of a request sent now, without its milliseconds to the node.
    const view = window.at(nowMs);
    return {
      name,
      isUsable: health === 'usable',
      fault,
      isDrained,
      isForked: forkedAt !== undefined,
      isShared: address.isShared,
      inFlight,
      tokens: allowance.tokens(nowMs),
      head: info?.version,
      oldest: info?.oldestVersion,
      lag: info === undefined || head === undefined || health === 'foreign' ? undefined : behind(head, info.version),
      edgeSpeed: info === undefined ? undefined : window.pace.edgeSpeed * 1000,
      edgeMargin: info === undefined || view === undefined ? undefined : view.safeOldest - info.oldestVersion,
    };
  });
}
