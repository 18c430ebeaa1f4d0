/** A source of keys, as operators read and change it. */
import type { KeyRecord } from './principals.ts';

/** Fields of an entry in the order of the file; an absent one has its default. */
export type KeyFields = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Fields of a new key, its hash among them. */
export type NewKeyFields = KeyFields & { readonly name: string; readonly sha256: string };

/** Changed fields; null removes one. */
export type FieldChanges = Readonly<Record<string, string | readonly string[] | null | undefined>>;

/** A change of keys, for other processes. */
export interface KeysChange {
  /** SHA-256 of the changed key in Redis; absent: the file has changed. */
  readonly sha256?: string | undefined;
}

/** Each change is in force in this process when it resolves, unless another writer's later one is. It rejects with `KeysFault`. */
export interface KeySource {
  /** Valid keys, also those without a plan, and texts about the entries that are refused. */
  readonly found: { readonly keys: readonly KeyRecord[]; readonly problems: readonly string[] };
  named(name: string): readonly KeyRecord[];
  add(fields: NewKeyFields): Promise<readonly KeysChange[]>;
  /** Changes the one key of the name. */
  change(name: string, changes: FieldChanges): Promise<readonly KeysChange[]>;
  /** Removes each key of the name. */
  remove(name: string): Promise<readonly KeysChange[]>;
}

/**
 * `invalid`: the request. `exists`, `unknown`: a key of the name. `conflict`: another state than the request needs.
 * `unavailable`: the source cannot be changed now.
 */
type KeysFaultReason = 'invalid' | 'exists' | 'unknown' | 'conflict' | 'unavailable';

/** A change of keys failed. */
export class KeysFault extends Error {
  override readonly name = 'KeysFault';
  readonly reason: KeysFaultReason;

  constructor(reason: KeysFaultReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}
