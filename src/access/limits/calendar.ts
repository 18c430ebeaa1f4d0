/** The day and the month of quotas, in UTC. */

/** The periods of quotas, shortest first. */
export const periods = ['day', 'month'] as const;
/** Its name is that of its bound. */
export type Period = (typeof periods)[number];

/** A day, and the month that it is in. */
export interface CalendarDay {
  /** `2026-11-28`. */
  readonly day: string;
  /** `2026-11`. */
  readonly month: string;
  /** Begins, and ends (exclusive): Unix times. */
  readonly fromMs: Readonly<Record<Period, number>>;
  readonly toMs: Readonly<Record<Period, number>>;
}

const dayMs = 86_400_000;
/** A clock that goes back by less than this stands still meanwhile: a period that has ended does not begin again. */
const mostBackMs = 3_600_000;

function dayOf(nowMs: number): CalendarDay {
  const at = new Date(nowMs);
  const [year, month] = [at.getUTCFullYear(), at.getUTCMonth()];
  const day = at.toISOString().slice(0, 10);
  const fromMs = { day: Math.floor(nowMs / dayMs) * dayMs, month: Date.UTC(year, month) };
  const toMs = { day: fromMs.day + dayMs, month: Date.UTC(year, month + 1) };
  return { day, month: day.slice(0, 7), fromMs, toMs };
}

/** The current day by the wall clock. */
export class Calendar {
  readonly #now: () => number;
  #today: CalendarDay;

  /** `now`: Unix time in ms. */
  constructor(now: () => number = () => Date.now()) {
    this.#now = now;
    this.#today = dayOf(now());
  }

  /** Unix time in ms. */
  now(): number {
    return this.#now();
  }

  /** The day of `nowMs`, one object as long as it lasts. */
  at(nowMs: number): CalendarDay {
    const { fromMs, toMs } = this.#today;
    if (nowMs >= toMs.day || nowMs < fromMs.day - mostBackMs) this.#today = dayOf(nowMs);
    return this.#today;
  }
}
