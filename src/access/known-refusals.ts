/**
 * Refusals of a moment ago that still hold: nothing that was counted is free again before a time that is known. Whoever
 * goes on asking far over a limit costs nobody a look at Redis, which counts for all others, too.
 */
import type { Bounds, Charge, Count, Standing } from './counter.ts';

type Refusal = Count & { readonly isAdmitted: false };

interface Known {
  readonly count: Refusal;
  readonly bounds: Bounds;
  readonly cost: number;
  readonly askedMs: number;
  readonly untilMs: number;
}

/** Redis may lose what it counted, and then there is room sooner. */
const longestMs = 1_000;
/** The oldest make room. */
const maxKnown = 4_096;

export class KnownRefusals {
  readonly #now: () => number;
  readonly #known = new Map<string, Known>();

  /** `now`: monotonic, in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** What would be said of `charge` if it were asked; `undefined` where that is not known. */
  find(name: string, { bounds, cost }: Charge): Refusal | undefined {
    const known = this.#known.get(name);
    if (known === undefined) return undefined;
    const nowMs = this.#now();
    if (nowMs >= known.untilMs) {
      this.#known.delete(name);
      return undefined;
    }
    // Another plan has other bounds, and what costs less may have room.
    if (known.bounds !== bounds || cost < known.cost) return undefined;
    return agedBy(known.count, nowMs - known.askedMs);
  }

  /** Takes what was said of `charge`, which was asked at `askedMs`. Requests under way end when they end. */
  note(name: string, { bounds, cost }: Charge, { count, askedMs }: { count: Refusal; askedMs: number }): void {
    if (count.over === 'concurrency' || count.freeInMs <= 0) return;
    const untilMs = askedMs + Math.min(count.freeInMs, longestMs);
    this.#known.delete(name);
    this.#known.set(name, { count, bounds, cost, askedMs, untilMs });
    if (this.#known.size <= maxKnown) return;
    const [oldest] = this.#known.keys();
    if (oldest !== undefined) this.#known.delete(oldest);
  }
}

function agedBy(count: Refusal, ms: number): Refusal {
  const later = (inMs: number): number => Math.max(1, Math.ceil(inMs - ms));
  const standings = count.standings.map((standing): Standing => {
    const { freeInMs } = standing;
    return freeInMs === undefined ? standing : { ...standing, freeInMs: later(freeInMs) };
  });
  return { ...count, freeInMs: later(count.freeInMs), standings };
}
