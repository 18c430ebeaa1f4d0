/** Usage by hour and key: sums, their rows, and all replicas' sums in Redis. */
import type { AccessOperation, Principal } from '../keys/principals.ts';
import { runScript, script, type Store } from '../redis.ts';

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

/** One process's sums for an hour and subject, not yet in Redis. */
export interface PendingReport {
  readonly hour: string;
  readonly subject: UsageSubject;
  readonly sums: UsageSums;
  /** Greater than every earlier report's. */
  readonly number: number;
}

/** Enough to bill a month after its end. */
const keptMs = 40 * 24 * hourMs;
/** Hashes read at a time. */
const atOnce = 64;

/** KEYS: hash. ARGV: the process, the report's number, TTL in ms, then fields and their additions. */
const addition = script(`
if tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0') >= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
for at = 4, #ARGV, 2 do redis.call('HINCRBYFLOAT', KEYS[1], ARGV[at], ARGV[at + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
`);

/**
 * Usage in Redis: a hash for each hour and subject, `PREFIX:usage:2026-11-21T14:["wallet-a","acme","free"]`, and a set
 * of an hour's subjects, `PREFIX:usage:2026-11-21T14`. All replicas add to them. Reports are idempotent: each process's
 * last report number stands beside the sums, so that a repeated report is added once.
 */
export class UsageStore {
  readonly #store: Store;
  readonly #prefix: string;
  readonly #process: string;

  /** `prefix`: of names in Redis. `process`: a unique name. */
  constructor(store: Store, prefix: string, process: string) {
    this.#store = store;
    this.#prefix = prefix;
    this.#process = process;
  }

  /** Adds a report; false where Redis did not confirm it. */
  async add({ hour, subject, sums, number }: PendingReport): Promise<boolean> {
    const index = `${this.#prefix}:usage:${hour}`;
    const member = JSON.stringify(subject);
    const indexed = await this.#store.write(index, async (client) => {
      await Promise.all([client.sadd(index, member), client.pexpire(index, keptMs)]);
    });
    if ('failure' in indexed) return false;
    const key = `${index}:${member}`;
    const args = [`#${this.#process}`, String(number), String(keptMs), ...sums.fields()];
    return 'value' in (await this.#store.write(key, (client) => runScript(client, addition, [key], args)));
  }

  /** All replicas' rows; `undefined` without an answer of Redis. Stops above `mostRows`. */
  async read(query: UsageQuery): Promise<UsageRow[] | undefined> {
    const rows: UsageRow[] = [];
    for (const hour of hoursOf(query)) {
      const index = `${this.#prefix}:usage:${hour}`;
      const members = await this.#store.read(index, (client) => client.smembers(index));
      if ('failure' in members) return undefined;
      const wanted = members.value.filter((member) => {
        const subject = parseSubject(member);
        return subject !== undefined && covers(query, hour, subject);
      });
      for (let first = 0; first < wanted.length; first += atOnce) {
        const some = wanted.slice(first, first + atOnce).map((member) => this.#rowsOf(hour, member));
        for (const found of await Promise.all(some)) {
          if (found === undefined) return undefined;
          rows.push(...found);
        }
        if (rows.length > query.mostRows) return rows;
      }
    }
    return rows;
  }

  async #rowsOf(hour: string, member: string): Promise<UsageRow[] | undefined> {
    const key = `${this.#prefix}:usage:${hour}:${member}`;
    const hash = await this.#store.read(key, (client) => client.hgetall(key));
    const subject = parseSubject(member);
    if ('failure' in hash || subject === undefined) return undefined;
    return UsageSums.of(hash.value).rows(hour, subject);
  }
}

function hoursOf({ fromMs, toMs }: UsageQuery): string[] {
  const hours: string[] = [];
  for (let ms = Math.ceil(fromMs / hourMs) * hourMs; ms < toMs; ms += hourMs) hours.push(hourOf(ms));
  return hours;
}

function isName(part: unknown): part is string | null {
  return part === null || typeof part === 'string';
}

function parseSubject(text: string): UsageSubject | undefined {
  try {
    const parts: unknown = JSON.parse(text);
    if (!Array.isArray(parts) || parts.length !== 3) return undefined;
    const [key, tenant, plan] = parts as unknown[];
    return isName(key) && isName(tenant) && typeof plan === 'string' ? [key, tenant, plan] : undefined;
  } catch {
    return undefined;
  }
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
