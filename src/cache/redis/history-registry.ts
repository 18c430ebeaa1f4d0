/** Terms of a ledger's history in Redis: one hash for each ledger, and a short-lived key for each term with members. */
import { endedField, formatTerm, readTerms, type Term, type Terms } from './history-terms.ts';
import type { RedisLink } from './redis-link.ts';

/** Terms of one ledger in Redis at most, ended ones included: the newest stay. */
const mostTerms = 16;

interface RegistryOptions {
  readonly prefix: string;
  /** A term that no member has published for this long, in ms, has no members. */
  readonly beatMs: number;
}

/** Reads and writes terms in Redis. No method rejects. */
export class HistoryRegistry {
  readonly #link: RedisLink;
  readonly #options: RegistryOptions;

  constructor(link: RedisLink, options: RegistryOptions) {
    this.#link = link;
    this.#options = options;
  }

  /** The terms of the ledger (chain id and first transaction); `undefined` while Redis gives no answer. */
  async read(ledger: string): Promise<Terms | undefined> {
    const key = this.#key(ledger);
    const found = await this.#link.read(key, (client) => client.hgetall(key));
    return 'value' in found ? readTerms(found.value) : undefined;
  }

  /** Whether a member published the term within `beatMs`; `undefined` while Redis gives no answer. */
  async hasMembers(ledger: string, id: string): Promise<boolean | undefined> {
    const key = this.#beatKey(ledger, id);
    const found = await this.#link.read(key, (client) => client.get(key));
    return 'value' in found ? found.value !== null : undefined;
  }

  /** Records a member of the term, and `term` itself where it changed. Resolves to whether Redis stored it. */
  async publish(ledger: string, id: string, term?: Term): Promise<boolean> {
    const [key, beatKey] = [this.#key(ledger), this.#beatKey(ledger, id)];
    if (term !== undefined) {
      const set = await this.#link.write(key, (client) => client.hset(key, id, formatTerm(term)));
      if (!('value' in set)) return false;
    }
    const beat = await this.#link.write(beatKey, (client) => client.set(beatKey, '1', 'PX', this.#options.beatMs));
    return 'value' in beat;
  }

  /** Ends a term for every replica. Resolves to whether Redis stored it. */
  async end(ledger: string, id: string): Promise<boolean> {
    const key = this.#key(ledger);
    const set = await this.#link.write(key, (client) => client.hset(key, endedField(id), '1'));
    return 'value' in set;
  }

  /** Deletes the terms beyond `mostTerms`: ended ones first, then the oldest. */
  async tidy(ledger: string, { open, ended }: Terms): Promise<void> {
    const excess = open.length + ended.size - mostTerms;
    if (excess <= 0) return;
    const key = this.#key(ledger);
    const ids = [...ended, ...open.map(({ id }) => id)].slice(0, excess);
    const fields = ids.flatMap((id) => [id, endedField(id)]);
    await this.#link.write(key, (client) => client.hdel(key, ...fields));
  }

  #key(ledger: string): string {
    return `${this.#options.prefix}:history:${ledger}`;
  }

  #beatKey(ledger: string, id: string): string {
    return `${this.#options.prefix}:history:${ledger}:${id}`;
  }
}
