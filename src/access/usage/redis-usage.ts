/**
 * Usage of all replicas in Redis: a hash for each hour and subject, `PREFIX:usage:2026-11-21T14:["wallet-a","acme","free"]`,
 * a set of an hour's subjects, `PREFIX:usage:2026-11-21T14`, and a hash for each month and holder,
 * `PREFIX:usage:2026-11:["wallet-a","acme"]`, with the sums of its days. Reports are idempotent: each process's last report
 * number stands beside the sums, so that a repeated report is added once; one hash gets those of a process in their order.
 */
import { rounded } from '../limits/cost.ts';
import { runScript, script, type Store } from '../redis.ts';
import { piecesOf } from '../rounds.ts';
import {
  byOutcome,
  covers,
  type DaySums,
  holderOf,
  hourMs,
  hourOf,
  measures,
  type NamedSums,
  noSums,
  type PendingReport,
  rowsOf,
  UsageSums,
  type UsageHolder,
  type UsageQuery,
  type UsageRow,
  type UsageStore,
  type UsageSubject,
} from './usage-store.ts';

/** Enough to bill a month after its end. */
const keptMs = 40 * 24 * hourMs;
/** Two months and a day: the days of a month are shown until the end of the next one. */
const daysKeptMs = 63 * 24 * hourMs;
const atOnce = 64;

/** KEYS: hash. ARGV: the process, the report's number, TTL in ms, then fields and their additions. */
const addition = script(`
if tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0') >= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
for at = 4, #ARGV, 2 do redis.call('HINCRBYFLOAT', KEYS[1], ARGV[at], ARGV[at + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
`);

/** Adds to and reads the hashes. */
export class RedisUsage implements UsageStore {
  readonly source = 'redis';
  readonly #store: Store;
  readonly #prefix: string;

  /** `prefix`: of names in Redis. */
  constructor(store: Store, prefix: string) {
    this.#store = store;
    this.#prefix = prefix;
  }

  async add(report: PendingReport): Promise<boolean> {
    const { hour, subject, sums } = report;
    const index = `${this.#prefix}:usage:${hour}`;
    const member = JSON.stringify(subject);
    const indexed = await this.#store.write(index, async (client) => {
      await Promise.all([client.sadd(index, member), client.pexpire(index, keptMs)]);
    });
    if ('failure' in indexed) return false;
    const holder = holderOf(subject);
    // `2026-11-21T14`: month and day.
    const ofDay = fieldsOf(byOutcome(sums), `${hour.slice(8, 10)}|`);
    const added = await Promise.all([
      this.#addTo(`${index}:${member}`, report, fieldsOf(sums), keptMs),
      holder === undefined || this.#addTo(this.#monthOf(holder, hour.slice(0, 7)), report, ofDay, daysKeptMs),
    ]);
    return !added.includes(false);
  }

  async #addTo(key: string, { process, number }: PendingReport, fields: string[], ms: number): Promise<boolean> {
    const args = [`#${process}`, String(number), String(ms), ...fields];
    return 'value' in (await this.#store.write(key, (client) => runScript(client, addition, [key], args)));
  }

  async read(query: UsageQuery): Promise<UsageRow[] | undefined> {
    const rows: UsageRow[] = [];
    for (const hour of hoursOf(query)) {
      const index = `${this.#prefix}:usage:${hour}`;
      const members = await this.#store.read(index, (client) => client.smembers(index));
      if ('failure' in members) return undefined;
      const wanted = members.value.flatMap((member): [string, UsageSubject][] => {
        const subject = parseSubject(member);
        return subject !== undefined && covers(query, hour, subject) ? [[`${index}:${member}`, subject]] : [];
      });
      for (const some of piecesOf(wanted, atOnce)) {
        const found = await Promise.all(some.map(([key]) => this.#sumsOf(key)));
        for (const [at, [, subject]] of some.entries()) {
          const sums = found[at];
          if (sums === undefined) return undefined;
          rows.push(...rowsOf(hour, subject, sums));
        }
        if (rows.length > query.mostRows) return rows;
      }
    }
    return rows;
  }

  async readDays(holder: UsageHolder, month: string): Promise<readonly DaySums[] | undefined> {
    const sums = await this.#sumsOf(this.#monthOf(holder, month));
    if (sums === undefined) return undefined;
    const byDay = [...Map.groupBy(sums, ([name]) => name.slice(0, 2))].sort(([one], [other]) => (one < other ? -1 : 1));
    return byDay.map(([day, ofDay]) => {
      return { day: `${month}-${day}`, sums: ofDay.map(([name, amounts]): NamedSums => [name.slice(3), amounts]) };
    });
  }

  close(): void {}

  #monthOf(holder: UsageHolder, month: string): string {
    return `${this.#prefix}:usage:${month}:${JSON.stringify(holder)}`;
  }

  async #sumsOf(key: string): Promise<readonly NamedSums[] | undefined> {
    const hash = await this.#store.read(key, (client) => client.hgetall(key));
    return 'failure' in hash ? undefined : sumsOfFields(hash.value);
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

/** Fields of a hash, `PREFIXname|measure`, with their additions, alternating. */
function fieldsOf(named: readonly NamedSums[], prefix = ''): string[] {
  return named.flatMap(([name, sums]) =>
    measures.flatMap((measure) => {
      return sums[measure] === 0 ? [] : [`${prefix}${name}|${measure}`, String(rounded(sums[measure]))];
    }),
  );
}

/** The sums in a hash with such fields; others are ignored. */
function sumsOfFields(hash: Readonly<Record<string, string>>): readonly NamedSums[] {
  const all = new UsageSums();
  for (const [field, value] of Object.entries(hash)) {
    const [, name, measure] = /^((?:\d\d\|)?[a-z]+(?:\|[a-z]+)?)\|([a-z]+)$/.exec(field) ?? [];
    if (name !== undefined && isMeasure(measure)) all.addAll([[name, { ...noSums, [measure]: Number(value) }]]);
  }
  return all.list;
}

function isMeasure(text: string | undefined): text is (typeof measures)[number] {
  return measures.some((measure) => measure === text);
}
