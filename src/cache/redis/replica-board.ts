/** A hash in Redis with a short text of each process that shares it, for the status pages of all replicas. */
import { randomUUID } from 'node:crypto';
import type { RedisLink } from './redis-link.ts';

/** The hash is deleted this long after the last report. */
const keptMs = 60_000;
const mostTexts = 1_000;

/** Reads and writes the texts. No method rejects: without Redis each replica shows itself alone. */
export class ReplicaBoard {
  readonly #link: RedisLink;
  readonly #key: string;
  /** One field for each process: names of replicas may be equal. */
  readonly #field = randomUUID();

  constructor(link: RedisLink, prefix: string) {
    this.#link = link;
    this.#key = `${prefix}:replicas`;
  }

  /** Replaces the text of this process. */
  async publish(text: string): Promise<void> {
    const key = this.#key;
    await this.#link.write(key, (client) => client.hset(key, this.#field, text));
    await this.#link.write(key, (client) => client.pexpire(key, keptMs));
  }

  /** The texts of all processes by field; `undefined` while Redis gives no answer, or has more than 1,000. */
  async read(): Promise<Readonly<Record<string, string>> | undefined> {
    const count = await this.#link.read(this.#key, (client) => client.hlen(this.#key));
    if (!('value' in count) || count.value > mostTexts) return undefined;
    const found = await this.#link.read(this.#key, (client) => client.hgetall(this.#key));
    return 'value' in found ? found.value : undefined;
  }

  /** Deletes texts of processes that have ended; none: that of this process. */
  async remove(fields: readonly string[] = [this.#field]): Promise<void> {
    if (fields.length === 0) return;
    await this.#link.write(this.#key, (client) => client.hdel(this.#key, ...fields));
  }
}
