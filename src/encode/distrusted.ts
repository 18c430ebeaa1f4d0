/**
 * Functions that are left to nodes for as long as the process lives. An account that publishes very many of them takes
 * one place with all of them. With every place taken a further account is marked instead: all of its functions are left
 * to nodes, and functions of an account that has done nothing are encoded here as before.
 */
import { hash, randomBytes } from 'node:crypto';

/** Functions and accounts with a place of their own, which operators see listed. */
export const maxDistrusted = 1_000;
/** With more functions of one account than this, all of its functions are left to nodes. */
const maxOfAccount = 100;

/** The whole set as plain data, for a process that starts later. */
interface Distrusted {
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

/** 2^23 bits, 1 MiB, made when the first account is added. */
const tableBits = 2 ** 23;
const positionsOfAccount = 4;

/** The filter as plain data, for another process. */
interface MarkedAccounts {
  /** Hex, the secret of the positions. */
  readonly salt: string;
  /** `undefined`: none was added. */
  readonly table: Uint8Array | undefined;
}

/**
 * Accounts (`0x...`, canonical) in a table of fixed size that forgets none of them: a Bloom filter. An added account is
 * always found. An account that was not added is found with a chance of 1 in 10^8 after 10,000 others, and of 2 % after a
 * million. The positions depend on a secret, so that no client can choose accounts that collide with another one.
 */
class AccountMarks {
  readonly #salt: string;
  #table: Uint8Array | undefined;

  /** `marked`: the filter of another process, to start from. */
  constructor(marked: MarkedAccounts = { salt: randomBytes(16).toString('hex'), table: undefined }) {
    this.#salt = marked.salt;
    this.#table = marked.table;
  }

  /** For another process, which then adds to a table of its own. */
  get marked(): MarkedAccounts {
    return { salt: this.#salt, table: this.#table };
  }

  add(account: string): void {
    this.#table ??= new Uint8Array(tableBits / 8);
    for (const position of this.#positions(account)) {
      const at = position >> 3;
      this.#table[at] = (this.#table[at] ?? 0) | (1 << (position & 7));
    }
  }

  has(account: string): boolean {
    const table = this.#table;
    if (table === undefined) return false;
    return this.#positions(account).every((position) => ((table[position >> 3] ?? 0) & (1 << (position & 7))) !== 0);
  }

  #positions(account: string): readonly number[] {
    const digest = hash('sha256', this.#salt + account, 'buffer');
    return Array.from({ length: positionsOfAccount }, (_, at) => digest.readUInt32LE(4 * at) % tableBits);
  }
}
