/** Usage by hour and key: plain sums in memory. */
import type { AccessOperation, Principal } from '../keys/principal.ts';

const operations = ['read', 'view', 'encode', 'submit', 'pass'] as const satisfies readonly AccessOperation[];
const outcomes = ['hit', 'miss', 'collapsed', 'local', 'error', 'refused'] as const;
/** Outcomes of requests in usage. */
type UsageOutcome = (typeof outcomes)[number];

/** Sums for one key, hour, operation and outcome. Requests without a key share one row per plan. */
export interface UsageRow {
  /** Begin of the hour, ISO 8601 in UTC. */
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

/** Milliseconds of an hour. */
export const hourMs = 3_600_000;

/** The hour of a Unix time in ms, such as `2026-11-21T14`. */
export function hourOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 13);
}

/** The inverse of `hourOf`: the hour's begin. */
export function hourStartMs(hour: string): number {
  return Date.parse(`${hour}:00:00.000Z`);
}

/** The subject of a principal. Addresses are left out: usage stores no personal data. */
export function usageSubjectOf({ name, tenant, plan }: Principal): UsageSubject {
  return name === undefined ? [null, null, plan.name] : [name, tenant, plan.name];
}

/** Whether the query covers the subject's hour. */
export function covers(query: UsageQuery, hour: string, [key, tenant]: UsageSubject): boolean {
  const startMs = hourStartMs(hour);
  if (startMs < query.fromMs || startMs >= query.toMs) return false;
  return (query.key === undefined || query.key === key) && (query.tenant === undefined || query.tenant === tenant);
}

const measures = ['requests', 'cost', 'bytes', 'saved'] as const;
type Sums = { -readonly [Measure in (typeof measures)[number]]: number };

/** `operation|outcome`, made once: each request looks one up. */
const sumsNames = Object.fromEntries(
  operations.map((operation) => [
    operation,
    Object.fromEntries(outcomes.map((outcome) => [outcome, `${operation}|${outcome}`])),
  ]),
) as Record<AccessOperation, Record<UsageOutcome, string>>;

/** Sums by `operation|outcome`. */
export class UsageSums {
  readonly #sums = new Map<string, Sums>();

  get isEmpty(): boolean {
    return this.#sums.size === 0;
  }

  add(operation: AccessOperation, outcome: UsageOutcome, amounts: Readonly<Sums>): void {
    this.#addTo(sumsNames[operation][outcome], amounts);
  }

  /** Fields of a Redis hash with their additions, alternating. */
  fields(): string[] {
    const fields: string[] = [];
    for (const [name, sums] of this.#sums) {
      for (const measure of measures) {
        if (sums[measure] !== 0) fields.push(`${name}|${measure}`, String(Math.round(sums[measure] * 1_000) / 1_000));
      }
    }
    return fields;
  }

  /** The sums in a hash with such fields; others are ignored. */
  static of(hash: Readonly<Record<string, string>>): UsageSums {
    const all = new UsageSums();
    for (const [field, value] of Object.entries(hash)) {
      const [, name, measure] = /^([a-z]+\|[a-z]+)\|([a-z]+)$/.exec(field) ?? [];
      if (name === undefined || !isMeasure(measure)) continue;
      all.#addTo(name, { ...noSums, [measure]: Number(value) });
    }
    return all;
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

/** Adds up rows that differ only in their sums; sorted. */
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
