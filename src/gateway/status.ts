/** The facts of this process for the status page: metric families, sampled once a second, and the state of parts. */
import type { Registry } from 'prom-client';
import { readFamilies } from '../metrics/family.ts';
import { countedFamilies, countsOf, Distances, type Counts } from '../proxy/operations/status/counts.ts';
import { Journal, type LineLog } from '../proxy/operations/status/events.ts';
import type { CacheFacts, LoadFacts, NodeStatus, ProcessStatus, Readiness } from '../proxy/operations/status/facts.ts';
import { Trend, Windows } from '../proxy/operations/status/windows.ts';
import type { Fleet } from '../upstream/fleet.ts';
import { readClasses } from '../upstream/select/need.ts';
import { sharedAddressMessage } from '../upstream/node/shared-address.ts';
import type { Upstream } from '../upstream/node/upstream.ts';

interface Sampled {
  readonly fleet: Fleet;
  readonly registry: Registry;
}

/** The sources of one status report. */
export interface StatusParts extends Sampled {
  cache(): CacheFacts;
  redis(): Readiness['redis'];
  store(): Readiness['store'];
  load(): LoadFacts;
  isEncoding(): boolean;
  distrusted(): Readiness['distrusted'];
  disagreements(): Readiness['disagreements'];
  certificateExpiresMs(): number | undefined;
}

/** Samples this process, and builds its report. */
export class StatusSource {
  readonly journal: Journal;
  readonly distances = new Distances();
  readonly #windows = new Windows(performance.now());
  readonly #trend = new Trend();
  readonly #startedAtMs = Date.now();
  #timer: NodeJS.Timeout | undefined;

  constructor(log: LineLog) {
    this.journal = new Journal(log);
  }

  start(sampled: Sampled): void {
    this.#sample(sampled, performance.now());
    this.#timer = setInterval(() => this.#sample(sampled, performance.now()), 1_000).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  report(parts: StatusParts): ProcessStatus {
    const { fleet } = parts;
    const nowMs = performance.now();
    const total = this.#sample(parts, nowMs);
    return {
      ...readinessOf(parts),
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
      events: this.journal.events,
    };
  }

  /** Reads the metric families, and records a snapshot when a window needs one. */
  #sample({ fleet, registry }: Sampled, nowMs: number): Counts {
    this.distances.head = fleet.head?.version;
    const counts = countsOf(readFamilies(registry, countedFamilies), this.distances.cells());
    this.#windows.record(counts, nowMs);
    this.#trend.record(counts, Date.now());
    return counts;
  }
}

/** The readiness of this process. */
export function readinessOf(parts: StatusParts): Readiness {
  const { fleet } = parts;
  const { isReady, outageSinceMs, head } = fleet;
  return {
    isReady,
    outage:
      outageSinceMs === undefined
        ? undefined
        : { since: new Date(outageSinceMs).toISOString(), head: head?.version.toString() },
    nodes: nodesOf(fleet, performance.now()),
    distrusted: parts.distrusted(),
    disagreements: parts.disagreements(),
    redis: parts.redis(),
    store: parts.store(),
  };
}

function nodesOf(fleet: Fleet, nowMs: number): readonly NodeStatus[] {
  const head = fleet.head?.version;
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
      chainId: upstream.chain.id ?? upstream.chain.doubted,
      oldest: info?.oldestVersion.toString(),
      head: info?.version.toString(),
      lag: info === undefined || head === undefined ? undefined : (head - info.version).toString(),
      isLagging: fleet.isLagging(upstream),
      edgeSpeed: window.pace.edgeSpeed * 1_000,
      edgeMargin: marginOf(upstream, nowMs),
      inFlight,
      limit: upstream.places.limit,
      ejected: readClasses.flatMap((readClass) => {
        const { reason } = ejections[readClass];
        return reason === undefined ? [] : [{ readClass, reason }];
      }),
    };
  });
}

/** Versions above the reported edge that a read needs to be sent to the node now. */
function marginOf({ window }: Upstream, nowMs: number): string | undefined {
  const view = window.at(nowMs);
  return view === undefined ? undefined : (view.safeOldest - view.oldest).toString();
}
