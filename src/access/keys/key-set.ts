/** Keys of clients: their form, and the set of those in force, kept and found by their SHA-256 alone. */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { AccessOperation, Plan, Principal } from './principal.ts';

/** Scanners that look for leaked keys find them by it. */
const prefix = 'lgk_';
const randomByteCount = 32;

/** Longer texts are no keys, and not hashed to their end: the cost of a guess is bounded. */
export const longestKey = 256;

/** A new key: `lgk_` and 256 random bits. */
export function createKey(): string {
  return prefix + randomBytes(randomByteCount).toString('base64url');
}

/** Whether a text has something in it that is a key, or meant to be one. */
export function holdsKey(text: string): boolean {
  return text.includes(prefix) && keyForm.test(text);
}

const keyForm = /lgk_[\w-]{16}/;

/** The hash of a key, 64 hex digits. Keys are random, so that no salt and no slow hash is needed. */
export function hashKey(key: string): string {
  return hash('sha256', key, 'hex');
}

/** A key as it is kept. */
export interface KeyRecord {
  readonly name: string;
  readonly tenant: string;
  /** A plan's name. */
  readonly plan: string;
  /** Of the key's text: 64 hex digits, lower case. */
  readonly sha256: string;
  /** What it may do of what its plan may; absent: all of it. */
  readonly operations?: readonly AccessOperation[] | undefined;
  /** Pages that may use it, of those that may use its plan; absent: all of them. */
  readonly origins?: readonly string[] | undefined;
  /** Ms since 1970. Absent: never. */
  readonly expiresAtMs?: number | undefined;
}

interface KeyEntry {
  readonly digest: Buffer;
  readonly principal: Principal;
  readonly expiresAtMs: number;
}

/** Compared with where no key has the hash, so that it takes as long as where one has. */
const nobody = Buffer.alloc(32);

/** Immutable: who changes keys makes another set. */
export class KeySet {
  readonly #entries = new Map<string, KeyEntry>();

  /** Of two records of one key the first counts. Those of plans that are not there are left out. */
  constructor(records: Iterable<KeyRecord>, plans: ReadonlyMap<string, Plan>) {
    for (const record of records) {
      const plan = plans.get(record.plan);
      if (plan === undefined || this.#entries.has(record.sha256)) continue;
      this.#entries.set(record.sha256, {
        digest: Buffer.from(record.sha256, 'hex'),
        principal: principalOf(record, plan),
        expiresAtMs: record.expiresAtMs ?? Infinity,
      });
    }
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Whose key it is; `undefined` for one that is unknown or has expired. `nowMs` since 1970. */
  find(key: string, nowMs: number): Principal | undefined {
    const sha256 = hashKey(key.slice(0, longestKey));
    const entry = this.#entries.get(sha256);
    // The map compares hashes as texts, which may stop at the first difference; what that tells of a hash tells nothing
    // of the key. That both are equal is decided here, in constant time.
    const isSame = timingSafeEqual(Buffer.from(sha256, 'hex'), entry?.digest ?? nobody);
    if (!isSame || entry === undefined || key.length > longestKey) return undefined;
    return nowMs < entry.expiresAtMs ? entry.principal : undefined;
  }
}

/** A key may do what its plan may, and no more than it says itself. */
function principalOf({ name, tenant, operations, origins }: KeyRecord, plan: Plan): Principal {
  return {
    name,
    tenant,
    plan,
    operations:
      operations === undefined ? plan.operations : new Set(operations.filter((one) => plan.operations.has(one))),
    origins: originsOf(origins, plan),
  };
}

function originsOf(own: readonly string[] | undefined, plan: Plan): ReadonlySet<string> | undefined {
  const { origins } = plan;
  return own === undefined ? origins : new Set(own.filter((one) => origins === undefined || origins.has(one)));
}
