/**
 * Functions that are left to nodes for as long as the process lives. An account that publishes very many of them takes
 * one place with all of them. With every place taken a further account is marked instead: all of its functions are left
 * to nodes, and functions of an account that has done nothing are encoded here as before.
 */
import { AccountMarks, type MarkedAccounts } from './account-marks.ts';

/** Functions and accounts with a place of their own, which operators see listed. */
export const maxDistrusted = 1_000;
/** With more functions of one account than this, all of its functions are left to nodes. */
const maxOfAccount = 100;

/** The whole set as plain data, for a process that starts later. */
export interface Distrusted {
  readonly names: readonly string[];
  readonly marked: MarkedAccounts;
}

/** The set. Names are function ids (`0x1::coin::transfer`), canonical. */
export class DistrustedFunctions {
  /** Function ids, and addresses that stand for all functions of their account. */
  readonly #names: Set<string>;
  readonly #marks: AccountMarks;

  /** `known`: the set of another process, to start from. */
  constructor(known?: Distrusted) {
    this.#names = new Set(known?.names);
    this.#marks = new AccountMarks(known?.marked);
  }

  /** Functions and accounts that have a place. */
  get names(): ReadonlySet<string> {
    return this.#names;
  }

  get all(): Distrusted {
    return { names: [...this.#names], marked: this.#marks.marked };
  }

  /** Takes a function id, or an address from another process. */
  add(name: string): void {
    if (this.has(name)) return;
    const account = accountOf(name);
    const ofAccount = [...this.#names].filter((other) => accountOf(other) === account);
    const isWhole = name === account || ofAccount.length >= maxOfAccount;
    if (isWhole) for (const functionId of ofAccount) this.#names.delete(functionId);
    if (this.#names.size < maxDistrusted) this.#names.add(isWhole ? account : name);
    else this.#marks.add(account);
  }

  has(functionId: string): boolean {
    const account = accountOf(functionId);
    return this.#names.has(functionId) || this.#names.has(account) || this.#marks.has(account);
  }
}

/** `0xcafe` of `0xcafe::shop::buy`; a name without `::` is an account itself. */
function accountOf(name: string): string {
  const end = name.indexOf('::');
  return end < 0 ? name : name.slice(0, end);
}
