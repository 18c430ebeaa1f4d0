/** From a request's head to who asks: by a key, or as one of those without one. */
import type { IncomingHttpHeaders } from 'node:http';
import { clientAddress, countedNetwork, Networks } from './client-address.ts';
import { KeySet, type KeyRecord } from './key-set.ts';
import type { Plan, Principal } from './principal.ts';

/** What the config says of who may ask. */
export interface PrincipalRules {
  /** Lower case. In `authorization` the key follows `Bearer`. */
  readonly header: string;
  readonly plans: ReadonlyMap<string, Plan>;
  /** Of requests without a key; absent: they are refused. */
  readonly anonymous: Plan | undefined;
  /** In CIDR form. */
  readonly trustedProxies: readonly string[];
}

/** `no key`: none was sent, and one is needed. `unread`: unknown, but not all keys have been read yet. */
export type KeyRejection = 'no key' | 'bad key' | 'unread';

/** Where keys are kept. Of a key that both have, the file's word counts. */
export type KeySource = 'file' | 'redis';

export class Principals {
  #rules: PrincipalRules;
  #proxies: Networks;
  readonly #records: Record<KeySource, readonly KeyRecord[] | undefined>;
  #keys: KeySet;

  /** `sources`: of these, keys will be told by `setKeys`. */
  constructor(rules: PrincipalRules, sources: readonly KeySource[]) {
    this.#rules = rules;
    this.#proxies = new Networks(rules.trustedProxies);
    this.#records = {
      file: sources.includes('file') ? undefined : [],
      redis: sources.includes('redis') ? undefined : [],
    };
    this.#keys = this.#keySet();
  }

  /** In force for the next request. */
  setRules(rules: PrincipalRules): void {
    this.#rules = rules;
    this.#proxies = new Networks(rules.trustedProxies);
    this.#keys = this.#keySet();
  }

  /** In force for the next request: a key that is not among `records` any more is refused. */
  setKeys(source: KeySource, records: readonly KeyRecord[]): void {
    this.#records[source] = records;
    this.#keys = this.#keySet();
  }

  /** The header that keys come in. */
  get header(): string {
    return this.#rules.header;
  }

  /** Keys that are known. */
  get size(): number {
    return this.#keys.size;
  }

  /** Who asks. A key that is wrong is refused even where none is needed: its sender relies on what it stands for. */
  find(headers: IncomingHttpHeaders, connection: string | undefined, nowMs: number): Principal | KeyRejection {
    const { header, anonymous } = this.#rules;
    const value = headers[header];
    if (value === undefined)
      return anonymous === undefined ? 'no key' : this.#anonymous(anonymous, headers, connection);
    const key = keyIn(header, String(value));
    const principal = key === undefined ? undefined : this.#keys.find(key, nowMs);
    if (principal !== undefined) return principal;
    return this.#records.file === undefined || this.#records.redis === undefined ? 'unread' : 'bad key';
  }

  #anonymous(plan: Plan, headers: IncomingHttpHeaders, connection: string | undefined): Principal {
    const forwarded = headers['x-forwarded-for'];
    const address = clientAddress(connection, forwarded === undefined ? undefined : String(forwarded), this.#proxies);
    const { operations, origins } = plan;
    return { name: undefined, tenant: countedNetwork(address), plan, operations, origins };
  }

  #keySet(): KeySet {
    return new KeySet([...(this.#records.file ?? []), ...(this.#records.redis ?? [])], this.#rules.plans);
  }
}

function keyIn(header: string, value: string): string | undefined {
  return header === 'authorization' ? /^Bearer +([^\s,]+) *$/i.exec(value)?.[1] : value;
}
