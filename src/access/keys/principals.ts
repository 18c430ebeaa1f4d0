import type { IncomingHttpHeaders } from 'node:http';
import { clientAddress, countedNetwork, Networks } from './client-address.ts';
import { KeySet, type KeyEntry, type KeyRecord } from './key-set.ts';
import type { Plan, Principal } from './principal.ts';

/** The config's part of authentication. */
export interface PrincipalRules {
  /** Lower case. In `authorization` the key follows `Bearer`. */
  readonly header: string;
  readonly plans: ReadonlyMap<string, Plan>;
  /** The plan of requests without a key; absent: they are refused. */
  readonly anonymous: Plan | undefined;
  /** In CIDR form. */
  readonly trustedProxies: readonly string[];
}

/** A socket. Node computes the address at each call. */
interface Connection {
  readonly remoteAddress?: string | undefined;
}

/** `no key`: none was sent, and one is required. `unread`: no match, but not all sources have been read yet. */
export type KeyRejection = 'no key' | 'bad key' | 'unread';

/** The key of a block of headers, looked up once for each set of keys. */
export interface KnownKey {
  /** Generation of the keys and rules that `entry` is from; a reference to the keys would keep them in memory. */
  generation: number;
  entry: Readonly<KeyEntry> | undefined;
}

/** Sources of keys. The file's record of a key takes precedence. */
type KeySource = 'file' | 'redis';

/** Maps a request's head to its principal: by its key, or by its address. */
export class Principals {
  #rules: PrincipalRules;
  #proxies: Networks;
  readonly #records: Record<KeySource, readonly KeyRecord[] | undefined>;
  /** SHA-256 of the file's keys that no source may admit. */
  #refused: ReadonlySet<string> = new Set();
  #keys: KeySet;
  /** Number of changes of keys and rules. */
  #generation = 0;

  /** `sources`: whether each will call `setKeys`. */
  constructor(rules: PrincipalRules, sources: Readonly<Record<KeySource, boolean>>) {
    this.#rules = rules;
    this.#proxies = new Networks(rules.trustedProxies);
    this.#records = { file: sources.file ? undefined : [], redis: sources.redis ? undefined : [] };
    this.#keys = this.#keySet();
  }

  /** Replaces the rules, in force for the next request. */
  setRules(rules: PrincipalRules): void {
    this.#rules = rules;
    this.#proxies = new Networks(rules.trustedProxies);
    this.#keys = this.#keySet();
  }

  /**
   * Replaces a source's keys, in force for the next request: keys that are missing from `records` are refused. `refused`:
   * SHA-256 of keys that the file has in a form that cannot be read, refused whatever another source holds.
   */
  setKeys(source: KeySource, records: readonly KeyRecord[], refused?: ReadonlySet<string>): void {
    this.#records[source] = records;
    if (refused !== undefined) this.#refused = refused;
    this.#keys = this.#keySet();
  }

  /** The header that keys come in. */
  get header(): string {
    return this.#rules.header;
  }

  /** The plans in force, by name. */
  get plans(): ReadonlyMap<string, Plan> {
    return this.#rules.plans;
  }

  /** Number of keys. */
  get size(): number {
    return this.#keys.size;
  }

  /**
   * The principal, or a rejection. A wrong key is refused even where none is required: its sender expects its plan.
   * `connection`: its address is read for requests without a key. `known`: of headers that come again; it holds the
   * key's entry while the same keys and rules are in force.
   */
  find(
    headers: IncomingHttpHeaders,
    connection: Connection | undefined,
    nowMs: number,
    known?: KnownKey,
  ): Principal | KeyRejection {
    if (known?.entry !== undefined && known.generation === this.#generation && nowMs < known.entry.expiresAtMs) {
      return known.entry.principal;
    }
    const { header, anonymous } = this.#rules;
    const value = headers[header];
    if (value === undefined)
      return anonymous === undefined ? 'no key' : this.#anonymous(anonymous, headers, connection);
    const key = keyIn(header, String(value));
    const entry = key === undefined ? undefined : this.#keys.find(key, nowMs);
    if (known !== undefined) {
      known.generation = this.#generation;
      known.entry = entry;
    }
    return entry?.principal ?? this.#rejection;
  }

  get #rejection(): KeyRejection {
    return this.#records.file === undefined || this.#records.redis === undefined ? 'unread' : 'bad key';
  }

  #anonymous(plan: Plan, headers: IncomingHttpHeaders, connection: Connection | undefined): Principal {
    const forwarded = headers['x-forwarded-for'];
    const claimed = forwarded === undefined ? undefined : String(forwarded);
    const address = clientAddress(connection?.remoteAddress, claimed, this.#proxies);
    const { operations, origins } = plan;
    return { name: undefined, tenant: countedNetwork(address), plan, operations, origins };
  }

  #keySet(): KeySet {
    this.#generation += 1;
    const records = [...(this.#records.file ?? []), ...(this.#records.redis ?? [])];
    const admitted = records.filter(({ sha256 }) => !this.#refused.has(sha256));
    return new KeySet(admitted, this.#rules.plans);
  }
}

function keyIn(header: string, value: string): string | undefined {
  return header === 'authorization' ? /^Bearer +([^\s,]+) *$/i.exec(value)?.[1] : value;
}

/** Whether the text of an `Authorization` header is of the scheme `Bearer`, token or not. */
export function isBearer(authorization: string): boolean {
  return /^Bearer(?: |$)/i.test(authorization);
}
