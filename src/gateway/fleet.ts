/** Builds the fleet: nodes, what is known of them, and the ways to ask them. */
import { collectDefaultMetrics, Registry } from 'prom-client';
import type { Logger } from 'pino';
import type { Config, UpstreamConfig } from '../config/config.ts';
import { dialectOf } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import { createSenderMetrics } from '../metrics/sender-metrics.ts';
import { createUpstreamMetrics } from '../metrics/upstream-metrics.ts';
import type { Journal } from '../proxy/operations/status/events.ts';
import type { OutageStatus, UpstreamStatus } from '../proxy/operations/operations-server.ts';
import type { ByteBudget } from '../upstream/byte-budget.ts';
import { Fleet, type FleetEvents } from '../upstream/fleet.ts';
import { Latest, type LatestEvents } from '../upstream/latest.ts';
import { Prober } from '../upstream/node/probe.ts';
import { readClasses } from '../upstream/select/need.ts';
import { Sender } from '../upstream/dispatch/sender.ts';
import { Upstream } from '../upstream/node/upstream.ts';
import { Witness } from '../upstream/witness.ts';
import { Nodes } from './nodes.ts';
import type { PeerWorkers } from './peer-workers.ts';
import type { LiveSettings } from './settings.ts';

/** What others want to hear of the fleet. */
export interface FleetListener {
  /** From now on nothing that was read before may be used. */
  readonly onGeneration: () => void;
  /** The ledger has gone back. */
  readonly onRollback: () => void;
  /** See `LatestEvents.onServed`. */
  readonly onServed: LatestEvents['onServed'];
  readonly onRefused: (upstream: Upstream, version: LedgerVersion) => void;
}

export type FleetParts = ReturnType<typeof buildFleet>;

export interface FleetContext {
  readonly settings: LiveSettings;
  /** How late this process runs, in ms. */
  readonly ownLag: () => number;
  /** Bounds the bytes of answers that are read whole. */
  readonly answerBudget: ByteBudget;
  readonly peers: PeerWorkers | undefined;
  /** Takes what is remembered. */
  readonly journal: Journal;
}

export function buildFleet(config: Config, log: Logger, listener: FleetListener, options: FleetContext) {
  const { settings, answerBudget, peers, ownLag, journal } = options;
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  // Gauges under counters' names: promtool takes offence, and their labels are of Node's inner classes.
  for (const kind of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${kind}_total`);
  const create = ({ name, url, tier, headers }: UpstreamConfig): Upstream =>
    new Upstream({ name, url, tier, headers, connections: config.upstream.connections, ...settings.connect, ownLag });
  const configs = new Map(config.upstreams.map((upstream) => [create(upstream), upstream]));
  const events: FleetEvents = {
    onChange: (change, fields, message) => {
      journal.tell(change, fields, message);
      if (change === 'rollback') listener.onRollback();
    },
    onDoubt: (upstream) => {
      const { doubted: chainId } = upstream.chain;
      if (chainId !== undefined) {
        const fields = { upstream: upstream.name, chainId, fleetChainId: fleet.chainId };
        journal.tell('chain doubted', fields, 'an answer is of an other chain: the ledger info decides');
      }
      void prober.look(upstream);
    },
    onGeneration: () => listener.onGeneration(),
    onRefused: (upstream, version) => listener.onRefused(upstream, version),
    onAwaited: () => prober.hurry(),
  };
  const fleet: Fleet = new Fleet([...configs.keys()], dialectOf(config.dialect), events, {
    onHead: (info, upstream) => peers?.publish({ kind: 'head', info, upstream }),
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
  });
  const latestEvents: LatestEvents = {
    onServed: (version, state) => listener.onServed(version, state),
    onUnreached: (version) => {
      metrics.unreached.inc();
      log.warn({ version, head: fleet.head?.version }, 'no node here has reached the version of another replica');
    },
  };
  const latest = new Latest({ fleet, sender, events: latestEvents }, settings.latest);
  const nodes = new Nodes({ fleet, prober, metrics, log, journal, configs, create });
  const witness = new Witness(fleet, prober);
  return { fleet, nodes, prober, sender, latest, registry, witness };
}

export function statusOf(fleet: Fleet): readonly UpstreamStatus[] {
  const head = fleet.head?.version;
  return fleet.upstreams.map(({ name, url, tier, health, chain, chainId, window: { info } }) => ({
    name,
    url: url.href,
    tier,
    state: health,
    ...(health === 'foreign' ? { reason: 'other chain' as const } : {}),
    chainId: chainId ?? chain.doubted,
    oldest: info?.oldestVersion.toString(),
    head: info?.version.toString(),
    lag: info === undefined || head === undefined ? undefined : (head - info.version).toString(),
  }));
}

function placesOf(fleet: Fleet) {
  return fleet.upstreams.map(({ name, places, ejections }) => ({
    name,
    limit: places.limit,
    ejected: readClasses.filter((readClass) => ejections[readClass].isOut),
  }));
}

/** What is known while no node answers. */
export function outageOf(fleet: Fleet): OutageStatus | undefined {
  const { outageSinceMs, head } = fleet;
  if (outageSinceMs === undefined) return undefined;
  return { since: new Date(outageSinceMs).toISOString(), head: head?.version.toString() };
}

function gaugesOf(fleet: Fleet) {
  const head = fleet.head?.version;
  const nowMs = performance.now();
  return fleet.upstreams.map(({ name, health, inFlight, window }) => {
    const { info, edgeSpeed } = window;
    // As a request sees it that is sent now; how long it takes to get there differs by milliseconds.
    const view = window.at(nowMs);
    return {
      name,
      isUsable: health === 'usable',
      inFlight,
      head: info?.version,
      oldest: info?.oldestVersion,
      lag: info === undefined || head === undefined || health === 'foreign' ? undefined : head - info.version,
      edgeSpeed: info === undefined ? undefined : edgeSpeed * 1000,
      edgeMargin: info === undefined || view === undefined ? undefined : view.safeOldest - info.oldestVersion,
    };
  });
}
