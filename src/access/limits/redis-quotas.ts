/** Quotas in Redis: the arguments of a request's script, and reports of what this process counted by itself. */
import { Rounds } from '../rounds.ts';
import { runScript, type Store } from '../redis.ts';
import { type CalendarDay, periods } from './calendar.ts';
import type { BoundStanding, Charge, Quota } from './counter.ts';
import { quotaReport } from './limits-script.ts';
import type { PeriodUse, Quotas, QuotaUse } from './quotas.ts';

/** Totals stay this long after their month. */
const keptAfterMs = 5 * 86_400_000;
/** Interval of reports for accounts whose requests do not report. */
const everyMs = 2_000;
/** One loss concerns many accounts: they are reported once within this time. */
const calmMs = 60_000;
/** Accounts that wait for a report at most: those that `Quotas` has, about. */
const mostWaiting = 262_144;

/** One request's part in a script. */
export interface QuotaClaim {
  /** The hash of the month. */
  readonly name: string;
  readonly args: readonly string[];
  /** Takes over the totals that the script replied; false for a malformed reply. */
  learn(totals: readonly unknown[]): boolean;
  /** Adds what is left, by all that is known. */
  addStandings(standings: BoundStanding[]): void;
}

/** The totals of quotas in Redis that one process has read, and its reports to Redis. */
export class RedisQuotas {
  readonly #store: Store;
  readonly #prefix: string;
  readonly #process: string;
  readonly #quotas: Quotas;
  readonly #onLost: () => void;
  readonly #waiting = new Set<QuotaUse>();
  readonly #rounds = new Rounds(
    everyMs,
    () => [...this.#waiting],
    (use) => this.#report(use),
  );
  #reportedAllAtMs = -Infinity;

  /** `process`: a unique name. `onLost`: called for an account that cannot be reported for want of room. */
  constructor(store: Store, prefix: string, process: string, quotas: Quotas, onLost: () => void) {
    this.#store = store;
    this.#prefix = prefix;
    this.#process = process;
    this.#quotas = quotas;
    this.#onLost = onLost;
    // Reported with the account's next request, or soon.
    quotas.onCounted = (use) => this.#note(use);
  }

  claim(charge: Charge, quota: Quota): QuotaClaim {
    const claimed = this.#quotas.charge(charge, quota);
    const { use, units, today, nowMs } = claimed;
    const { name, process, keptMs, learn } = this.#account(use, today, nowMs);
    const args = [process, String(units), keptMs];
    for (const period of periods) args.push(argumentOf(use[period], quota[period], today.toMs[period] - nowMs));
    return { name, args, learn, addStandings: (standings) => this.#quotas.addStandings(claimed, standings) };
  }

  /** Settles a request's cost beyond its charge, reported before the next reads from sockets. */
  settle(charge: Charge, quota: Quota, extraCost: number): void {
    if (quota.unit !== 'cost' || extraCost <= 0) return;
    this.#quotas.settle(charge, quota, extraCost);
    this.#rounds.plan();
  }

  /** Redis was away, and may have lost its data: reports every account. */
  reportAll(): void {
    this.#reportedAllAtMs = performance.now();
    for (const use of this.#quotas.all()) if (use.month.known > 0) this.#note(use);
    void this.#rounds.run();
  }

  /** Resolves when all accounts are reported, or Redis does not answer. */
  close(): Promise<void> {
    return this.#rounds.close();
  }

  #note(use: QuotaUse): void {
    if (this.#waiting.has(use)) return;
    if (this.#waiting.size >= mostWaiting) this.#onLost();
    else this.#waiting.add(use);
  }

  async #report(use: QuotaUse): Promise<boolean> {
    const today = this.#quotas.today();
    use.turn(today);
    const { name, process, keptMs, learn } = this.#account(use, today, this.#quotas.now());
    const args = [process, keptMs, ...periods.map((period) => argumentOf(use[period], undefined, 0))];
    const outcome = await this.#store.write(name, (client) => runScript(client, quotaReport, [name], args));
    if ('failure' in outcome || !Array.isArray(outcome.value) || !learn(outcome.value)) return false;
    // More may have come meanwhile.
    if (!use.isUnreported) this.#waiting.delete(use);
    return true;
  }

  #account(use: QuotaUse, { month, toMs }: CalendarDay, nowMs: number) {
    const asked = periods.map((period): [PeriodUse, number] => [use[period], use[period].alone]);
    return {
      name: `${this.#prefix}:limits:{${use.subject}}:${month}:${use.unit}`,
      // An account that was dropped and came again counts `alone` from 0.
      process: `${this.#process}.${use.number}`,
      keptMs: String(Math.ceil(toMs.month - nowMs + keptAfterMs)),
      learn: (totals: readonly unknown[]): boolean => {
        const amounts = totals.slice(0, periods.length).map(Number);
        const epoch = totals[periods.length];
        if (typeof epoch !== 'string' || !amounts.every(Number.isFinite)) return false;
        const isLost = asked.some(([period]) => period.known > 0 && period.epoch !== epoch);
        for (const [index, [period, reported]] of asked.entries()) period.learn(amounts[index] ?? 0, reported, epoch);
        // Without an outage: emptied, or evicted. Other accounts may be lost, too, and send nothing.
        if (isLost && performance.now() - this.#reportedAllAtMs > calmMs) this.reportAll();
        return true;
      },
    };
  }
}

/** In the form of the scripts: one text costs less than seven arguments. */
function argumentOf(
  { name, known, reported, alone, epoch }: PeriodUse,
  limit: number | undefined,
  leftMs: number,
): string {
  return `${name} ${limit ?? -1} ${known} ${reported} ${alone} ${epoch} ${Math.ceil(leftMs)}`;
}
