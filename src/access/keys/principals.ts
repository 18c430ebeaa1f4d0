/** The principal of a request, by its key or its address. Keys are known by their SHA-256 alone. */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { AccessConfig, accessOperations } from '../../config/index.ts';
import { LRUCache } from 'lru-cache';
import { type Bounds, isBounded } from '../limits/counter.ts';
import { clientAddress, countedNetwork, Networks } from './client-address.ts';
import { FunctionRights } from './function-rights.ts';
import { isToken, type TokenRejection, type Tokens, type VerifiedToken } from './jwt-tokens.ts';

/** One of the operations that plans and keys grant. */
export type AccessOperation = (typeof accessOperations)[number];

/** Rights and limits under one name. */
export interface Plan {
  readonly name: string;
  /** `undefined`: there are none. */
  readonly bounds: Bounds | undefined;
  /** The bound of event streams, as one of requests in flight; `undefined`: any number. */
  readonly streamBounds: Bounds | undefined;
  /** Longest wait of a request over a limit. */
  readonly waitMs: number;
  readonly maxStalenessMs?: number | undefined;
  readonly operations: ReadonlySet<AccessOperation>;
  /** Origins that may use the plan; `undefined`: any. */
  readonly origins?: ReadonlySet<string> | undefined;
  /** Rights by function of a view; `undefined`: every function. */
  readonly views?: FunctionRights | undefined;
}

/** The sender of a request. */
export interface Principal {
  /** The key's name, `jwt` for a token; `undefined`: neither was sent. */
  readonly name: string | undefined;
  /** The unit of limits: several keys may share one. Without a key, the client's `countedNetwork`. */
  readonly tenant: string;
  /** The client: the key by tenant and name; without one, the tenant. */
  readonly client: string;
  /** The account of its limits: plan and tenant. */
  readonly account: string;
  readonly plan: Plan;
  readonly operations: ReadonlySet<AccessOperation>;
  readonly origins: ReadonlySet<string> | undefined;
  /** Networks of the clients that may use the key; `undefined`: any. */
  readonly addresses?: Networks | undefined;
}

/** By this prefix, scanners recognise leaked keys. */
const prefix = 'lgk_';

/** Characters. Longer texts are no keys, and are hashed up to here only: the cost of a guess is bounded. */
export const longestKey = 256;

/** A new key, `lgk_` and 256 random bits, and its hash. */
export function createKey(): { readonly key: string; readonly sha256: string } {
  const key = prefix + randomBytes(32).toString('base64url');
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

/**
 * The token in the text of an `Authorization` header; empty: the scheme `Bearer` without a readable one; `undefined`:
 * another scheme. One space or more precede the token (RFC 9110 11.4, RFC 6750 2.1).
 */
export function parseBearer(authorization: string): string | undefined {
  const form = /^Bearer(?: +(\S+) *$| |$)/i.exec(authorization);
  return form === null ? undefined : (form[1] ?? '');
}

/** A key's stored record. */
export interface KeyRecord {
  readonly name: string;
  readonly tenant: string;
  readonly plan: string;
  /** SHA-256 of the key: 64 hex digits, lower case. */
  readonly sha256: string;
  /** Operations and origins within those of its plan, and networks of clients; absent: all. */
  readonly operations?: readonly AccessOperation[] | undefined;
  readonly origins?: readonly string[] | undefined;
  readonly addresses?: readonly string[] | undefined;
  /** Ms since 1970. Absent: never. */
  readonly expiresAtMs?: number | undefined;
}

/** A key for operators, without its hash. An absent field is null: programs find every field of every key. */
export function describeKey({ expiresAtMs, sha256, ...key }: KeyRecord) {
  const { name, tenant, plan, operations = null, origins = null, addresses = null } = key;
  const expires = expiresAtMs === undefined ? null : new Date(expiresAtMs).toISOString();
  return { name, tenant, plan, operations, origins, addresses, expires, sha256Prefix: sha256.slice(0, 8) };
}

/** A key or token in force. */
interface Credential {
  readonly principal: Principal;
  /** Unix time; Infinity: never. */
  readonly expiresAtMs: number;
}

interface KeyEntry extends Credential {
  readonly record: KeyRecord;
  readonly digest: Buffer;
}

/** The key or token of a block of headers, looked up once for each set of keys. */
export interface KnownKey {
  /** Generation of the keys and rules that `entry` is from; a reference to the keys would keep them in memory. */
  generation: number;
  entry: Credential | undefined;
}

type AuthenticationConfig = Pick<AccessConfig, 'header' | 'plans' | 'anonymous' | 'trustedProxies'>;

/** A connection. Node computes the address at each call. */
type Peer = { readonly remoteAddress?: string | undefined };

/** `no key`: none was sent, and one is required. `unread`: no match, but not all sources have been read yet. */
export type KeyRejection = 'no key' | 'bad key' | TokenRejection;

/** The name of every token: its claims name a tenant and a plan, and no key. */
const tokenName = 'jwt';
/** Tenants and plans of tokens with a principal, as many as tokens are remembered. */
const mostTokenPrincipals = 20_000;

/** Sources of keys. The file's record of a key takes precedence. */
type KeySource = 'file' | 'redis';

/** Compared where no key has the hash, so that the time is the same. */
const noDigest = Buffer.alloc(32);

/** Maps a request's head to its principal: by its key, or by its address. */
export class Principals {
  /** Lower-case name of the header that keys come in. In `authorization` the key follows `Bearer`. */
  header = '';
  plans: ReadonlySet<string> = new Set();
  #plans: ReadonlyMap<string, Plan> = new Map();
  /** The plan of requests without a key; `undefined`: they are refused. */
  #anonymous: Plan | undefined;
  #proxies = new Networks([]);
  /** By hash; `undefined`: not read yet. */
  readonly #records: Record<KeySource, Map<string, KeyRecord> | undefined>;
  /** SHA-256 of the file's keys that no source may admit. */
  #refused: ReadonlySet<string> = new Set();
  /** The keys in force, by hash. */
  #entries = new Map<string, KeyEntry>();
  /** By tenant and plan: one object, so that what is known of it is found again. */
  readonly #ofTokens = new LRUCache<string, Principal>({ max: mostTokenPrincipals });
  readonly #tokens: Tokens | undefined;
  /** Number of changes of keys and rules. */
  #generation = 0;

  /** `sources`: whether each will call `setKeys`. `tokens`: absent: keys alone. */
  constructor(config: AuthenticationConfig, sources: Readonly<Record<KeySource, boolean>>, tokens?: Tokens) {
    this.#tokens = tokens;
    this.#records = { file: sources.file ? undefined : new Map(), redis: sources.redis ? undefined : new Map() };
    this.setRules(config);
  }

  /** Replaces the rules, in force for the next request. */
  setRules({ header, plans, anonymous, trustedProxies }: AuthenticationConfig): void {
    this.header = header;
    this.#plans = new Map(Object.entries(plans).map(([name, plan]) => [name, planOf(name, plan)]));
    this.plans = new Set(this.#plans.keys());
    this.#anonymous = anonymous === undefined ? undefined : this.#plans.get(anonymous);
    this.#proxies = new Networks(trustedProxies);
    this.#ofTokens.clear();
    this.#renew();
  }

  /**
   * Replaces a source's keys, in force for the next request: keys that are missing from `records` are refused. `refused`:
   * SHA-256 of keys that the file has in a form that cannot be read, refused whatever another source holds.
   */
  setKeys(source: KeySource, records: readonly KeyRecord[], refused?: ReadonlySet<string>): void {
    // The first of several records of one key counts.
    this.#records[source] = new Map(records.toReversed().map((record) => [record.sha256, record]));
    if (refused !== undefined) this.#refused = refused;
    this.#renew();
  }

  /** Replaces one key of a source that has called `setKeys`; without `record` it is refused. */
  setKey(source: KeySource, sha256: string, record: KeyRecord | undefined): void {
    if (record === undefined) this.#records[source]?.delete(sha256);
    else this.#records[source]?.set(sha256, record);
    this.#generation += 1;
    const entry = this.#entryOf(sha256);
    if (entry === undefined) this.#entries.delete(sha256);
    else this.#entries.set(sha256, entry);
  }

  planOf(name: string | undefined): Plan | undefined {
    return name === undefined ? this.#anonymous : this.#plans.get(name);
  }

  /** Whether a request with this key would be identified by the record. */
  isInForce({ sha256, name }: Pick<KeyRecord, 'sha256' | 'name'>, nowMs: number): boolean {
    const entry = this.#entries.get(sha256);
    return entry !== undefined && entry.principal.name === name && nowMs < entry.expiresAtMs;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Has every credential looked up again: some are no longer in force. */
  forget(): void {
    this.#generation += 1;
  }

  /**
   * The principal, or a rejection. A wrong key is refused even where none is required: its sender expects its plan.
   * `unverified`: a token that `verify` decides on. `connection`: its address is read for requests without a key.
   * `known`: of headers that come again; it holds the credential while the same keys and rules are in force.
   */
  find(
    headers: IncomingHttpHeaders,
    connection: Peer | undefined,
    nowMs: number,
    known?: KnownKey,
  ): Principal | KeyRejection | 'unverified' {
    if (known?.entry !== undefined && known.generation === this.#generation && nowMs < known.entry.expiresAtMs) {
      return known.entry.principal;
    }
    const credential = this.#credentialIn(headers);
    if (credential === undefined) {
      if (this.#anonymous === undefined) return 'no key';
      return principalOf(this.#anonymous, undefined, countedNetwork(this.addressOf(headers, connection)));
    }
    const found = this.#findCredential(credential, nowMs);
    if (known !== undefined) {
      known.generation = this.#generation;
      known.entry = typeof found === 'string' ? undefined : found;
    }
    return typeof found === 'string' ? found : found.principal;
  }

  /** Decides on a token that is `unverified`. Never rejects. */
  async verify(headers: IncomingHttpHeaders, connection: Peer | undefined): Promise<Principal | KeyRejection> {
    const token = this.#credentialIn(headers) ?? '';
    const network = countedNetwork(this.addressOf(headers, connection));
    const verified = (await this.#tokens?.verify(token, hashKey(token), network)) ?? 'bad token';
    return typeof verified === 'string' ? verified : (this.#principalOf(verified) ?? 'bad token');
  }

  /** The client's address in one spelling (`clientAddress`); '' once its connection is gone. */
  addressOf(headers: IncomingHttpHeaders, connection: Peer | undefined): string {
    const forwarded = headers['x-forwarded-for'];
    const claimed = forwarded === undefined ? undefined : String(forwarded);
    return clientAddress(connection?.remoteAddress, claimed, this.#proxies);
  }

  /** The text of a key or token; '' for another scheme; `undefined`: there is none. */
  #credentialIn(headers: IncomingHttpHeaders): string | undefined {
    const value = headers[this.header];
    if (value === undefined) return undefined;
    return this.header === 'authorization' ? (parseBearer(String(value)) ?? '') : String(value);
  }

  #findCredential(text: string, nowMs: number): Credential | KeyRejection | 'unverified' {
    const key = this.#findKey(text, nowMs);
    if (key !== undefined) return key;
    if (this.#tokens === undefined || !isToken(text)) {
      return this.#records.file === undefined || this.#records.redis === undefined ? 'unread' : 'bad key';
    }
    const verified = this.#tokens.find(hashKey(text), nowMs) ?? 'unverified';
    if (typeof verified === 'string') return verified;
    const principal = this.#principalOf(verified);
    return principal === undefined ? 'bad token' : { principal, expiresAtMs: verified.expiresAtMs };
  }

  /** The principal of a token; `undefined` without its plan. */
  #principalOf({ tenant, plan: name }: VerifiedToken): Principal | undefined {
    const plan = this.#plans.get(name);
    if (plan === undefined) return undefined;
    // Neither holds a space.
    const id = `${tenant} ${name}`;
    let principal = this.#ofTokens.get(id);
    if (principal === undefined) this.#ofTokens.set(id, (principal = principalOf(plan, tokenName, tenant)));
    return principal;
  }

  #findKey(key: string, nowMs: number): KeyEntry | undefined {
    const sha256 = hashKey(key.slice(0, longestKey));
    const entry = this.#entries.get(sha256);
    // The map's comparison may leak a part of a hash by its time, which reveals nothing of the key. Equality is decided
    // here, in constant time.
    const isSame = timingSafeEqual(Buffer.from(sha256, 'hex'), entry?.digest ?? noDigest);
    if (!isSame || entry === undefined || key.length > longestKey) return undefined;
    return nowMs < entry.expiresAtMs ? entry : undefined;
  }

  #renew(): void {
    this.#generation += 1;
    const { file, redis } = this.#records;
    const entries = new Map<string, KeyEntry>();
    for (const sha256 of [...(file?.keys() ?? []), ...(redis?.keys() ?? [])]) {
      const entry = entries.get(sha256) ?? this.#entryOf(sha256);
      if (entry !== undefined) entries.set(sha256, entry);
    }
    this.#entries = entries;
  }

  /** The entry by the file's record, else by that in Redis. Records of unknown plans are ignored. */
  #entryOf(sha256: string): KeyEntry | undefined {
    if (this.#refused.has(sha256)) return undefined;
    for (const records of [this.#records.file, this.#records.redis]) {
      const record = records?.get(sha256);
      const plan = record && this.#plans.get(record.plan);
      if (plan === undefined || record === undefined) continue;
      const before = this.#entries.get(sha256);
      if (before?.record === record && before.principal.plan === plan) return before;
      const { name, tenant, expiresAtMs = Infinity } = record;
      const principal = principalOf(plan, name, tenant, record);
      return { record, digest: Buffer.from(sha256, 'hex'), principal, expiresAtMs };
    }
    return undefined;
  }
}

/** The plan of this name in the config. */
export function planOf(
  name: string,
  { operations, origins, views, streams, waitMs, maxStalenessMs, ...bounds }: AccessConfig['plans'][string],
): Plan {
  return {
    name,
    bounds: isBounded(bounds) ? bounds : undefined,
    streamBounds: streams === undefined ? undefined : { windowMs: streamsWindowMs, concurrency: streams },
    waitMs,
    maxStalenessMs,
    operations: new Set(operations),
    origins: origins && new Set(origins),
    views: FunctionRights.of(views),
  };
}

/** Streams have no span. A new one begins a new account, which would forget the open streams at a reload. */
const streamsWindowMs = 1_000;

/** Tenants and addresses are distinct: a tenant may be named like an address. */
function accountOf(plan: Plan, name: string | undefined, tenant: string): string {
  // Claims of tokens may hold what separates names in Redis, and what marks the part that places them in a cluster.
  const own = name === undefined ? `address:${tenant}` : `tenant:${tenant.replace(/[%:{}]/g, encodeURIComponent)}`;
  return `${plan.name}:${own}`;
}

/** The sender of requests. `name`: of its key; absent: none was sent. The last: rights of its key within the plan's. */
export function principalOf(
  plan: Plan,
  name: string | undefined,
  tenant: string,
  { operations, origins, addresses }: Pick<KeyRecord, 'operations' | 'origins' | 'addresses'> = {},
): Principal {
  return {
    name,
    tenant,
    // Neither name holds a space, and no address does.
    client: name === undefined ? tenant : `${tenant} ${name}`,
    account: accountOf(plan, name, tenant),
    plan,
    operations:
      operations === undefined ? plan.operations : new Set(operations.filter((one) => plan.operations.has(one))),
    origins:
      origins === undefined
        ? plan.origins
        : new Set(origins.filter((one) => plan.origins === undefined || plan.origins.has(one))),
    addresses: addresses && new Networks(addresses),
  };
}
