/** The facts of this process for the status page: metric families, sampled once a second, and the state of parts. */
import type { Registry } from 'prom-client';
import type { Access } from '../../../access/index.ts';
import type { Cache } from '../../../cache/index.ts';
import { type Journal, readFamilies } from '../../../metrics/index.ts';
import type { Fleet } from '../../../upstream/index.ts';
import { countedFamilies, countsOf, tenantCells, type Counts } from './counts.ts';
import type { ProcessStatus, Readiness } from './facts.ts';
import { Trend, Windows } from './windows.ts';

/** Parts of a process that its report is made of; functions are called for each report. */
export interface StatusParts {
  readonly fleet: Fleet;
  readonly registry: Registry;
  readonly journal: Journal;
  /** Absent without access control. */
  readonly usage: Access['usage'] | undefined;
  readonly cache: Cache;
  readonly load: () => ProcessStatus['load'];
  readonly isEncoding: () => boolean;
  readonly distrusted: () => Readiness['distrusted'];
  readonly disagreements: () => Readiness['disagreements'];
  readonly certificateExpiresMs: () => number | undefined;
  readonly certificateRefused: () => string | undefined;
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
      cache: parts.cache.status().memory,
      isEncoding: parts.isEncoding(),
      load: parts.load(),
      certificateExpiresMs: parts.certificateExpiresMs(),
      events: parts.journal.events,
    };
  }

  readiness(): Readiness {
    const { fleet, cache, certificateRefused, distrusted, disagreements } = this.#parts;
    const { redis, store } = cache.status();
    const { isReady, outage, nodes, lost } = fleet.report();
    return {
      isReady,
      outage,
      nodes,
      lost,
      certificateRefused: certificateRefused(),
      distrusted: distrusted(),
      disagreements: disagreements(),
      redis,
      store,
    };
  }

  /** Reads the metric families, and records a snapshot when a window needs one. */
  #sample(nowMs: number): Counts {
    const { registry, usage } = this.#parts;
    const counts = countsOf(readFamilies(registry, countedFamilies), tenantCells(usage?.tenants ?? []));
    this.#windows.record(counts, nowMs);
    this.#trend.record(counts, Date.now());
    return counts;
  }
}
