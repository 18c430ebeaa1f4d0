/**
 * Accounts in a table of fixed size that forgets none of them: a Bloom filter. An added account is always found. An account
 * that was not added is found with a chance of 1 in 10^8 after 10,000 others, and of 2 % after a million. The positions
 * depend on a secret, so that no client can choose accounts that collide with another one.
 */
import { hash, randomBytes } from 'node:crypto';

/** 2^23 bits, 1 MiB, made when the first account is added. */
const tableBits = 2 ** 23;
const positionsOfAccount = 4;

/** The filter as plain data, for another process. */
export interface MarkedAccounts {
  /** Hex, the secret of the positions. */
  readonly salt: string;
  /** `undefined`: none was added. */
  readonly table: Uint8Array | undefined;
}

/** The filter. An account is the text `0x...` of an address, canonical. */
export class AccountMarks {
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
