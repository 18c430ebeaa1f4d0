import type { AccessOperation, Principal } from '../keys/principals.ts';
import type { Settled } from '../limits/cost.ts';
import {
  covers,
  hourMs,
  hourOf,
  hourStartMs,
  mergeRows,
  type PendingReport,
  UsageSums,
  usageSubjectOf,
  type UsageQuery,
  type UsageRow,
  type UsageStore,
  type UsageSubject,
} from './usage-store.ts';

/** The answer to a query. */
interface UsageReport {
  /** `redis`: all replicas' usage. `memory`: this process's. */
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
/** Name of requests without a key, and of tenants beyond the bound. */
const others = ['(no key)', '(others)'] as const;

/** Entries in memory at most: an hour of as many keys, or days of a few. */
const maxEntries = 20_000;
/** Age at which hours are dropped without Redis. */
const keptMs = 48 * hourMs;
/** Reports at a time. */
const atOnce = 32;
/** Interval of reports. */
const everyMs = 5_000;

/** Usage by key: counted here and added to Redis every few seconds; without Redis it stays in memory, bounded. */
export class Usage {
  readonly #store: UsageStore | undefined;
  readonly #onLost: () => void;
  readonly #entries = new Map<string, UsageEntry>();
  readonly #timer: NodeJS.Timeout;
  readonly #tenants = new Map<string, { asked: number; refused: number }>();
  /** The newest entry of each key's principal. */
  readonly #newest = new WeakMap<Principal, UsageEntry>();
  #number = 0;
  #flushing: Promise<boolean> | undefined;
  #hour = { endMs: 0, name: '' };

  /** `store`: absent without Redis, usage stays in memory. `onLost`: sums of an hour and key are dropped for want of room. */
  constructor(store: UsageStore | undefined, onLost: () => void) {
    this.#store = store;
    this.#onLost = onLost;
    this.#timer = setInterval(() => this.#tick(), everyMs).unref();
  }

  add(principal: Principal, settled: Settled, cost: number): void {
    const { operation, outcome, bytes, status } = settled;
    const isSaved = status < 400 && (outcome === 'hit' || outcome === 'collapsed' || outcome === 'local');
    const amounts = { requests: 1, cost, bytes, saved: isSaved ? 1 : 0 };
    this.#tenantOf(principal).asked += 1;
    this.#entryOf(principal)?.sums.add(operation, outcome, amounts);
  }

  addRefusal(principal: Principal, operation: AccessOperation): void {
    const amounts = { requests: 1, cost: 0, bytes: 0, saved: 0 };
    const tenant = this.#tenantOf(principal);
    tenant.asked += 1;
    tenant.refused += 1;
    this.#entryOf(principal)?.sums.add(operation, 'refused', amounts);
  }

  /** Adds bytes that a client gets behind an answer that is counted already: of a stream. */
  addBytes(principal: Principal, operation: AccessOperation, bytes: number): void {
    this.#entryOf(principal)?.sums.add(operation, 'hit', { requests: 0, cost: 0, bytes, saved: 0 });
  }

  /** Requests and refusals of each tenant since the start. */
  get tenants(): ReadonlyMap<string, { readonly asked: number; readonly refused: number }> {
    return this.#tenants;
  }

  async report(query: UsageQuery): Promise<UsageReport> {
    const store = this.#store;
    if (store === undefined) return { source: 'memory', isComplete: true, rows: this.#rowsHere(query) };
    const isReported = await this.#flush();
    const rows = await store.read(query);
    if (rows === undefined) return { source: 'memory', isComplete: false, rows: this.#rowsHere(query) };
    return { source: 'redis', isComplete: isReported, rows: mergeRows(rows) };
  }

  /** Resolves when all usage is in Redis, or Redis does not answer. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#flush();
    // For usage that came during a report in flight.
    await this.#flush();
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
      rows.push(...sums.rows(hour, subject), ...(sent?.sums.rows(hour, subject) ?? []));
    }
    return mergeRows(rows);
  }

  #entryOf(principal: Principal): UsageEntry | undefined {
    const nowMs = Date.now();
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

  #tick(): void {
    if (this.#store !== undefined) {
      void this.#flush();
      return;
    }
    const sinceMs = Date.now() - keptMs;
    for (const [name, { hour }] of this.#entries) if (hourStartMs(hour) < sinceMs) this.#drop(name);
  }

  /** Resolves to whether all usage is in Redis. Single flight. */
  #flush(): Promise<boolean> {
    this.#flushing ??= this.#report().finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  async #report(): Promise<boolean> {
    const store = this.#store;
    if (store === undefined) return true;
    const entries = [...this.#entries];
    for (let first = 0; first < entries.length; first += atOnce) {
      const some = entries.slice(first, first + atOnce).map(([name, entry]) => this.#reportEntry(store, name, entry));
      // Redis is away: the rest would fail, too.
      if ((await Promise.all(some)).includes(false)) return false;
    }
    return true;
  }

  async #reportEntry(store: UsageStore, name: string, entry: UsageEntry): Promise<boolean> {
    if (entry.sent !== undefined) {
      if (!(await store.add(entry.sent))) return false;
      entry.sent = undefined;
    }
    if (!entry.sums.isEmpty) {
      const { hour, subject, sums } = entry;
      const report = { hour, subject, sums, number: (this.#number += 1) };
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
