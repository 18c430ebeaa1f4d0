/**
 * Use of quotas by account and calendar period. Totals only grow within a period, so that two counts of one account join
 * by their maximum: a counter that lost some, or was away, is made good by the others.
 */
import { Accounts } from './accounts.ts';
import { Calendar, type CalendarDay, periods } from './calendar.ts';
import { rounded } from './cost.ts';
import type { BoundStanding, Charge, ExceededBound, Quota } from './counter.ts';

/** Accounts with a key at most: some 150 MB. One beyond drops the least recently used, and its use with it. */
const mostWithKey = 262_144;
/** Accounts of addresses at most. */
const mostAddresses = 16_384;

/** Nothing was learned from Redis. */
const noEpoch = '-';

/** The use of one account within one day or month, in the unit of its quota. */
export class PeriodUse {
  /** `2026-11-28` or `2026-11`. */
  readonly name: string;
  /** The largest total that Redis or the primary replied; where this process counts for all, that of its file. */
  known = 0;
  /** Units that this process counted by itself. */
  alone = 0;
  /** The part of `alone` that is in `known`. */
  reported = 0;
  /** The epoch of `known`: another one begins when Redis has lost its data. */
  epoch = noEpoch;
  /** Units that Redis or the primary may have counted, without an answer, since the last answer. */
  unsure = 0;

  constructor(name: string) {
    this.name = name;
  }

  /** Units that are not in `known`. */
  get here(): number {
    return this.alone - this.reported + this.unsure;
  }

  get used(): number {
    return this.known + this.here;
  }

  /** Takes over a reply. `total`: with `reported` units of this process's `alone`. */
  learn(total: number, reported: number, epoch = noEpoch): void {
    const isSame = epoch === this.epoch;
    this.known = isSame ? Math.max(this.known, total) : total;
    this.reported = isSame ? Math.max(this.reported, reported) : reported;
    this.epoch = epoch;
    this.unsure = 0;
  }
}

let lastNumber = 0;

/** The use of one account. */
export class QuotaUse {
  /** The account, and the unit that is counted: each unit has a count of its own. */
  readonly subject: string;
  readonly hasKey: boolean;
  readonly unit: Quota['unit'];
  /** Unique in the process. */
  readonly number = (lastNumber += 1);
  /** The begin of its lines in the file, made once: JSON of these three. */
  readonly kept: string;
  day: PeriodUse;
  month: PeriodUse;
  usedAtMs = -Infinity;

  constructor(
    { subject, hasKey }: Pick<Charge, 'subject' | 'hasKey'>,
    unit: Quota['unit'],
    { day, month }: CalendarDay,
  ) {
    this.subject = subject;
    this.hasKey = hasKey;
    this.unit = unit;
    this.kept = `[${JSON.stringify(subject)},${hasKey},"${unit}",`;
    this.day = new PeriodUse(day);
    this.month = new PeriodUse(month);
  }

  /** Whether units wait to be reported. */
  get isUnreported(): boolean {
    return this.day.alone > this.day.reported || this.month.alone > this.month.reported;
  }

  /** Begins new periods at 0. */
  turn({ day, month }: CalendarDay): void {
    if (this.day.name !== day) this.day = new PeriodUse(day);
    if (this.month.name !== month) this.month = new PeriodUse(month);
  }
}

/** The kept use of an account in its last day and month. */
export interface KeptUse {
  readonly subject: string;
  readonly hasKey: boolean;
  readonly unit: Quota['unit'];
  readonly day: string;
  readonly ofDay: number;
  readonly month: string;
  readonly ofMonth: number;
}

/** One request's part of a quota, at one time. */
interface QuotaCharge {
  readonly use: QuotaUse;
  readonly quota: Quota;
  /** 1, or the least cost of the request. */
  readonly units: number;
  readonly today: CalendarDay;
  /** Unix time in ms. */
  readonly nowMs: number;
}

interface QuotasOptions {
  /** Processes that share the rest of a quota while each counts alone. Default 1. */
  readonly processes?: number | undefined;
  /** Unix time in ms. Default: the system's. */
  readonly now?: (() => number) | undefined;
  /** Reads the kept use; called once. */
  readonly load?: (() => Iterable<KeptUse>) | undefined;
  /** Called after each count of this process. */
  readonly onCounted?: ((use: QuotaUse) => void) | undefined;
  /** Called for an account that is dropped within its month. */
  readonly onDropped?: (() => void) | undefined;
}

/** The accounts of one process, bounded in number. */
export class Quotas {
  readonly #processes: number;
  readonly #calendar: Calendar;
  readonly #onCounted: (use: QuotaUse) => void;
  readonly #onDropped: () => void;
  /** Apart: addresses, however many, drop no account of a key. */
  readonly #accounts = {
    requests: { key: new Accounts<QuotaUse>(mostWithKey), address: new Accounts<QuotaUse>(mostAddresses) },
    cost: { key: new Accounts<QuotaUse>(mostWithKey), address: new Accounts<QuotaUse>(mostAddresses) },
  };
  #month = '';
  #load: (() => Iterable<KeptUse>) | undefined;

  constructor({ processes = 1, now, load, onCounted, onDropped }: QuotasOptions = {}) {
    this.#processes = processes;
    this.#calendar = new Calendar(now);
    this.#load = load;
    this.#onCounted = onCounted ?? (() => undefined);
    this.#onDropped = onDropped ?? (() => undefined);
  }

  /** Unix time in ms. */
  now(): number {
    return this.#calendar.now();
  }

  /** The current day. Accounts of a month that is over are dropped. */
  today(nowMs = this.#calendar.now()): CalendarDay {
    const today = this.#calendar.at(nowMs);
    if (today.month !== this.#month) this.#beginMonth(today);
    return today;
  }

  /** The charge of a request to its account. */
  charge(charge: Charge, quota: Quota): QuotaCharge {
    const nowMs = this.#calendar.now();
    const today = this.today(nowMs);
    return { use: this.useOf(charge, quota.unit, today), quota, units: unitsOf(charge, quota), today, nowMs };
  }

  /** The account, created where it is missing. */
  useOf(account: Pick<Charge, 'subject' | 'hasKey'>, unit: Quota['unit'], today = this.today()): QuotaUse {
    const accounts = this.#accounts[unit][account.hasKey ? 'key' : 'address'];
    const nowMs = performance.now();
    let use = accounts.use(account.subject, nowMs);
    if (use === undefined) {
      use = new QuotaUse(account, unit, today);
      const dropped = accounts.add(account.subject, use, nowMs);
      if (dropped?.hasKey === true) this.#onDropped();
    } else use.turn(today);
    return use;
  }

  /** The exceeded quota that ends last. */
  findOver({ use, quota, units, today, nowMs }: QuotaCharge): ExceededBound | undefined {
    let over: ExceededBound | undefined;
    for (const name of periods) {
      const limit = quota[name];
      if (limit === undefined) continue;
      const { known, here } = use[name];
      // A request that costs more than the whole quota is admitted while nothing is used, as in a window.
      if (here > this.#shareOf(limit - known) - Math.min(units, limit)) {
        over = { name, freeInMs: today.toMs[name] - nowMs };
      }
    }
    return over;
  }

  /** Counts units here. `isUnsure`: Redis or the primary may have counted them. */
  add(use: QuotaUse, units: number, isUnsure = false): void {
    for (const name of periods) {
      const period = use[name];
      if (isUnsure) period.unsure += units;
      else period.alone = rounded(period.alone + units);
    }
    if (!isUnsure) this.#onCounted(use);
  }

  /** Adds the standings of the quota to those of other bounds. */
  addStandings({ use, quota, today, nowMs }: QuotaCharge, standings: BoundStanding[]): void {
    for (const name of periods) {
      const limit = quota[name];
      if (limit === undefined) continue;
      const { used } = use[name];
      const freeInMs = used > 0 ? today.toMs[name] - nowMs : undefined;
      standings.push({ name, remaining: Math.max(0, Math.floor(limit - used)), freeInMs });
    }
  }

  /** Counts the cost of an ended request beyond its charge, in the current periods. */
  settle(account: Pick<Charge, 'subject' | 'hasKey'>, quota: Quota, extraCost: number): void {
    if (quota.unit === 'cost' && extraCost > 0) this.add(this.useOf(account, quota.unit), extraCost);
  }

  /** All accounts with use in the current month. */
  *all(): Iterable<QuotaUse> {
    this.today();
    for (const { key, address } of Object.values(this.#accounts)) {
      yield* key.values();
      yield* address.values();
    }
  }

  #beginMonth(today: CalendarDay): void {
    this.#month = today.month;
    for (const { key, address } of Object.values(this.#accounts)) {
      key.clear();
      address.clear();
    }
    const kept = this.#load?.() ?? [];
    this.#load = undefined;
    for (const { subject, hasKey, unit, day, ofDay, month, ofMonth } of kept) {
      if (month !== today.month) continue;
      const use = this.useOf({ subject, hasKey }, unit, today);
      use.month.known = ofMonth;
      if (day === today.day) use.day.known = ofDay;
    }
  }

  /** The part of one process, one at least while something is left. */
  #shareOf(left: number): number {
    if (this.#processes === 1) return left;
    return left <= 0 ? left : Math.max(1, Math.floor(left / this.#processes));
  }
}

function unitsOf({ cost }: Charge, { unit }: Quota): number {
  return unit === 'cost' ? cost : 1;
}
