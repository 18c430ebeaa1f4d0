/** The facts of this process for the status page: metric families, sampled once a second, and the state of parts. */
import type { Registry } from 'prom-client';
import { type Journal, readFamilies } from '../metrics/index.ts';
import {
  type CacheFacts,
  countedFamilies,
  type Counts,
  countsOf,
  type Distances,
  type LoadFacts,
  type NodeStatus,
  type ProcessStatus,
  type Readiness,
  tenantCells,
  type TenantCount,
  Trend,
  Windows,
} from '../proxy/operations/index.ts';
import { type Fleet, readClasses, sharedAddressMessage, type Upstream } from '../upstream/index.ts';

interface StatusParts {
  readonly fleet: Fleet;
  readonly registry: Registry;
  readonly journal: Journal;
  readonly distances: Distances;
  readonly cache: () => CacheFacts;
  readonly redis: () => Readiness['redis'];
  readonly store: () => Readiness['store'];
  readonly load: () => LoadFacts;
  readonly isEncoding: () => boolean;
  readonly distrusted: () => Readiness['distrusted'];
  readonly disagreements: () => Readiness['disagreements'];
  readonly certificateExpiresMs: () => number | undefined;
  readonly certificateRefused: () => string | undefined;
  /** Requests by tenant since the start; none without access. */
  readonly tenants: () => Iterable<readonly [name: string, count: TenantCount]>;
}

/** Samples this process, and builds its report. */
export class StatusSource {
  readonly #parts: StatusParts;
  readonly #windows = new Windows(performance.now());
  readonly #trend = new Trend();
  readonly #startedAtMs = Date.now();
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: StatusParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#sample(performance.now());
    this.#timer = setInterval(() => this.#sample(performance.now()), 1_000).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  report(): ProcessStatus {
    const parts = this.#parts;
    const { fleet } = parts;
    const nowMs = performance.now();
    const total = this.#sample(nowMs);
    return {
      ...this.readiness(),
      startedAtMs: this.#startedAtMs,
      chainId: fleet.chainId,
      head: fleet.head?.version.toString(),
      oldest: fleet.oldest?.oldestVersion.toString(),
      headSpeed: (fleet.ledger.source?.window.pace.headSpeed ?? 0) * 1_000,
      windows: this.#windows.read(total, nowMs),
      trend: this.#trend.points,
      total,
      cache: parts.cache(),
      isEncoding: parts.isEncoding(),
      load: parts.load(),
      certificateExpiresMs: parts.certificateExpiresMs(),
      events: parts.journal.events,
    };
  }

  readiness(): Readiness {
    const { fleet, certificateRefused, distrusted, disagreements, redis, store } = this.#parts;
    const { isReady, outageSinceMs, head, lost } = fleet;
    return {
      isReady,
      outage:
        outageSinceMs === undefined
          ? undefined
          : { since: new Date(outageSinceMs).toISOString(), head: head?.version.toString() },
      nodes: nodesOf(fleet, performance.now()),
      lost: lost && { from: lost.from.toString(), to: lost.to.toString(), upstreams: lost.upstreams },
      certificateRefused: certificateRefused(),
      distrusted: distrusted(),
      disagreements: disagreements(),
      redis: redis(),
      store: store(),
    };
  }

  /** Reads the metric families, and records a snapshot when a window needs one. */
  #sample(nowMs: number): Counts {
    const { fleet, registry, distances, tenants } = this.#parts;
    distances.head = fleet.head?.version;
    const counts = countsOf(readFamilies(registry, countedFamilies), [...distances.cells(), ...tenantCells(tenants())]);
    this.#windows.record(counts, nowMs);
    this.#trend.record(counts, Date.now());
    return counts;
  }
}

function nodesOf(fleet: Fleet, nowMs: number): readonly NodeStatus[] {
  return fleet.upstreams.map((upstream) => {
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
  });
}

/** How far a node is behind the fleet's head, by its last report, which is older than its newest after it went back. */
function lagOf({ window, lagMs }: Upstream, { head }: Fleet, nowMs: number): Pick<NodeStatus, 'lag' | 'lagSeconds'> {
  const info = window.lowerAt(nowMs) ?? window.believed;
  if (info === undefined || head === undefined) return { lag: undefined, lagSeconds: 0 };
  // A node whose head is not believed may be ahead of the fleet's.
  const versions = head.version > info.version ? head.version - info.version : 0n;
  // A node that is down falls behind without a report.
  const ms = Math.max(0, lagMs, Number(head.timestampUsec - info.timestampUsec) / 1_000);
  return { lag: versions.toString(), lagSeconds: Math.round(ms / 100) / 10 };
}

/** Versions above the reported edge that a read needs to be sent to the node now. */
function marginOf({ window }: Upstream, nowMs: number): string | undefined {
  const view = window.at(nowMs);
  return view === undefined ? undefined : (view.safeOldest - view.oldest).toString();
}
