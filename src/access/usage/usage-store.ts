/**
 * Usage in Redis: a hash for each hour and key, `PREFIX:usage:2026-11-21T14:["wallet-a","acme","free"]`, and a set with
 * the names of an hour, `PREFIX:usage:2026-11-21T14`. All replicas add to them. A report that is sent again, because no
 * answer came, is added once: each process's last number stands beside the sums.
 */
import { runScript, script, type Store } from '../limits/store.ts';
import { covers, hourMs, hourOf, UsageSums, type UsageQuery, type UsageRow, type UsageSubject } from './usage-tally.ts';

/** What one process has to report of an hour. */
export interface PendingReport {
  readonly hour: string;
  readonly who: UsageSubject;
  readonly sheet: UsageSums;
  /** Greater than that of every report before it. */
  readonly number: number;
}

/** Months are billed once they are over. */
const keptMs = 40 * 24 * hourMs;
/** Names asked for at a time. */
const atOnce = 64;

/** KEYS: hash. ARGV: the process, the report's number, ms to keep it, then fields and what is added to them. */
const addition = script(`
if tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0') >= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
for at = 4, #ARGV, 2 do redis.call('HINCRBYFLOAT', KEYS[1], ARGV[at], ARGV[at + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
`);

export class UsageStore {
  readonly #store: Store;
  readonly #prefix: string;
  readonly #process: string;

  /** `process`: a name that no other process has. */
  constructor(store: Store, { prefix, process }: { readonly prefix: string; readonly process: string }) {
    this.#store = store;
    this.#prefix = prefix;
    this.#process = process;
  }

  /** Whether it is known to be added. */
  async add({ hour, who, sheet, number }: PendingReport): Promise<boolean> {
    const index = `${this.#prefix}:usage:${hour}`;
    const member = JSON.stringify(who);
    const indexed = await this.#store.write(index, async (client) => {
      await Promise.all([client.sadd(index, member), client.pexpire(index, keptMs)]);
    });
    if ('failure' in indexed) return false;
    const key = `${index}:${member}`;
    const args = [`#${this.#process}`, String(number), String(keptMs), ...sheet.fields()];
    return 'value' in (await this.#store.write(key, (client) => runScript(client, addition, [key], args)));
  }

  /** What all replicas have reported; `undefined` when Redis does not say. */
  async read(query: UsageQuery, maxRows: number): Promise<UsageRow[] | undefined> {
    const rows: UsageRow[] = [];
    for (const hour of hoursOf(query)) {
      const index = `${this.#prefix}:usage:${hour}`;
      const members = await this.#store.read(index, (client) => client.smembers(index));
      if ('failure' in members) return undefined;
      const wanted = members.value.filter((member) => {
        const who = parseSubject(member);
        return who !== undefined && covers(query, hour, who);
      });
      for (let first = 0; first < wanted.length; first += atOnce) {
        const some = wanted.slice(first, first + atOnce).map((member) => this.#rowsOf(hour, member));
        for (const found of await Promise.all(some)) {
          if (found === undefined) return undefined;
          rows.push(...found);
        }
        if (rows.length > maxRows) return rows;
      }
    }
    return rows;
  }

  async #rowsOf(hour: string, member: string): Promise<UsageRow[] | undefined> {
    const key = `${this.#prefix}:usage:${hour}:${member}`;
    const hash = await this.#store.read(key, (client) => client.hgetall(key));
    const who = parseSubject(member);
    if ('failure' in hash || who === undefined) return undefined;
    return UsageSums.of(hash.value).rows(hour, who);
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
