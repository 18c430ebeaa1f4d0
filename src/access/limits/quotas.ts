/**
 * Use of quotas by account and calendar period. Totals only grow within a period, so that two counts of one account join
 * by their maximum: a counter that lost some, or was away, is made good by the others.
 */
import { type KeptCounts, KeptRecords } from '../kept-records.ts';
import { createAccounts } from './accounts.ts';
import { Calendar, type CalendarDay, periods } from './calendar.ts';
import { rounded } from './cost.ts';
import type { BoundStanding, Charge, ExceededBound, Quota } from './counter.ts';

/** Accounts with a key at most: some 150 MB. One beyond drops the least recently used, and its use with it. */
const mostWithKey = 262_144;
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

/** The use of one account in one unit. */
export class QuotaUse {
  readonly subject: string;
  readonly hasKey: boolean;
  readonly unit: Quota['unit'];
  /** Unique in the process. */
  readonly number = (lastNumber += 1);
  day: PeriodUse;
  month: PeriodUse;
  /** The begin of its lines, made once. */
  readonly #kept: string;

  constructor(
    { subject, hasKey }: Pick<Charge, 'subject' | 'hasKey'>,
    unit: Quota['unit'],
    { day, month }: CalendarDay,
  ) {
    this.subject = subject;
    this.hasKey = hasKey;
    this.unit = unit;
    this.#kept = `[${JSON.stringify(subject)},${hasKey},"${unit}",`;
    this.day = new PeriodUse(day);
    this.month = new PeriodUse(month);
  }

  get isUnreported(): boolean {
    return this.day.alone > this.day.reported || this.month.alone > this.month.reported;
  }

  /** JSON, as the disk keeps it. */
  get line(): string {
    return `${this.#kept}"${this.day.name}",${this.day.used},"${this.month.name}",${this.month.used}]`;
  }

  /** Begins new periods at 0. */
  turn({ day, month }: CalendarDay): void {
    if (this.day.name !== day) this.day = new PeriodUse(day);
    if (this.month.name !== month) this.month = new PeriodUse(month);
  }
}

/** One request's part of a quota, at one time. */
export interface QuotaCharge {
  readonly use: QuotaUse;
  readonly quota: Quota;
  /** 1, or the least cost of the request. */
  readonly units: number;
  readonly today: CalendarDay;
  /** Unix time. */
  readonly nowMs: number;
}

interface QuotasOptions extends KeptCounts {
  /** Processes that share the rest of a quota while each counts alone. Default 1. */
  readonly processes?: number;
  /** Called for an account with a key that is dropped within its month. */
  readonly onDropped?: () => void;
}

/** The accounts of one process, bounded in number. */
export class Quotas {
  /** Called after each count of this process. */
  onCounted: (use: QuotaUse) => void = () => undefined;
  readonly #processes: number;
  readonly #calendar: Calendar;
  readonly #accounts: Readonly<Record<Quota['unit'], ReturnType<typeof accountsOf>>>;
  readonly #records: KeptRecords<QuotaUse> | undefined;
  #month = '';

  constructor({ processes = 1, folder, journal, onDropped, now }: QuotasOptions = {}) {
    this.#processes = processes;
    this.#calendar = new Calendar(now);
    this.#accounts = { requests: accountsOf(onDropped), cost: accountsOf(onDropped) };
    if (folder === undefined) return;
    const records = new KeptRecords<QuotaUse>(folder, 'quotas', journal, {
      lineOf: ({ line }) => line,
      all: () => this.all(),
    });
    this.#records = records;
    this.onCounted = (use) => records.note(use);
    // At the start: a long file takes a while.
    const today = this.today();
    for (const row of records.read()) this.#restore(row, today);
  }

  /** Unix time in ms. */
  now(): number {
    return this.#calendar.now();
  }

  /** The current day. Accounts of a month that is over are dropped. */
  today(nowMs = this.#calendar.now()): CalendarDay {
    const today = this.#calendar.at(nowMs);
    if (today.month === this.#month) return today;
    this.#month = today.month;
    for (const { key, address } of Object.values(this.#accounts)) {
      key.clear();
      address.clear();
    }
    return today;
  }

  /** The charge of a request to its account. */
  charge(charge: Charge, quota: Quota): QuotaCharge {
    const nowMs = this.#calendar.now();
    const today = this.today(nowMs);
    const units = quota.unit === 'cost' ? charge.cost : 1;
    return { use: this.useOf(charge, quota.unit, today), quota, units, today, nowMs };
  }

  useOf(account: Pick<Charge, 'subject' | 'hasKey'>, unit: Quota['unit'], today = this.today()): QuotaUse {
    const accounts = this.#accounts[unit][account.hasKey ? 'key' : 'address'];
    let use = accounts.get(account.subject);
    if (use === undefined) accounts.set(account.subject, (use = new QuotaUse(account, unit, today)));
    use.turn(today);
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
    if (!isUnsure) this.onCounted(use);
  }

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

  /** Each account, those used last at the end. */
  *all(): Iterable<QuotaUse> {
    this.today();
    for (const accounts of Object.values(this.#accounts).flatMap(({ key, address }) => [key, address])) {
      for (const use of accounts.rvalues()) if (use !== undefined) yield use;
    }
  }

  close(): void {
    this.#records?.close();
  }

  /** Takes over a row of the current month: the last one of an account counts. */
  #restore(parts: unknown, today: CalendarDay): void {
    const row = parseRow(parts);
    if (row?.month !== today.month) return;
    const use = this.useOf(row, row.unit, today);
    use.month.known = row.ofMonth;
    use.day.known = row.day === today.day ? row.ofDay : 0;
  }

  /** The part of one process, one at least while something is left. */
  #shareOf(left: number): number {
    if (this.#processes === 1) return left;
    return left <= 0 ? left : Math.max(1, Math.floor(left / this.#processes));
  }
}

/** Apart: addresses, however many, drop no account of a key. */
function accountsOf(onDropped?: () => void) {
  return {
    key: createAccounts<QuotaUse>(mostWithKey, onDropped),
    address: createAccounts<QuotaUse>(mostAddresses),
  };
}

/** `undefined` for a row of another form. */
function parseRow(parts: unknown) {
  if (!Array.isArray(parts) || parts.length !== 7) return undefined;
  const [subject, hasKey, unit, day, ofDay, month, ofMonth] = parts as unknown[];
  if (typeof subject !== 'string' || typeof hasKey !== 'boolean' || (unit !== 'requests' && unit !== 'cost')) return;
  if (typeof day !== 'string' || typeof month !== 'string' || !isAmount(ofDay) || !isAmount(ofMonth)) return;
  return { subject, hasKey, unit, day, ofDay, month, ofMonth } as const;
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}
