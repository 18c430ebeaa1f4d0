/** Reports on the nodes of a fleet: for the status page, and for the gauges of metrics. */
import type { FleetState } from './fleet-state.ts';
import { sharedAddressMessage } from './node/shared-address.ts';
import type { Upstream } from './node/upstream.ts';
import { readClasses } from './select/ranking.ts';

/** Plain data: 64-bit numbers are text. No node is reported with its address. */
export function reportOf(fleet: FleetState, nowMs: number) {
  const { isReady, outageSinceMs, head, oldest, lost, chainId, ledger } = fleet;
  return {
    isReady,
    outage:
      outageSinceMs === undefined
        ? undefined
        : { since: new Date(outageSinceMs).toISOString(), head: head?.version.toString() },
    nodes: fleet.upstreams.map((upstream) => nodeOf(upstream, fleet, nowMs)),
    lost: lost && { from: lost.from.toString(), to: lost.to.toString(), upstreams: lost.upstreams },
    chainId,
    head: head?.version.toString(),
    oldest: oldest?.oldestVersion.toString(),
    /** Versions a second. */
    headSpeed: (ledger.source?.window.pace.headSpeed ?? 0) * 1_000,
  };
}

function nodeOf(upstream: Upstream, fleet: FleetState, nowMs: number) {
  const { name, tier, isDrained, isSuspect, inFlight, window, ejections, unusableSinceMs } = upstream;
  const { believed: info } = window;
  return {
    name,
    tier,
    state: upstream.health,
    reason: upstream.fault,
    since: unusableSinceMs === undefined ? undefined : new Date(unusableSinceMs).toISOString(),
    isDrained,
    forkedAt: upstream.forkedAt?.toString(),
    isSuspect,
    warning: upstream.address.isShared ? sharedAddressMessage : undefined,
    lower: window.lowerAt(nowMs)?.version.toString(),
    chainId: upstream.chain.id ?? upstream.chain.doubted,
    oldest: info?.oldestVersion.toString(),
    head: info?.version.toString(),
    ...lagOf(upstream, fleet, nowMs),
    isLagging: fleet.isLagging(upstream),
    edgeSpeed: window.pace.edgeSpeed * 1_000,
    edgeMargin: marginOf(upstream, nowMs),
    inFlight,
    limit: upstream.places.limit,
    ejected: readClasses.flatMap((readClass) => {
      const { reason, symptom } = ejections[readClass];
      return reason === undefined ? [] : [{ readClass, reason, symptom }];
    }),
  };
}

/** How far a node is behind the fleet's head, by its last report, which is older than its newest after it went back. */
function lagOf({ window, lagMs }: Upstream, { head }: FleetState, nowMs: number) {
  const info = window.lowerAt(nowMs) ?? window.believed;
  if (info === undefined || head === undefined) return { lag: undefined, lagSeconds: 0 };
  // A node that is down falls behind without a report.
  const ms = Math.max(0, lagMs, Number(head.timestampUsec - info.timestampUsec) / 1_000);
  return { lag: behind(head.version, info.version).toString(), lagSeconds: Math.round(ms / 100) / 10 };
}

/** Versions above the reported edge that a read needs to be sent to the node now. */
function marginOf({ window }: Upstream, nowMs: number): string | undefined {
  const view = window.at(nowMs);
  return view === undefined ? undefined : (view.safeOldest - view.oldest).toString();
}

/** A node whose head is not believed may be ahead of the fleet's. */
function behind(head: bigint, version: bigint): bigint {
  return version > head ? 0n : head - version;
}

/** The bounds of the nodes, and the classes of reads that they are ejected from. */
export function limitsOf(fleet: FleetState) {
  return fleet.upstreams.map(({ name, places, ejections }) => ({
    name,
    limit: places.limit,
    ejected: readClasses.filter((readClass) => ejections[readClass].isOut),
  }));
}

/** The readings of each node. */
export function gaugesOf(fleet: FleetState) {
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
