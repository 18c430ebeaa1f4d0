/** The facts of this process for the status page: metric families, sampled once a second, and the state of parts. */
import { performance } from 'node:perf_hooks';
import type { Registry } from 'prom-client';
import { readFamilies } from '../metrics/family.ts';
import { countedFamilies, countsOf, type Counts } from '../proxy/operations/status/counts.ts';
import { Distances } from '../proxy/operations/status/distances.ts';
import { Journal } from '../proxy/operations/status/events.ts';
import type { CacheFacts, LoadFacts, NodeStatus, ProcessStatus } from '../proxy/operations/status/facts.ts';
import type { LineLog } from '../proxy/operations/status/line-throttle.ts';
import { Windows } from '../proxy/operations/status/windows.ts';
import type { Fleet } from '../upstream/fleet.ts';
import { readClasses } from '../upstream/select/need.ts';
import type { Upstream } from '../upstream/node/upstream.ts';
import { statusOf } from './fleet.ts';

interface Sampled {
  readonly fleet: Fleet;
  readonly registry: Registry;
}

/** The sources of one status report. */
export interface StatusParts extends Sampled {
  cache(): CacheFacts;
  redis(): ProcessStatus['redis'];
  load(): LoadFacts;
  encode(): Pick<ProcessStatus, 'isEncoding' | 'distrusted'>;
  disagreements(): ProcessStatus['disagreements'];
  certificateExpiresMs(): number | undefined;
}

/** Samples this process, and builds its report. */
export class StatusSource {
  readonly journal: Journal;
  readonly distances = new Distances();
  readonly #windows = new Windows(performance.now());
  readonly #startedAtMs = Date.now();
  #timer: NodeJS.Timeout | undefined;

  constructor(log: LineLog) {
    this.journal = new Journal(log);
  }

  start(sampled: Sampled): void {
    this.#sample(sampled, performance.now());
    this.#timer = setInterval(() => this.#sample(sampled, performance.now()), 1_000);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  report(parts: StatusParts): ProcessStatus {
    const { fleet } = parts;
    const nowMs = performance.now();
    const total = this.#sample(parts, nowMs);
    return {
      startedAtMs: this.#startedAtMs,
      isReady: fleet.isReady,
      outageSince: fleet.outageSinceMs === undefined ? undefined : new Date(fleet.outageSinceMs).toISOString(),
      chainId: fleet.chainId,
      head: fleet.head?.version.toString(),
      oldest: fleet.oldest?.oldestVersion.toString(),
      headSpeed: (fleet.headSource?.window.headSpeed ?? 0) * 1_000,
      nodes: nodesOf(fleet, nowMs),
      windows: this.#windows.read(total, nowMs),
      total,
      cache: parts.cache(),
      redis: parts.redis(),
      ...parts.encode(),
      disagreements: parts.disagreements(),
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
    return counts;
  }
}

function nodesOf(fleet: Fleet, nowMs: number): readonly NodeStatus[] {
  const views = statusOf(fleet);
  return fleet.upstreams.map((upstream, index) => {
    const { name, tier, window, ejections, isSuspect, inFlight, places } = upstream;
    const { state = 'unproven', chainId, oldest, head, lag } = views[index] ?? {};
    return {
      name,
      tier,
      state,
      isSuspect,
      chainId,
      oldest,
      head,
      lag,
      edgeSpeed: window.edgeSpeed * 1_000,
      edgeMargin: marginOf(upstream, nowMs),
      inFlight,
      limit: places.limit,
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
