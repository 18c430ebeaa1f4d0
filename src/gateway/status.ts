/** The facts of this process for the status page: metric families, sampled once a second, and the state of parts. */
import type { Registry } from 'prom-client';
import { type Journal, readFamilies } from '../metrics/index.ts';
import {
  type CacheFacts,
  countedFamilies,
  type Counts,
  countsOf,
  type LoadFacts,
  type ProcessStatus,
  type Readiness,
  tenantCells,
  type TenantCount,
  Trend,
  Windows,
} from '../proxy/operations/index.ts';
import type { Fleet } from '../upstream/index.ts';

interface StatusParts {
  readonly fleet: Fleet;
  readonly registry: Registry;
  readonly journal: Journal;
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
    const nowMs = performance.now();
    const total = this.#sample(nowMs);
    const { chainId, head, oldest, headSpeed } = parts.fleet.report();
    return {
      ...this.readiness(),
      startedAtMs: this.#startedAtMs,
      chainId,
      head,
      oldest,
      headSpeed,
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
    const { isReady, outage, nodes, lost } = fleet.report();
    return {
      isReady,
      outage,
      nodes,
      lost,
      certificateRefused: certificateRefused(),
      distrusted: distrusted(),
      disagreements: disagreements(),
      redis: redis(),
      store: store(),
    };
  }

  /** Reads the metric families, and records a snapshot when a window needs one. */
  #sample(nowMs: number): Counts {
    const { registry, tenants } = this.#parts;
    const counts = countsOf(readFamilies(registry, countedFamilies), tenantCells(tenants()));
    this.#windows.record(counts, nowMs);
    this.#trend.record(counts, Date.now());
    return counts;
  }
}
