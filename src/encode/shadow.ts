/**
 * The standing proof: a share of locally encoded requests goes to a node as well, and bytes are compared. A function
 * whose bytes once differed is left to nodes until the process restarts: no signer must find out by a signature which
 * side was wrong.
 */
import { hash, randomBytes } from 'node:crypto';
import { JsonBody } from '../ledger/index.ts';
import type { EncodeOutcome, RefusalCode } from './outcome.ts';

interface ShadowSources {
  /** Monotonic, in milliseconds. Default: the process's clock. */
  readonly now?: () => number;
  readonly random?: () => number;
  /** The functions that other processes leave to nodes. */
  readonly distrusted?: DistrustedFunctions['all'] | undefined;
}

/** State of the proof of one function under one ABI. */
interface Trust {
  readonly signature: string;
  /** No other request asks before this time: Infinity, once a node gave the same bytes. */
  readonly askAgainAtMs: number;
}

/** A function that no node has confirmed yet is checked at most this often besides its share. */
const askAgainMs = 1_000;
/** Functions remembered as checked; a forgotten one is only checked once more. */
const maxKnown = 20_000;

/** Decides which requests a node checks, and which functions are trusted. No I/O. */
export class ShadowProof {
  readonly #settings: { readonly share: number };
  readonly #random: () => number;
  readonly #now: () => number;
  readonly #standings = new Map<string, Trust>();
  readonly #distrusted: DistrustedFunctions;
  /** Functions with a difference that is being examined, and the number of these. */
  readonly #suspended = new Map<string, number>();

  /** `settings.share`: of the requests that are checked, 0 to 1. Read at each, so it may change. */
  constructor(
    settings: { readonly share: number },
    { now = () => performance.now(), random = Math.random, distrusted }: ShadowSources = {},
  ) {
    this.#settings = settings;
    this.#random = random;
    this.#now = now;
    this.#distrusted = new DistrustedFunctions(distrusted);
  }

  /**
   * Functions whose bytes differed from a node's, and addresses that stand for all functions of an account: the first
   * 1000 of them. An account that finds no place is left to nodes as well (`DistrustedFunctions`).
   */
  get distrusted(): ReadonlySet<string> {
    return this.#distrusted.names;
  }

  isTrusted(functionId: string): boolean {
    return !this.#suspended.has(functionId) && !this.#distrusted.has(functionId);
  }

  /**
   * Whether to ask a node about this request: the first of a function under its ABI, then a share. While no node has
   * confirmed a function (none answers, or encoding is turned off there) one request in `askAgainMs` asks, so that
   * the nodes do not get every request after all. A share of 0 turns proof off.
   */
  shouldCheck(functionId: string, signature: string): boolean {
    const { share } = this.#settings;
    if (share <= 0) return false;
    const standing = this.#standings.get(functionId);
    const nowMs = this.#now();
    if (standing?.signature === signature && nowMs < standing.askAgainAtMs) return this.#random() < share;
    this.#remember(functionId, { signature, askAgainAtMs: nowMs + askAgainMs });
    return true;
  }

  /** Revokes a check that `shouldCheck` ordered and no node got: the next request of the function is checked instead. */
  giveBack(functionId: string, signature: string): void {
    const standing = this.#standings.get(functionId);
    const isAwaited = standing?.signature === signature && standing.askAgainAtMs !== Infinity;
    if (isAwaited) this.#standings.delete(functionId);
  }

  prove(functionId: string, signature: string): void {
    this.#remember(functionId, { signature, askAgainAtMs: Infinity });
  }

  /** A node's answer differed, and its cause is being examined: until `resume` the function is not trusted. */
  suspend(functionId: string): void {
    this.#suspended.set(functionId, (this.#suspended.get(functionId) ?? 0) + 1);
  }

  /** Ends one `suspend`. */
  resume(functionId: string): void {
    const others = (this.#suspended.get(functionId) ?? 0) - 1;
    if (others > 0) this.#suspended.set(functionId, others);
    else this.#suspended.delete(functionId);
  }

  /** A node gave other bytes, or refused the meaning of what was encoded here. No later proof takes it back. */
  distrust(functionId: string): void {
    this.#standings.delete(functionId);
    this.#distrusted.add(functionId);
  }

  #remember(functionId: string, standing: Trust): void {
    this.#standings.delete(functionId);
    this.#standings.set(functionId, standing);
    const [eldest] = this.#standings.keys();
    if (this.#standings.size > maxKnown && eldest !== undefined) this.#standings.delete(eldest);
  }
}

/** Functions and accounts with a place of their own, which operators see listed. */
const maxDistrusted = 1_000;
/** With more functions of one account than this, all of its functions are left to nodes. */
const maxOfAccount = 100;

interface Distrusted {
  readonly names: readonly string[];
  readonly marked: MarkedAccounts;
}

/**
 * Functions that are left to nodes for as long as the process lives, by id (`0x1::coin::transfer`), canonical. An account
 * that publishes very many of them takes one place with all of them. With every place taken a further account is marked
 * instead: all of its functions are left to nodes, and functions of an account that has done nothing are encoded here as
 * before.
 */
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

/** A node's answer to the same request, held against the local bytes. `unread`: no comparison, the node cannot read the request. */
type ShadowComparison = 'equal' | 'mismatch' | 'unread' | 'inconclusive';

/** The local answer: `0x` and hex, and a ledger version that is at least that of the ABI behind it. */
interface LocalAnswer {
  readonly hex: string;
  readonly version: bigint | undefined;
}

/** A node's answer to a request. `version`: its ledger's. `isFramed`: the end of the body was announced; it may have been cut otherwise. */
interface AnswerFacts {
  readonly status: number;
  readonly body: string;
  readonly version: bigint | undefined;
  readonly isFramed: boolean;
}

/** The answer of a node to the same request. */
export class NodeEncoding {
  readonly #answer: AnswerFacts;

  constructor(answer: AnswerFacts) {
    this.#answer = answer;
  }

  /** The node's ledger version; `undefined` where the answer has none. */
  get version(): bigint | undefined {
    return this.#answer.version;
  }

  /**
   * Compares the local bytes with it. Other bytes are a mismatch. So is a refusal of the request's meaning (400 with an
   * `error_code`), unless the node was still behind the ABI that was used here: it may not have the function yet.
   *
   * A refusal of the request's text comes before the node reads its ledger. It shows a fault of the parser here, which
   * all functions share, and proves nothing about the bytes of this one. Any client can write such a text, so it turns no
   * function off. Any other answer proves nothing.
   */
  compareWith(local: LocalAnswer): ShadowComparison {
    const { status, body, version, isFramed } = this.#answer;
    if (status === 200) {
      if (body.trim() === `"${local.hex}"`) return 'equal';
      return isFramed ? 'mismatch' : 'inconclusive';
    }
    const code = status === 400 ? findRefusalCode(body) : undefined;
    if (code === undefined) return 'inconclusive';
    // protocol 2.2: neither a fault of the JSON nor one of its names and types carries ledger headers.
    if (code === 'web_framework_error' || version === undefined) return 'unread';
    return version < (local.version ?? 0n) ? 'inconclusive' : 'mismatch';
  }

  /**
   * Whether a mismatch is that of an upgrade: by the ABIs of another version, `encoded`, the request does not come to
   * bytes that differ from it. Encoding is a function of body and ABIs, so that what is not encoded now was encoded by
   * ABIs that the node had no longer, or not yet. Only the steps depend on what was compiled before.
   */
  isOfUpgrade(encoded: EncodeOutcome): boolean {
    if (encoded.kind === 'refused') return true;
    if (encoded.kind === 'forward') return encoded.reason !== 'too many steps' && encoded.reason !== 'encoder fault';
    return this.compareWith({ hex: encoded.hex, version: this.version }) !== 'mismatch';
  }
}

/** The code of a node's own 400, not of a proxy's: the specified error body with one of two codes (protocol 3). */
function findRefusalCode(body: string): RefusalCode | undefined {
  const { error_code: code } = new JsonBody(Buffer.from(body)).members;
  return code === 'invalid_input' || code === 'web_framework_error' ? code : undefined;
}
