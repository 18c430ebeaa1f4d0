/** How old the states are that reads of "latest" are given, and how far behind the fleet. */
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { LatestMetrics } from '../metrics/http-metrics.ts';
import type { Fleet } from '../upstream/fleet.ts';
import type { Snapshot } from '../upstream/shown.ts';

export class ServedState {
  readonly #fleet: Fleet;
  readonly #metrics: LatestMetrics;
  #head: LedgerInfo | undefined;
  #served: LedgerVersion | undefined;
  #lag = 0;

  constructor(fleet: Fleet, metrics: LatestMetrics) {
    this.#fleet = fleet;
    this.#metrics = metrics;
  }

  /** A read is answered from this state now. */
  note({ info, asOfMs }: Snapshot, nowMs: number): void {
    this.#metrics.observeStaleness((nowMs - asOfMs) / 1000);
    this.noteLag(info.version);
  }

  /** Thousands of answers come between two heads: the difference is made once for all of them. */
  noteLag(version: LedgerVersion): void {
    const { head } = this.#fleet;
    if (head !== this.#head || version !== this.#served) {
      this.#head = head;
      this.#served = version;
      this.#lag = head === undefined ? 0 : Math.max(0, Number(head.version - version));
    }
    this.#metrics.observeLag(this.#lag);
  }
}
