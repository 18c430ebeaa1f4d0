import { createAccounts } from './accounts.ts';
import {
  type Bounds,
  type BoundStanding,
  type Charge,
  type Counted,
  laterOf,
  type LimitCount,
  noSettlement,
  shareOf,
} from './counter.ts';
import { type QuotaCharge, Quotas } from './quotas.ts';
import { LimitAccount, Window } from './window.ts';

/** Accounts with a key at most, as many without, and as many addresses within accounts. One takes about a kilobyte. */
const maxAccounts = 16_384;

/**
 * Counts in this process. Accounts are bounded in number, the least recently used is evicted. A client can reset an
 * address's account only by using as many other addresses as there are accounts, each with an allowance of its own: it
 * gains nothing. Keys have accounts apart, so that addresses do not evict them.
 */
export class MemoryCounter {
  readonly quotas: Quotas;
  readonly #processes: number;
  readonly #now: () => number;
  readonly #keyed = createAccounts<LimitAccount>(maxAccounts);
  readonly #anonymous = createAccounts<LimitAccount>(maxAccounts);
  readonly #addresses = createAccounts<Window>(maxAccounts);

  /** `processes`: that share the bounds. `now`: ms of a monotonic clock. */
  constructor(processes = 1, quotas = new Quotas({ processes }), now = () => performance.now()) {
    this.#processes = processes;
    this.quotas = quotas;
    this.#now = now;
  }

  get size(): number {
    return this.#keyed.size + this.#anonymous.size + this.#addresses.size;
  }

  /** Counts the request if all bounds have room. `isUnsure`: Redis or the primary may have counted it in its quota. */
  take(charge: Charge, isUnsure = false): Counted {
    const nowMs = this.#now();
    const account = this.#accountOf(charge);
    const address = this.#addressOf(charge);
    const bounds = shareOf(charge.bounds, this.#processes);
    const { perAddress, quota } = bounds;
    const ofQuota = quota && this.quotas.charge(charge, quota);
    let over = account.findOver(bounds, charge.cost, nowMs);
    if (perAddress !== undefined) over = laterOf(over, address?.findOver('address', perAddress.requests - 1, nowMs));
    if (ofQuota !== undefined) over = laterOf(over, this.quotas.findOver(ofQuota));
    if (over === undefined) {
      account.add(charge.cost, nowMs);
      address?.add(nowMs, 1);
      if (ofQuota !== undefined) this.quotas.add(ofQuota.use, ofQuota.units, isUnsure);
    }
    const standings = this.#standingsOf(bounds, nowMs, account, address, ofQuota);
    if (over === undefined)
      return { count: { isAdmitted: true, standings }, settle: this.#settleOf(charge, account, quota) };
    const count: LimitCount = { isAdmitted: false, over: over.name, freeInMs: over.freeInMs, standings };
    return { count, settle: noSettlement };
  }

  /** Counts a request in its windows that another counter admitted. */
  note(charge: Charge): Counted['settle'] {
    const nowMs = this.#now();
    const account = this.#accountOf(charge);
    account.add(charge.cost, nowMs);
    this.#addressOf(charge)?.add(nowMs, 1);
    return this.#settleOf(charge, account, undefined);
  }

  standings(charge: Charge): readonly BoundStanding[] {
    const nowMs = this.#now();
    const bounds = shareOf(charge.bounds, this.#processes);
    const ofQuota = bounds.quota && this.quotas.charge(charge, bounds.quota);
    return this.#standingsOf(bounds, nowMs, this.#accountOf(charge), this.#addressOf(charge), ofQuota);
  }

  #standingsOf(
    bounds: Bounds,
    nowMs: number,
    account: LimitAccount,
    address: Window | undefined,
    ofQuota: QuotaCharge | undefined,
  ): readonly BoundStanding[] {
    const standings = account.standings(bounds, nowMs);
    if (address !== undefined) standings.push(address.standing('address', bounds.perAddress?.requests ?? 0, nowMs));
    if (ofQuota !== undefined) this.quotas.addStandings(ofQuota, standings);
    return standings;
  }

  /** Most requests have no extra cost, and need no clock. `quota`: the one that this process counts. */
  #settleOf(charge: Charge, account: LimitAccount, quota: Charge['bounds']['quota']): Counted['settle'] {
    return (extraCost) => {
      account.settle(extraCost, extraCost > 0 ? this.#now() : 0);
      if (quota !== undefined) this.quotas.settle(charge, quota, extraCost);
    };
  }

  #accountOf({ subject, hasKey, bounds: { windowMs } }: Charge): LimitAccount {
    const accounts = hasKey ? this.#keyed : this.#anonymous;
    let account = accounts.get(subject);
    // A new span begins a new account.
    if (account?.windowMs !== windowMs) accounts.set(subject, (account = new LimitAccount(windowMs)));
    return account;
  }

  #addressOf({ subject, address, bounds: { perAddress } }: Charge): Window | undefined {
    if (perAddress === undefined || address === undefined) return undefined;
    const name = `${subject}:${address}`;
    let window = this.#addresses.get(name);
    if (window?.spanMs !== perAddress.windowMs) this.#addresses.set(name, (window = new Window(perAddress.windowMs)));
    return window;
  }
}
