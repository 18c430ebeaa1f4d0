/** Clients' keys: their form, and the set in force, stored by SHA-256 alone. */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { AccessOperation, Plan, Principal } from './principal.ts';

/** By this prefix, scanners recognise leaked keys. */
const prefix = 'lgk_';
const randomByteCount = 32;

/** Characters. Longer texts are no keys, and are hashed up to here only: the cost of a guess is bounded. */
export const longestKey = 256;

/** A new key, `lgk_` and 256 random bits, and its hash. */
export function createKey(): { readonly key: string; readonly sha256: string } {
  const key = prefix + randomBytes(randomByteCount).toString('base64url');
  return { key, sha256: hashKey(key) };
}

/** Whether a text contains the prefix and 16 characters of a key, valid or not. */
export function holdsKey(text: string): boolean {
  return text.includes(prefix) && keyForm.test(text);
}

const keyForm = /lgk_[\w-]{16}/;

/** SHA-256 of a key, 64 hex digits. Keys are random: neither a salt nor a slow hash is necessary. */
export function hashKey(key: string): string {
  return hash('sha256', key, 'hex');
}

/** A key's stored record. */
export interface KeyRecord {
  readonly name: string;
  readonly tenant: string;
  /** A plan's name. */
  readonly plan: string;
  /** SHA-256 of the key: 64 hex digits, lower case. */
  readonly sha256: string;
  /** Operations of the key, within those of its plan; absent: all of the plan's. */
  readonly operations?: readonly AccessOperation[] | undefined;
  /** Origins that may use the key, within those of its plan; absent: all of the plan's. */
  readonly origins?: readonly string[] | undefined;
  /** Ms since 1970. Absent: never. */
  readonly expiresAtMs?: number | undefined;
}

/** A key in force. */
export interface KeyEntry {
  readonly digest: Buffer;
  readonly principal: Principal;
  /** Unix time in ms; Infinity: never. */
  readonly expiresAtMs: number;
}

/** Compared where no key has the hash, so that the time is the same. */
const noDigest = Buffer.alloc(32);

/** The keys in force, by hash. Immutable: a change of keys makes a new set. */
export class KeySet {
  readonly #entries = new Map<string, KeyEntry>();

  /** The first of several records of one key counts. Records of unknown plans are ignored. */
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

  /** The entry of a key; `undefined` for an unknown or expired one. `nowMs`: Unix time. */
  find(key: string, nowMs: number): Readonly<KeyEntry> | undefined {
    const sha256 = hashKey(key.slice(0, longestKey));
    const entry = this.#entries.get(sha256);
    // The map's comparison may leak a part of a hash by its time, which reveals nothing of the key. Equality is decided
    // here, in constant time.
    const isSame = timingSafeEqual(Buffer.from(sha256, 'hex'), entry?.digest ?? noDigest);
    if (!isSame || entry === undefined || key.length > longestKey) return undefined;
    return nowMs < entry.expiresAtMs ? entry : undefined;
  }
}

/** The rights of a key: the intersection of its own and its plan's. */
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
