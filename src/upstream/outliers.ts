/** Passes over nodes that do worse than the others, tells of it, and brings them back (see `Ejection`). */
import type { SenderMetrics } from '../metrics/sender-metrics.ts';
import type { Failure } from './course.ts';
import type { Fleet } from './fleet.ts';
import type { ReadClass } from './read-class.ts';
import { positionOf, type Need } from './need.ts';
import { holdingOf } from './ranking.ts';
import type { UpstreamLog } from './sender.ts';
import type { Upstream } from './upstream.ts';
import type { Known } from './useful.ts';

export interface OutliersParts {
  readonly fleet: Fleet;
  readonly metrics: SenderMetrics;
  readonly log: UpstreamLog;
}

export class Outliers {
  readonly #parts: OutliersParts;
  /** Nodes that have been passed over since they were last found in for every class. */
  readonly #out = new Set<Upstream>();

  constructor(parts: OutliersParts) {
    this.#parts = parts;
  }

  /** Whether any node may be passed over: where none is, nothing more is looked at. */
  get isAnyOut(): boolean {
    return this.#out.size > 0;
  }

  /** The read that these nodes failed was answered: by another node, or by one of them when it was asked again. */
  blame(readClass: ReadClass, failures: readonly Failure[]): void {
    if (failures.length === 0) return;
    const nowMs = performance.now();
    for (const { upstream, sign, sentAtMs } of failures) {
      const ejection = upstream.ejections[readClass];
      const pauseMs = ejection.failed(sign, sentAtMs, nowMs, this.#othersShare(upstream, readClass, nowMs));
      const { reason } = ejection;
      if (pauseMs === undefined || reason === undefined) continue;
      this.#out.add(upstream);
      this.#parts.metrics.ejected(upstream.name, readClass, reason);
      this.#parts.log.tell(
        'ejected',
        { upstream: upstream.name, readClass, reason, pauseMs },
        'upstream is passed over: others answer what it does not',
      );
    }
  }

  /** A node that is passed over for the class, holds what is asked for, and is due for a trial, which begins. */
  dueForTrial(
    readClass: ReadClass,
    known: readonly Known[],
    { need, timeoutMs }: { readonly need: Need; readonly timeoutMs: number },
  ): Upstream | undefined {
    const nowMs = performance.now();
    const position = positionOf(need);
    for (const { upstream, window } of known) {
      const isFit = position === undefined || holdingOf(window, position) === 'held';
      if (isFit && upstream.ejections[readClass].beginTrial(nowMs, timeoutMs)) return upstream;
    }
    for (const upstream of this.#out) if (upstream.isRemoved || !isOut(upstream)) this.#out.delete(upstream);
    return undefined;
  }

  endTrial(readClass: ReadClass, upstream: Upstream, isAnswered: boolean): void {
    const ended = upstream.ejections[readClass].endTrial(isAnswered, performance.now());
    const fields = { upstream: upstream.name, readClass };
    if (ended === true) this.#parts.log.tell('back', fields, 'upstream is no longer passed over');
    else if (ended !== false) this.#parts.log.debug({ ...fields, pauseMs: ended }, 'upstream stays passed over');
  }

  #othersShare(upstream: Upstream, readClass: ReadClass, nowMs: number): number {
    let largest = 0;
    for (const other of this.#parts.fleet.upstreams) {
      if (other === upstream || other.ejections[readClass].isOut) continue;
      largest = Math.max(largest, other.ejections[readClass].errorShare(nowMs));
    }
    return largest;
  }
}

function isOut({ ejections }: Upstream): boolean {
  return ejections.head.isOut || ejections.archive.isOut || ejections.view.isOut;
}
