/**
 * Who used how much: counted here, reported to Redis every few seconds. While Redis is away, and where there is none,
 * it stays in memory, bounded.
 */
import type { AccessOperation, Principal } from '../keys/principal.ts';
import type { Settled } from '../limits/ticket.ts';
import type { PendingReport, UsageStore } from './usage-store.ts';
import {
  covers,
  hourMs,
  hourOf,
  hourStartMs,
  mergeRows,
  UsageSums,
  usageSubjectOf,
  type UsageQuery,
  type UsageRow,
  type UsageSubject,
} from './usage-tally.ts';

export interface UsageOptions {
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Absent: what is counted stays here. */
  readonly store?: UsageStore | undefined;
  /** Of an hour and a key it was too much to keep. */
  readonly onLost: () => void;
  /** Default 5,000. */
  readonly everyMs?: number;
}

export interface UsageReport {
  /** `redis`: of all replicas. `memory`: of this process. */
  readonly source: 'redis' | 'memory';
  /** Whether nothing is known to be missing. */
  readonly isComplete: boolean;
  readonly rows: readonly UsageRow[];
}

interface UsageEntry {
  readonly hour: string;
  readonly who: UsageSubject;
  /** What has come since the last report. */
  sheet: UsageSums;
  /** Sent, and not known to have arrived: it is sent again as it is. */
  sent?: PendingReport | undefined;
}

/** Entries in memory: an hour of as many keys, or days of a few. */
const maxEntries = 20_000;
/** Without Redis, hours are forgotten after this long. */
const keptMs = 48 * hourMs;
const atOnce = 32;
/** An answer of more would be no report any more. */
export const maxRows = 100_000;

export class Usage {
  readonly #options: UsageOptions;
  readonly #entries = new Map<string, UsageEntry>();
  readonly #timer: NodeJS.Timeout;
  #number = 0;
  #flushing: Promise<boolean> | undefined;
  #hour = { endMs: 0, name: '' };

  constructor(options: UsageOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#tick(), options.everyMs ?? 5_000);
    this.#timer.unref();
  }

  add(principal: Principal, settled: Settled, cost: number): void {
    const { operation, outcome, bytes, status } = settled;
    const isSaved = status < 400 && (outcome === 'hit' || outcome === 'collapsed' || outcome === 'local');
    const amounts = { requests: 1, cost, bytes, saved: isSaved ? 1 : 0 };
    this.#entryOf(principal)?.sheet.add(operation, outcome, amounts);
  }

  addRefusal(principal: Principal, operation: AccessOperation): void {
    const amounts = { requests: 1, cost: 0, bytes: 0, saved: 0 };
    this.#entryOf(principal)?.sheet.add(operation, 'refused', amounts);
  }

  async report(query: UsageQuery): Promise<UsageReport> {
    const { store } = this.#options;
    if (store === undefined) return { source: 'memory', isComplete: true, rows: this.#rowsHere(query) };
    const isTold = await this.#flush();
    const rows = await store.read(query, maxRows);
    if (rows === undefined) return { source: 'memory', isComplete: false, rows: this.#rowsHere(query) };
    return { source: 'redis', isComplete: isTold, rows: mergeRows(rows) };
  }

  /** Resolves when all is reported, or cannot be now. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#flush();
    // What came in while a report was under way.
    await this.#flush();
  }

  #rowsHere(query: UsageQuery): UsageRow[] {
    const rows: UsageRow[] = [];
    for (const { hour, who, sheet, sent } of this.#entries.values()) {
      if (!covers(query, hour, who)) continue;
      rows.push(...sheet.rows(hour, who), ...(sent?.sheet.rows(hour, who) ?? []));
    }
    return mergeRows(rows);
  }

  #entryOf(principal: Principal): UsageEntry | undefined {
    const nowMs = this.#options.now();
    if (nowMs >= this.#hour.endMs || nowMs < this.#hour.endMs - hourMs) {
      this.#hour = { endMs: (Math.floor(nowMs / hourMs) + 1) * hourMs, name: hourOf(nowMs) };
    }
    const hour = this.#hour.name;
    const who = usageSubjectOf(principal);
    const name = `${hour} ${who.join('\n')}`;
    const known = this.#entries.get(name);
    if (known !== undefined) return known;
    if (this.#entries.size >= maxEntries) this.#dropOldest();
    const entry: UsageEntry = { hour, who, sheet: new UsageSums() };
    this.#entries.set(name, entry);
    return entry;
  }

  #dropOldest(): void {
    const [oldest] = this.#entries.keys();
    if (oldest === undefined) return;
    this.#entries.delete(oldest);
    this.#options.onLost();
  }

  #tick(): void {
    if (this.#options.store !== undefined) {
      void this.#flush();
      return;
    }
    const sinceMs = this.#options.now() - keptMs;
    for (const [name, { hour }] of this.#entries) if (hourStartMs(hour) < sinceMs) this.#entries.delete(name);
  }

  /** Whether all is reported. One at a time: who comes meanwhile waits for the one that is under way. */
  #flush(): Promise<boolean> {
    this.#flushing ??= this.#report().finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  async #report(): Promise<boolean> {
    const { store } = this.#options;
    if (store === undefined) return true;
    const entries = [...this.#entries];
    for (let first = 0; first < entries.length; first += atOnce) {
      const some = entries.slice(first, first + atOnce).map(([name, entry]) => this.#tell(store, name, entry));
      // Redis is away: the rest would fare no better.
      if ((await Promise.all(some)).includes(false)) return false;
    }
    return true;
  }

  async #tell(store: UsageStore, name: string, entry: UsageEntry): Promise<boolean> {
    if (entry.sent !== undefined) {
      if (!(await store.add(entry.sent))) return false;
      entry.sent = undefined;
    }
    if (!entry.sheet.isEmpty) {
      const { hour, who, sheet } = entry;
      const report = { hour, who, sheet, number: (this.#number += 1) };
      entry.sent = report;
      entry.sheet = new UsageSums();
      if (!(await store.add(report))) return false;
      entry.sent = undefined;
    }
    // Something may have come meanwhile.
    if (entry.sheet.isEmpty && this.#entries.get(name) === entry) this.#entries.delete(name);
    return true;
  }
}
