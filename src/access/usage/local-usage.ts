/**
 * Usage of a gateway without Redis, in the process that keeps it for all: the single one, or the primary of workers. With
 * a folder it outlives the process.
 */
import type { Journal } from '../../metrics/index.ts';
import { KeptRecords } from '../kept-records.ts';
import {
  byOutcome,
  covers,
  type DaySums,
  holderOf,
  hourMs,
  hourOf,
  hourStartMs,
  monthBefore,
  type NamedSums,
  type PendingReport,
  rowsOf,
  UsageSums,
  type UsageHolder,
  type UsageQuery,
  type UsageRow,
  type UsageStore,
  type UsageSubject,
} from './usage-store.ts';

/** Age at which hours are dropped. */
const keptMs = 48 * hourMs;
/** Sums of an hour and subject at most: an hour of as many keys, or days of a few. */
const mostHours = 20_000;
/** Sums of a day and holder at most, some 100 MB: two months of 3,000 keys that are used daily. */
const mostDays = 200_000;

/** Sums of one subject in an hour, or of one holder in a day. */
interface KeptSums<Subject> {
  /** `2026-11-28T14`, or `2026-11-28`. */
  readonly period: string;
  readonly subject: Subject;
  readonly sums: UsageSums;
  /** The last report of each process in the sums of an hour. */
  reported?: Map<string, number>;
}

interface LocalUsageOptions {
  /** Absent: usage lasts as long as the process. */
  readonly folder?: string | undefined;
  /** Records troubles of the folder. */
  readonly journal?: Journal | undefined;
  /** Sums are dropped for want of room. */
  readonly onLost?: (() => void) | undefined;
  /** Unix time in ms. Default: the system's. */
  readonly now?: (() => number) | undefined;
}

/** Adds up the reports of the processes, by hour and by day. */
export class LocalUsage implements UsageStore {
  readonly source = 'memory';
  readonly #hours = new Map<string, KeptSums<UsageSubject>>();
  readonly #days = new Map<string, KeptSums<UsageHolder>>();
  readonly #records: KeptRecords<KeptSums<UsageSubject> | KeptSums<UsageHolder>> | undefined;
  readonly #onLost: () => void;
  readonly #now: () => number;
  #droppedIn = '';

  constructor({ folder, journal, onLost = () => undefined, now = Date.now }: LocalUsageOptions = {}) {
    this.#onLost = onLost;
    this.#now = now;
    if (folder === undefined) return;
    const all = () => [...this.#hours.values(), ...this.#days.values()];
    const records = new KeptRecords(folder, 'usage', journal, { lineOf, all });
    this.#records = records;
    for (const line of records.read()) this.#restore(line);
    this.#dropOld();
  }

  add(report: PendingReport): Promise<boolean> {
    const { hour, subject, process, number, sums } = report;
    this.#dropOld();
    const ofHour = this.#sumsOf(this.#hours, mostHours, hour, subject);
    const reported = (ofHour.reported ??= new Map<string, number>());
    if ((reported.get(process) ?? 0) >= number) return Promise.resolve(true);
    reported.set(process, number);
    ofHour.sums.addAll(sums);
    this.#records?.note(ofHour);
    const holder = holderOf(subject);
    if (holder !== undefined) {
      const ofDay = this.#sumsOf(this.#days, mostDays, hour.slice(0, 10), holder);
      ofDay.sums.addAll(byOutcome(sums));
      this.#records?.note(ofDay);
    }
    return Promise.resolve(true);
  }

  read(query: UsageQuery): Promise<UsageRow[]> {
    const found = [...this.#hours.values()].filter(({ period, subject }) => covers(query, period, subject));
    return Promise.resolve(found.flatMap(({ period, subject, sums }) => rowsOf(period, subject, sums.list)));
  }

  readDays(holder: UsageHolder, month: string): Promise<readonly DaySums[]> {
    const days = Array.from({ length: 31 }, (_, at) => `${month}-${String(at + 1).padStart(2, '0')}`);
    const found = days.flatMap((day) => {
      const sums = this.#days.get(nameOf(day, holder))?.sums.list;
      return sums === undefined ? [] : { day, sums };
    });
    return Promise.resolve(found);
  }

  close(): void {
    this.#records?.close();
  }

  /** The oldest sums make room for new ones. */
  #sumsOf<Subject extends UsageSubject | UsageHolder>(
    all: Map<string, KeptSums<Subject>>,
    most: number,
    period: string,
    subject: Subject,
  ): KeptSums<Subject> {
    const name = nameOf(period, subject);
    const known = all.get(name);
    if (known !== undefined) return known;
    if (all.size >= most) {
      const [first] = all.keys();
      if (first !== undefined) all.delete(first);
      this.#onLost();
    }
    const begun = { period, subject, sums: new UsageSums() };
    all.set(name, begun);
    return begun;
  }

  /** Drops hours of two days ago, and days of before the last month. Once an hour. */
  #dropOld(): void {
    const nowMs = this.#now();
    const hour = hourOf(nowMs);
    if (hour === this.#droppedIn) return;
    this.#droppedIn = hour;
    const lastMonth = monthBefore(hour.slice(0, 7));
    for (const [name, { period }] of this.#hours) if (hourStartMs(period) < nowMs - keptMs) this.#hours.delete(name);
    for (const [name, { period }] of this.#days) if (period < lastMonth) this.#days.delete(name);
  }

  /** Replaces the sums by those of a line, which has their totals. */
  #restore(line: string): void {
    const row = parseLine(line);
    if (row === undefined) return;
    const { period, subject } = row;
    const sums = new UsageSums();
    sums.addAll(row.sums);
    if (subject.length === 3) this.#hours.set(nameOf(period, subject), { period, subject, sums });
    else this.#days.set(nameOf(period, subject), { period, subject, sums });
  }
}

function nameOf(period: string, subject: UsageSubject | UsageHolder): string {
  return JSON.stringify([period, ...subject]);
}

function lineOf({ period, subject, sums }: KeptSums<UsageSubject> | KeptSums<UsageHolder>): string {
  const ofNames = sums.list.map(([name, { requests, cost, bytes, saved }]) => [name, requests, cost, bytes, saved]);
  return JSON.stringify([period, subject, ofNames]);
}

/** `undefined` for a torn line, or one of another form. */
function parseLine(line: string) {
  if (line === '') return undefined;
  try {
    const [period, subject, sums] = JSON.parse(line) as unknown[];
    if (typeof period !== 'string' || !Array.isArray(subject) || !Array.isArray(sums)) return undefined;
    const form = subject.length === 3 ? /^\d{4}-\d\d-\d\dT\d\d$/ : /^\d{4}-\d\d-\d\d$/;
    if (!form.test(period) || !(subject.length === 3 || subject.length === 2)) return undefined;
    const named = sums.map((one): NamedSums => {
      const [name, requests, cost, bytes, saved] = one as [string, number, number, number, number];
      if (typeof name !== 'string' || ![requests, cost, bytes, saved].every(Number.isFinite)) throw new Error('form');
      return [name, { requests, cost, bytes, saved }];
    });
    return { period, subject: subject as unknown as UsageSubject | UsageHolder, sums: named };
  } catch {
    return undefined;
  }
}
