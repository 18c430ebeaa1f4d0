import { runScript, script, type Store } from '../redis.ts';
import { covers, hourMs, hourOf, UsageSums, type UsageQuery, type UsageRow, type UsageSubject } from './usage-tally.ts';

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

  /** `process`: a unique name. */
  constructor(store: Store, { prefix, process }: { readonly prefix: string; readonly process: string }) {
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
