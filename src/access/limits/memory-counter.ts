/** Counts in this process. */
import { Accounts } from './accounts.ts';
import {
  type BoundStanding,
  type Charge,
  type Counted,
  laterOf,
  type LimitCount,
  noSettlement,
  shareOf,
} from './counter.ts';
import { Quotas } from './quotas.ts';
import { AddressAccount, LimitAccount } from './window.ts';

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
  readonly #keyed = new Accounts<LimitAccount>(maxAccounts);
  readonly #anonymous = new Accounts<LimitAccount>(maxAccounts);
  readonly #addresses = new Accounts<AddressAccount>(maxAccounts);

  /** `processes`: that share the bounds. */
  constructor(processes = 1, quotas = new Quotas({ processes })) {
    this.#processes = processes;
    this.quotas = quotas;
  }

  /** Number of accounts. */
  get size(): number {
    return this.#keyed.size + this.#anonymous.size + this.#addresses.size;
  }

  /** Counts the request if all bounds have room. `isUnsure`: Redis or the primary may have counted it in its quota. */
  take(charge: Charge, isUnsure = false): Counted {
    const nowMs = performance.now();
    const account = this.#accountOf(charge, nowMs);
    const bounds = shareOf(charge.bounds, this.#processes);
    const { perAddress, quota } = bounds;
    if (perAddress === undefined && quota === undefined) {
      const count = account.take(bounds, charge.cost, nowMs);
      return { count, settle: count.isAdmitted ? this.#settleOf(charge, account, true) : noSettlement };
    }
    const address = this.#addressOf(charge, nowMs);
    const quotaCharge = quota && this.quotas.charge(charge, quota);
    let over = account.findOver(bounds, charge.cost, nowMs);
    if (perAddress !== undefined) over = laterOf(over, address?.findOver(perAddress.requests, nowMs));
    if (quotaCharge !== undefined) over = laterOf(over, this.quotas.findOver(quotaCharge));
    if (over === undefined) {
      account.add(charge.cost, nowMs);
      address?.add(nowMs);
      if (quotaCharge !== undefined) this.quotas.add(quotaCharge.use, quotaCharge.units, isUnsure);
    }
    const standings = account.standings(bounds, nowMs);
    if (perAddress !== undefined && address !== undefined) standings.push(address.standing(perAddress.requests, nowMs));
    if (quotaCharge !== undefined) this.quotas.addStandings(quotaCharge, standings);
    const count: LimitCount =
      over === undefined
        ? { isAdmitted: true, standings }
        : { isAdmitted: false, over: over.name, freeInMs: over.freeInMs, standings };
    return { count, settle: count.isAdmitted ? this.#settleOf(charge, account, true) : noSettlement };
  }

  /** Counts a request in its windows that another counter admitted; returns its `settle`. */
  note(charge: Charge): (extraCost: number) => void {
    const nowMs = performance.now();
    const account = this.#accountOf(charge, nowMs);
    account.add(charge.cost, nowMs);
    this.#addressOf(charge, nowMs)?.add(nowMs);
    return this.#settleOf(charge, account, false);
  }

  /** Reads the rest of each bound, without a charge. */
  standings(charge: Charge): readonly BoundStanding[] {
    const nowMs = performance.now();
    const bounds = shareOf(charge.bounds, this.#processes);
    const standings = this.#accountOf(charge, nowMs).standings(bounds, nowMs);
    const address = this.#addressOf(charge, nowMs);
    if (address !== undefined) standings.push(address.standing(bounds.perAddress?.requests ?? 0, nowMs));
    if (bounds.quota !== undefined) this.quotas.addStandings(this.quotas.charge(charge, bounds.quota), standings);
    return standings;
  }

  /** Most requests have no extra cost, and need no clock. `isOfQuota`: this process counts their quota. */
  #settleOf(charge: Charge, account: LimitAccount, isOfQuota: boolean): (extraCost: number) => void {
    const quota = isOfQuota ? charge.bounds.quota : undefined;
    if (quota?.unit !== 'cost') return (extraCost) => account.settle(extraCost, extraCost > 0 ? performance.now() : 0);
    return (extraCost) => {
      account.settle(extraCost, extraCost > 0 ? performance.now() : 0);
      this.quotas.settle(charge, quota, extraCost);
    };
  }

  #accountOf({ subject, hasKey, bounds: { windowMs } }: Charge, nowMs: number): LimitAccount {
    const accounts = hasKey ? this.#keyed : this.#anonymous;
    const known = accounts.use(subject, nowMs);
    if (known?.windowMs === windowMs) return known;
    // A new span begins a new account.
    const account = new LimitAccount(windowMs);
    accounts.add(subject, account, nowMs);
    return account;
  }

  #addressOf({ subject, address, bounds: { perAddress } }: Charge, nowMs: number): AddressAccount | undefined {
    if (perAddress === undefined || address === undefined) return undefined;
    const name = `${subject}:${address}`;
    const known = this.#addresses.use(name, nowMs);
    if (known?.windowMs === perAddress.windowMs) return known;
    const account = new AddressAccount(perAddress.windowMs);
    this.#addresses.add(name, account, nowMs);
    return account;
  }
}
