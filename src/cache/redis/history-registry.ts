/** Terms of a ledger's history in Redis: one hash for each ledger, and a short-lived key for each term with members. */
import type { TermRegistry } from '../history/membership.ts';
import { endedField, formatTerm, readTerms, surplusFields, type Term, type Terms } from '../history/terms.ts';
import type { RedisLink } from './redis-link.ts';

interface RegistryOptions {
  readonly prefix: string;
  /** A term that no member has published for this long, in ms, has no members. */
  readonly beatMs: number;
}

/** Reads and writes terms in Redis. */
export class HistoryRegistry implements TermRegistry {
  readonly #link: RedisLink;
  readonly #options: RegistryOptions;

  constructor(link: RedisLink, options: RegistryOptions) {
    this.#link = link;
    this.#options = options;
  }

  async read(ledger: string): Promise<Terms | undefined> {
    const key = this.#key(ledger);
    const found = await this.#link.read(key, (client) => client.hgetall(key));
    return 'value' in found ? readTerms(found.value) : undefined;
  }

  /** Whether a member published the term within `beatMs`. */
  async hasMembers(ledger: string, id: string): Promise<boolean | undefined> {
    const key = this.#beatKey(ledger, id);
    const found = await this.#link.read(key, (client) => client.get(key));
    return 'value' in found ? found.value !== null : undefined;
  }

  async publish(ledger: string, id: string, term?: Term): Promise<boolean> {
    const [key, beatKey] = [this.#key(ledger), this.#beatKey(ledger, id)];
    if (term !== undefined) {
      const set = await this.#link.write(key, (client) => client.hset(key, id, formatTerm(term)));
      if (!('value' in set)) return false;
    }
    const beat = await this.#link.write(beatKey, (client) => client.set(beatKey, '1', 'PX', this.#options.beatMs));
    return 'value' in beat;
  }

  async end(ledger: string, id: string): Promise<boolean> {
    const key = this.#key(ledger);
    const set = await this.#link.write(key, (client) => client.hset(key, endedField(id), '1'));
    return 'value' in set;
  }

  async tidy(ledger: string, terms: Terms): Promise<void> {
    const fields = surplusFields(terms);
    if (fields.length === 0) return;
    const key = this.#key(ledger);
    await this.#link.write(key, (client) => client.hdel(key, ...fields));
  }

  #key(ledger: string): string {
    return `${this.#options.prefix}:history:${ledger}`;
  }

  #beatKey(ledger: string, id: string): string {
    return `${this.#options.prefix}:history:${ledger}:${id}`;
  }
}
