/** Usage by key: counted in each process, added to the store of all, and read by operators and holders. */
import { randomUUID } from 'node:crypto';
import type { AccessOperation, Principal } from '../keys/principals.ts';
import { rounded, type Settled } from '../limits/cost.ts';
import { Rounds } from '../rounds.ts';
import {
  covers,
  type DaySums,
  holderOf,
  hourMs,
  hourOf,
  mergeRows,
  monthBefore,
  type PendingReport,
  rowsOf,
  usageOutcomes,
  UsageSums,
  usageSubjectOf,
  type UsageQuery,
  type UsageRow,
  type UsageStore,
  type UsageSubject,
} from './usage-store.ts';

/** The answer to a query. */
interface UsageReport {
  /** `redis`: all replicas' usage. `memory`: this gateway's; incomplete where it is this process's alone. */
  readonly source: 'redis' | 'memory';
  /** False when some usage is known to be missing. */
  readonly isComplete: boolean;
  readonly rows: readonly UsageRow[];
}

interface UsageEntry {
  readonly hour: string;
  readonly subject: UsageSubject;
  /** Sums since the last report. */
  sums: UsageSums;
  /** A report without confirmation, to be repeated unchanged. */
  sent?: PendingReport | undefined;
  /** Reported and dropped: later usage needs another entry. */
  isGone: boolean;
}

/** Tenants that are counted since the start; requests of further ones count together. */
const mostTenants = 1_000;
const others = ['(no key)', '(others)'] as const;

/** Entries in memory at most: an hour of as many keys, or days of a few. */
const maxEntries = 20_000;
const everyMs = 5_000;

/** The entries of one key. */
type HolderEntries = [name: string, entry: UsageEntry][];

/** Usage by key: counted here, and added to the store of all processes every few seconds. */
export class Usage {
  readonly #store: UsageStore;
  readonly #onLost: () => void;
  readonly #entries = new Map<string, UsageEntry>();
  readonly #rounds: Rounds<HolderEntries>;
  readonly #tenants = new Map<string, { asked: number; refused: number }>();
  /** The newest entry of each key's principal. */
  readonly #newest = new WeakMap<Principal, UsageEntry>();
  readonly #now: () => number;
  readonly #process = randomUUID();
  #number = 0;
  #hour = { endMs: 0, name: '' };

  /** `onLost`: sums of an hour and key are dropped for want of room. `now`: Unix time in ms. */
  constructor(store: UsageStore, onLost: () => void, now: () => number = Date.now) {
    this.#store = store;
    this.#onLost = onLost;
    this.#now = now;
    const holders = () => [...Map.groupBy(this.#entries, ([, { subject }]) => subject.slice(0, 2).join('\n')).values()];
    this.#rounds = new Rounds(everyMs, holders, (entries) => this.#reportInOrder(entries));
  }

  add(principal: Principal, settled: Settled, cost: number): void {
    const { operation, outcome, bytes, status } = settled;
    const isSaved = status < 400 && (outcome === 'hit' || outcome === 'collapsed' || outcome === 'local');
    const amounts = { requests: 1, cost, bytes, saved: isSaved ? 1 : 0 };
    this.#tenantOf(principal).asked += 1;
    this.#entryOf(principal).sums.add(operation, outcome, amounts);
  }

  addRefusal(principal: Principal, operation: AccessOperation): void {
    const amounts = { requests: 1, cost: 0, bytes: 0, saved: 0 };
    const tenant = this.#tenantOf(principal);
    tenant.asked += 1;
    tenant.refused += 1;
    this.#entryOf(principal).sums.add(operation, 'refused', amounts);
  }

  /** Adds bytes that a client gets behind an answer that is counted already: of a stream. */
  addBytes(principal: Principal, operation: AccessOperation, bytes: number): void {
    this.#entryOf(principal).sums.add(operation, 'hit', { requests: 0, cost: 0, bytes, saved: 0 });
  }

  get tenants(): ReadonlyMap<string, { readonly asked: number; readonly refused: number }> {
    return this.#tenants;
  }

  async report(query: UsageQuery): Promise<UsageReport> {
    const isReported = await this.#rounds.run();
    const rows = await this.#store.read(query);
    if (rows === undefined) return { source: 'memory', isComplete: false, rows: this.#rowsHere(query) };
    return { source: this.#store.source, isComplete: isReported, rows: mergeRows(rows) };
  }

  /** The use of a key, as of the last reports; `undefined`: without an answer of the store, or without a key. */
  async ofHolder(principal: Principal) {
    const holder = holderOf(usageSubjectOf(principal));
    if (holder === undefined) return undefined;
    const today = hourOf(this.#now()).slice(0, 10);
    const month = today.slice(0, 7);
    const last = monthBefore(month);
    const store = this.#store;
    const [days, lastDays] = await Promise.all([store.readDays(holder, month), store.readDays(holder, last)]);
    if (days === undefined || lastDays === undefined) return undefined;
    return {
      day: usageOf(
        today,
        days.filter(({ day }) => day === today),
      ),
      month: usageOf(month, days),
      lastMonth: usageOf(last, lastDays),
      /** Days of the month with requests, oldest first. */
      days: days.map((one) => usageOf(one.day, [one])),
    };
  }

  /** Resolves when all usage is in the store, or that does not answer. */
  async close(): Promise<void> {
    await this.#rounds.close();
    this.#store.close();
  }

  #tenantOf({ name, tenant }: Principal): { asked: number; refused: number } {
    const [noKey, beyond] = others;
    const own = name === undefined ? noKey : tenant;
    const subject = this.#tenants.has(own) || this.#tenants.size < mostTenants ? own : beyond;
    const known = this.#tenants.get(subject) ?? { asked: 0, refused: 0 };
    this.#tenants.set(subject, known);
    return known;
  }

  #rowsHere(query: UsageQuery): UsageRow[] {
    const rows: UsageRow[] = [];
    for (const { hour, subject, sums, sent } of this.#entries.values()) {
      if (!covers(query, hour, subject)) continue;
      rows.push(...rowsOf(hour, subject, [...sums.list, ...(sent?.sums ?? [])]));
    }
    return mergeRows(rows);
  }

  #entryOf(principal: Principal): UsageEntry {
    const nowMs = this.#now();
    if (nowMs >= this.#hour.endMs || nowMs < this.#hour.endMs - hourMs) {
      this.#hour = { endMs: (Math.floor(nowMs / hourMs) + 1) * hourMs, name: hourOf(nowMs) };
    }
    const hour = this.#hour.name;
    const newest = this.#newest.get(principal);
    if (newest?.hour === hour && !newest.isGone) return newest;
    const subject = usageSubjectOf(principal);
    const name = `${hour} ${subject.join('\n')}`;
    const known = this.#entries.get(name);
    if (known !== undefined) return this.#remember(principal, known);
    if (this.#entries.size >= maxEntries) this.#dropOldest();
    const entry: UsageEntry = { hour, subject, sums: new UsageSums(), isGone: false };
    this.#entries.set(name, entry);
    return this.#remember(principal, entry);
  }

  /** Principals without a key are made for each request. */
  #remember(principal: Principal, entry: UsageEntry): UsageEntry {
    if (principal.name !== undefined) this.#newest.set(principal, entry);
    return entry;
  }

  #drop(name: string): void {
    const entry = this.#entries.get(name);
    if (entry !== undefined) entry.isGone = true;
    this.#entries.delete(name);
  }

  #dropOldest(): void {
    const [oldest] = this.#entries.keys();
    if (oldest === undefined) return;
    this.#drop(oldest);
    this.#onLost();
  }

  /**
   * Reports the entries of one key in the order of their numbers: the sums of its days know the last number alone. So a
   * report without a confirmation is repeated ahead of all others, and there is one at most.
   */
  async #reportInOrder(entries: HolderEntries): Promise<boolean> {
    const isSent = ([, { sent }]: HolderEntries[number]): boolean => sent !== undefined;
    for (const [name, entry] of [...entries.filter(isSent), ...entries.filter((one) => !isSent(one))]) {
      if (!(await this.#reportEntry(name, entry))) return false;
    }
    return true;
  }

  async #reportEntry(name: string, entry: UsageEntry): Promise<boolean> {
    const store = this.#store;
    if (entry.sent !== undefined) {
      if (!(await store.add(entry.sent))) return false;
      entry.sent = undefined;
    }
    if (!entry.sums.isEmpty) {
      const { hour, subject, sums } = entry;
      const number = (this.#number += 1);
      const report = { hour, subject, sums: sums.list, process: this.#process, number };
      entry.sent = report;
      entry.sums = new UsageSums();
      if (!(await store.add(report))) return false;
      entry.sent = undefined;
    }
    // Usage may have come meanwhile.
    if (entry.sums.isEmpty && this.#entries.get(name) === entry) this.#drop(name);
    return true;
  }
}

/**
 * The use of a day or month, such as `2026-11-28` or `2026-11`, also by outcome; absent ones had no request. `bytes`: of the
 * answers' bodies; `cost`: in the units of `access.costs`.
 */
function usageOf(period: string, days: readonly DaySums[]) {
  const sums = new UsageSums();
  for (const day of days) sums.addAll(day.sums);
  const named = new Map(sums.list);
  const whole = { requests: 0, bytes: 0, cost: 0 };
  const outcomes: Record<string, Readonly<typeof whole>> = {};
  for (const outcome of usageOutcomes) {
    const found = named.get(outcome);
    if (found === undefined) continue;
    const { requests, bytes } = found;
    const cost = rounded(found.cost);
    outcomes[outcome] = { requests, bytes, cost };
    whole.requests += requests;
    whole.bytes += bytes;
    whole.cost = rounded(whole.cost + cost);
  }
  return { period, ...whole, outcomes };
}
