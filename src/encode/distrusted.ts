/**
 * Functions that are left to nodes. An account that publishes very many of them takes one place with all of them, so
 * that nobody's own modules use up the places that there are.
 */

/** So many places are no longer a matter of single functions. */
export const maxDistrusted = 1_000;
/** With more functions of one account than this, all of its functions are left to nodes. */
const maxOfAccount = 100;

export class DistrustedFunctions {
  /** Function ids, and addresses that stand for all functions of their account. */
  readonly #names = new Set<string>();

  get names(): ReadonlySet<string> {
    return this.#names;
  }

  /** Takes a function, or an address that another process told. With every place taken nothing changes any more. */
  add(name: string): void {
    const account = accountOf(name);
    if (this.isFull || this.#names.has(account)) return;
    this.#names.add(name);
    const ofAccount = [...this.#names].filter((other) => accountOf(other) === account);
    if (name !== account && ofAccount.length <= maxOfAccount) return;
    for (const functionId of ofAccount) this.#names.delete(functionId);
    this.#names.add(account);
  }

  has(functionId: string): boolean {
    return this.#names.has(functionId) || this.#names.has(accountOf(functionId));
  }

  /** Then there may be others that found no place, and none is to be trusted. */
  get isFull(): boolean {
    return this.#names.size >= maxDistrusted;
  }
}

/** `0xcafe` of `0xcafe::shop::buy`; what is called no function stands for itself. */
function accountOf(name: string): string {
  const end = name.indexOf('::');
  return end < 0 ? name : name.slice(0, end);
}
