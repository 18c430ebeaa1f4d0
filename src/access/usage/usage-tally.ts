/** Who used how much, by the hour: plain sums in memory. */
import type { AccessOperation, Principal } from '../keys/principal.ts';
import type { Settled } from '../limits/ticket.ts';

export type UsageOutcome = Settled['outcome'] | 'refused';

/** Sums of what one key did in one hour, with one outcome. Requests without a key are one per plan. */
export interface UsageRow {
  /** Its beginning, ISO 8601 in UTC. */
  readonly hour: string;
  readonly key: string | null;
  readonly tenant: string | null;
  readonly plan: string;
  readonly operation: string;
  readonly outcome: string;
  readonly requests: number;
  readonly cost: number;
  /** Of the answers' bodies. */
  readonly bytes: number;
  /** Requests that a node would have been asked for without the gateway. */
  readonly saved: number;
}

export interface UsageQuery {
  /** Hours that begin from here. Milliseconds since 1970. */
  readonly fromMs: number;
  /** And before this. */
  readonly toMs: number;
  readonly key?: string | undefined;
  readonly tenant?: string | undefined;
}

/** As in names in Redis: key, tenant, plan. */
export type UsageSubject = readonly [key: string | null, tenant: string | null, plan: string];

export const hourMs = 3_600_000;

/** Such as `2026-11-21T14`: enough to sort by. */
export function hourOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 13);
}

export function hourStartMs(hour: string): number {
  return Date.parse(`${hour}:00:00.000Z`);
}

/** Addresses are nobody's name: they are not kept. */
export function usageSubjectOf({ name, tenant, plan }: Principal): UsageSubject {
  return name === undefined ? [null, null, plan.name] : [name, tenant, plan.name];
}

export function covers(query: UsageQuery, hour: string, [key, tenant]: UsageSubject): boolean {
  const startMs = hourStartMs(hour);
  if (startMs < query.fromMs || startMs >= query.toMs) return false;
  return (query.key === undefined || query.key === key) && (query.tenant === undefined || query.tenant === tenant);
}

const measures = ['requests', 'cost', 'bytes', 'saved'] as const;
type Sums = { -readonly [Measure in (typeof measures)[number]]: number };

/** Sums by `operation|outcome`. */
export class UsageSums {
  readonly #sums = new Map<string, Sums>();

  get isEmpty(): boolean {
    return this.#sums.size === 0;
  }

  add(operation: AccessOperation, outcome: UsageOutcome, amounts: Readonly<Sums>): void {
    this.#addTo(`${operation}|${outcome}`, amounts);
  }

  /** As fields of a hash and what to add to them. */
  fields(): string[] {
    const fields: string[] = [];
    for (const [name, sums] of this.#sums) {
      for (const measure of measures) {
        if (sums[measure] !== 0) fields.push(`${name}|${measure}`, String(Math.round(sums[measure] * 1_000) / 1_000));
      }
    }
    return fields;
  }

  /** Takes such a hash; what is no field of this kind is left out. */
  static of(hash: Readonly<Record<string, string>>): UsageSums {
    const sheet = new UsageSums();
    for (const [field, value] of Object.entries(hash)) {
      const [, name, measure] = /^([a-z]+\|[a-z]+)\|([a-z]+)$/.exec(field) ?? [];
      if (name === undefined || !isMeasure(measure)) continue;
      sheet.#addTo(name, { ...noSums, [measure]: Number(value) });
    }
    return sheet;
  }

  rows(hour: string, [key, tenant, plan]: UsageSubject): UsageRow[] {
    return [...this.#sums].map(([name, { requests, cost: exact, bytes, saved }]) => {
      const [operation = '', outcome = ''] = name.split('|');
      const cost = Math.round(exact * 1_000) / 1_000;
      return { hour: `${hour}:00:00Z`, key, tenant, plan, operation, outcome, requests, cost, bytes, saved };
    });
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

const noSums: Readonly<Sums> = { requests: 0, cost: 0, bytes: 0, saved: 0 };

function isMeasure(text: string | undefined): text is (typeof measures)[number] {
  return measures.some((measure) => measure === text);
}

/** One row of those that differ in nothing but their sums, sorted. */
export function mergeRows(rows: readonly UsageRow[]): UsageRow[] {
  const merged = new Map<string, UsageRow>();
  for (const row of rows) {
    const { hour, key, tenant, plan, operation, outcome } = row;
    const name = JSON.stringify([hour, key, tenant, plan, operation, outcome]);
    const known = merged.get(name);
    merged.set(name, known === undefined ? row : added(known, row));
  }
  return [...merged.entries()].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, row]) => row);
}

function added(one: UsageRow, other: UsageRow): UsageRow {
  return {
    ...one,
    requests: one.requests + other.requests,
    cost: Math.round((one.cost + other.cost) * 1_000) / 1_000,
    bytes: one.bytes + other.bytes,
    saved: one.saved + other.saved,
  };
}
