/** Transactions that were submitted to a sample node: pending at first, then committed at the head of that moment. */
import { type JsonObject, JsonValue } from '../ledger/index.ts';
import { committedFields, syntheticHash } from './synthetic.ts';

/** More than any test or demonstration submits; beyond it the oldest goes. */
const maxTransactions = 1000;

interface PoolEntry {
  readonly hash: string;
  /** The members of the request, as JSON text between commas. */
  readonly members: string;
  readonly submittedMs: number;
  version?: bigint;
}

/** Submitted transactions. Nodes of one ledger may share a mempool, so that each finds the submissions of all. */
export class Mempool {
  readonly #pendingForMs: number;
  readonly #now: () => number;
  readonly #entries = new Map<string, PoolEntry>();
  /** By version; of several that were committed at one, the first. */
  readonly #committed = new Map<bigint, PoolEntry>();

  /** `pendingForMs`: how long a transaction stays pending. `Infinity`: until `commitAll`. */
  constructor({
    pendingForMs = 500,
    now = Date.now,
  }: { readonly pendingForMs?: number; readonly now?: () => number } = {}) {
    this.#pendingForMs = pendingForMs;
    this.#now = now;
  }

  /** Takes a transaction in and returns the text of the 202 answer. A resend of the same bytes changes nothing. */
  submit(bytes: Uint8Array, request: JsonObject | undefined): string {
    const hash = syntheticHash(bytes);
    const known = this.#entries.get(hash);
    const members = known?.members ?? membersOf(request);
    if (known === undefined) this.#add({ hash, members, submittedMs: this.#now() });
    return `{"hash":"${hash}"${members}}`;
  }

  /**
   * `head`: the head of the asking node. A transaction that waited long enough is committed there; one that another node
   * committed above it is still pending here.
   */
  find(hash: string, head: bigint) {
    const entry = this.#entries.get(hash);
    if (entry === undefined) return undefined;
    if (this.#now() - entry.submittedMs >= this.#pendingForMs) this.#commit(entry, head);
    const { version, members } = entry;
    if (version === undefined || version > head) {
      return { version: undefined, body: `{"hash":"${hash}"${members},"type":"pending_transaction"}` };
    }
    const start = JSON.stringify({ version: String(version), hash, ...committedFields(version) });
    return { version, body: `${start.slice(0, -1)}${members},"type":"user_transaction"}` };
  }

  /** Commits every pending transaction at `version`. */
  commitAll(version: bigint): void {
    for (const entry of this.#entries.values()) this.#commit(entry, version);
  }

  /** Commits those that are pending, or these of them, each at a version of its own from `first` on. Returns the version after them. */
  commitEach(first: bigint, hashes: Iterable<string> = this.#entries.keys()): bigint {
    let next = first;
    for (const hash of hashes) {
      const entry = this.#entries.get(hash);
      if (entry === undefined || entry.version !== undefined) continue;
      this.#commit(entry, next);
      next += 1n;
    }
    return next;
  }

  /** The transaction that was committed at `version`. */
  at(version: bigint): { readonly hash: string; readonly body: string } | undefined {
    const hash = this.#committed.get(version)?.hash;
    const found = hash === undefined ? undefined : this.find(hash, version);
    return hash === undefined || found === undefined ? undefined : { hash, body: found.body };
  }

  #commit(entry: PoolEntry, version: bigint): void {
    entry.version ??= version;
    if (!this.#committed.has(entry.version)) this.#committed.set(entry.version, entry);
  }

  #drop(hash: string): void {
    const entry = this.#entries.get(hash);
    this.#entries.delete(hash);
    if (entry?.version !== undefined && this.#committed.get(entry.version) === entry)
      this.#committed.delete(entry.version);
  }

  #add(entry: PoolEntry): void {
    const [first] = this.#entries.keys();
    if (this.#entries.size >= maxTransactions && first !== undefined) this.#drop(first);
    this.#entries.set(entry.hash, entry);
  }
}

/** The submitted text is kept as it was written, numbers included. A BCS transaction shows its hash only. */
function membersOf(request: JsonObject | undefined): string {
  const members = [...(request?.members ?? [])].filter(([name]) => name !== 'hash' && name !== 'type');
  return members.map(([name, value]) => `,${JSON.stringify(name)}:${JsonValue.canonical(value)}`).join('');
}
