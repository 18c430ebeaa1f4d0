/** Usage as plain data: sums by hour and key, by day and holder, and their rows; and what keeps them in this process. */
import { accessOperations } from '../../config/index.ts';
import { type KeptCounts, KeptRecords } from '../kept-records.ts';
import type { AccessOperation, Principal } from '../keys/principals.ts';
import { rounded } from '../limits/cost.ts';

/** Outcomes of requests, as they are charged; `refused` is free. `local`: answered here without a node. */
export const usageOutcomes = ['hit', 'miss', 'collapsed', 'local', 'error', 'refused'] as const;
/** One of them. */
export type UsageOutcome = (typeof usageOutcomes)[number];

/** Sums for one key, hour, operation and outcome. Requests without a key share one row per plan. */
export interface UsageRow {
  /** Its begin, ISO 8601 in UTC. */
  readonly hour: string;
  readonly key: string | null;
  readonly tenant: string | null;
  readonly plan: string;
  readonly operation: string;
  readonly outcome: string;
  readonly requests: number;
  readonly cost: number;
  /** Sum of the answers' body lengths. */
  readonly bytes: number;
  /** Requests that the gateway answered in a node's place. */
  readonly saved: number;
}

/** The rows to report. */
export interface UsageQuery {
  /** Begin of the first hour at the earliest. Unix time in ms. */
  readonly fromMs: number;
  /** End, exclusive, of the hours' begins. */
  readonly toMs: number;
  readonly key?: string | undefined;
  readonly tenant?: string | undefined;
  /** Reading stops above this number of rows. */
  readonly mostRows: number;
}

/** The key, tenant and plan that usage counts for, also as text in Redis. */
export type UsageSubject = readonly [key: string | null, tenant: string | null, plan: string];

/** The key whose holder sees its usage, whatever its plan was, also as text in Redis. */
export type UsageHolder = readonly [key: string, tenant: string];

/** Milliseconds of an hour. */
export const hourMs = 3_600_000;

/** The hour of a Unix time in ms, such as `2026-11-21T14`: it begins with its day and month. */
export function hourOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 13);
}

/** The inverse of `hourOf`: the hour's begin. */
function hourStartMs(hour: string): number {
  return Date.parse(`${hour}:00:00.000Z`);
}

/** The month ahead of one such as `2026-11`. */
export function monthBefore(month: string): string {
  const [year, number] = month.split('-').map(Number) as [number, number];
  return new Date(Date.UTC(year, number - 2)).toISOString().slice(0, 7);
}

/** The subject of a principal. Addresses are left out: usage stores no personal data. */
export function usageSubjectOf({ name, tenant, plan }: Principal): UsageSubject {
  return name === undefined ? [null, null, plan.name] : [name, tenant, plan.name];
}

/** The holder of a subject; `undefined`: requests without a key. */
export function holderOf([key, tenant]: UsageSubject): UsageHolder | undefined {
  return key === null || tenant === null ? undefined : [key, tenant];
}

/** Whether the query covers the subject's hour. */
export function covers(query: UsageQuery, hour: string, [key, tenant]: UsageSubject): boolean {
  const startMs = hourStartMs(hour);
  if (startMs < query.fromMs || startMs >= query.toMs) return false;
  return (query.key === undefined || query.key === key) && (query.tenant === undefined || query.tenant === tenant);
}

/** The measures of requests. */
export const measures = ['requests', 'cost', 'bytes', 'saved'] as const;
type Sums = { -readonly [Measure in (typeof measures)[number]]: number };

/** Sums of nothing. */
export const noSums: Readonly<Sums> = { requests: 0, cost: 0, bytes: 0, saved: 0 };

/** Sums under `operation|outcome`, or under an outcome alone. */
export type NamedSums = readonly [name: string, sums: Readonly<Sums>];

/** `operation|outcome`, made once: each request looks one up. */
const sumsNames = Object.fromEntries(
  accessOperations.map((operation) => [
    operation,
    Object.fromEntries(usageOutcomes.map((outcome) => [outcome, `${operation}|${outcome}`])),
  ]),
) as Record<AccessOperation, Record<UsageOutcome, string>>;

/** Sums by name. */
export class UsageSums {
  readonly #sums = new Map<string, Sums>();

  get isEmpty(): boolean {
    return this.#sums.size === 0;
  }

  add(operation: AccessOperation, outcome: UsageOutcome, amounts: Readonly<Sums>): void {
    this.#addTo(sumsNames[operation][outcome], amounts);
  }

  addAll(named: Iterable<NamedSums>): void {
    for (const [name, amounts] of named) this.#addTo(name, amounts);
  }

  get list(): readonly NamedSums[] {
    return [...this.#sums].map(([name, sums]) => [name, { ...sums }]);
  }

  #addTo(name: string, { requests, cost, bytes, saved }: Readonly<Sums>): void {
    const sums = this.#sums.get(name);
    if (sums === undefined) {
      this.#sums.set(name, { requests, cost, bytes, saved });
      return;
    }
    sums.requests += requests;
    sums.cost += cost;
    sums.bytes += bytes;
    sums.saved += saved;
  }
}

/** The same sums under their outcomes alone. */
export function byOutcome(named: readonly NamedSums[]): readonly NamedSums[] {
  return named.map(([name, sums]) => [name.slice(name.indexOf('|') + 1), sums]);
}

/** The rows of sums under `operation|outcome`. */
export function rowsOf(hour: string, [key, tenant, plan]: UsageSubject, named: readonly NamedSums[]): UsageRow[] {
  return named.map(([name, { requests, cost, bytes, saved }]) => {
    const [operation = '', outcome = ''] = name.split('|');
    const begin = `${hour}:00:00Z`;
    return { hour: begin, key, tenant, plan, operation, outcome, requests, cost: rounded(cost), bytes, saved };
  });
}

/** One process's sums for an hour and subject, to be added to the store. */
export interface PendingReport {
  readonly hour: string;
  readonly subject: UsageSubject;
  readonly sums: readonly NamedSums[];
  /** A unique name of the process. */
  readonly process: string;
  /** Greater than those of the process's earlier reports. */
  readonly number: number;
}

/** The sums of a holder's day, under outcomes. */
export interface DaySums {
  /** `2026-11-28`. */
  readonly day: string;
  readonly sums: readonly NamedSums[];
}

/** Keeps the usage of all processes. No method rejects. */
export interface UsageStore {
  /** `redis`: of all replicas; `memory`: of this gateway. */
  readonly source: 'redis' | 'memory';
  /** Adds a report, once, however often it comes; false where the store did not confirm it. */
  add(report: PendingReport): Promise<boolean>;
  /** `undefined` without an answer. May stop above `mostRows`. */
  read(query: UsageQuery): Promise<UsageRow[] | undefined>;
  /** The days of a month (`2026-11`), oldest first; `undefined` without an answer. */
  readDays(holder: UsageHolder, month: string): Promise<readonly DaySums[] | undefined>;
  /** Keeps what it has got. */
  close(): void;
}

/** Adds up rows that differ only in their sums; sorted. */
export function mergeRows(rows: readonly UsageRow[]): UsageRow[] {
  const merged = new Map<string, UsageRow>();
  for (const row of rows) {
    const { hour, key, tenant, plan, operation, outcome } = row;
    const name = JSON.stringify([hour, key, tenant, plan, operation, outcome]);
    const { requests, cost, bytes, saved } = merged.get(name) ?? noSums;
    merged.set(name, {
      ...row,
      requests: requests + row.requests,
      cost: rounded(cost + row.cost),
      bytes: bytes + row.bytes,
      saved: saved + row.saved,
    });
  }
  return [...merged.entries()].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, row]) => row);
}

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

/**
 * Usage of a gateway without Redis, in the process that keeps it for all, by hour and by day: the single one, or the primary
 * of workers. With a folder it outlives the process.
 */
export class LocalUsage implements UsageStore {
  readonly source = 'memory';
  readonly #hours = new Map<string, KeptSums<UsageSubject>>();
  readonly #days = new Map<string, KeptSums<UsageHolder>>();
  readonly #records: KeptRecords<KeptSums<UsageSubject> | KeptSums<UsageHolder>> | undefined;
  readonly #onLost: () => void;
  readonly #now: () => number;
  #droppedIn = '';

  /** `onLost`: sums are dropped for want of room. */
  constructor({ folder, journal, now = Date.now }: KeptCounts = {}, onLost: () => void = () => undefined) {
    this.#onLost = onLost;
    this.#now = now;
    if (folder === undefined) return;
    const all = () => [...this.#hours.values(), ...this.#days.values()];
    const records = new KeptRecords(folder, 'usage', journal, { lineOf, all });
    this.#records = records;
    for (const row of records.read()) this.#restore(row);
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

  /** Replaces the sums by those of a row, which has their totals; one of another form is ignored. */
  #restore(row: unknown): void {
    const [period, subject, named] = Array.isArray(row) ? (row as unknown[]) : [];
    if (typeof period !== 'string' || !Array.isArray(named) || !named.every(isRow)) return;
    const sums = new UsageSums();
    for (const [name, requests, cost, bytes, saved] of named) sums.addAll([[name, { requests, cost, bytes, saved }]]);
    if (/^\d{4}-\d\d-\d\dT\d\d$/.test(period) && isSubject(subject, 3))
      this.#hours.set(nameOf(period, subject), { period, subject, sums });
    if (/^\d{4}-\d\d-\d\d$/.test(period) && isSubject(subject, 2))
      this.#days.set(nameOf(period, subject), { period, subject, sums });
  }
}

function isSubject(value: unknown, length: 3): value is UsageSubject;
function isSubject(value: unknown, length: 2): value is UsageHolder;
function isSubject(value: unknown, length: number): boolean {
  return Array.isArray(value) && value.length === length;
}

type Row = [name: string, requests: number, cost: number, bytes: number, saved: number];

function isRow(value: unknown): value is Row {
  return Array.isArray(value) && typeof value[0] === 'string' && [1, 2, 3, 4].every((at) => Number.isFinite(value[at]));
}

function nameOf(period: string, subject: UsageSubject | UsageHolder): string {
  return JSON.stringify([period, ...subject]);
}

function lineOf({ period, subject, sums }: KeptSums<UsageSubject> | KeptSums<UsageHolder>): string {
  const ofNames = sums.list.map(([name, { requests, cost, bytes, saved }]) => [name, requests, cost, bytes, saved]);
  return JSON.stringify([period, subject, ofNames]);
}
