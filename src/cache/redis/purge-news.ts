import { randomUUID } from 'node:crypto';
import { settlesWithin } from '../../ledger/index.ts';
import type { NotifiedReplicas, PurgeMark } from '../purge.ts';
import { findScope, formatScope, type PurgeScope } from '../purge.ts';
import type { RedisLink } from './redis-link.ts';

interface PurgeNewsOptions {
  readonly channel: string;
  /** Redis key of the newest purge's id. */
  readonly key: string;
  /** Carries out another replica's purge; resolves when this process is clear. */
  readonly onPurge: (scope: PurgeScope) => Promise<unknown>;
  /** Absent without a tier that outlives the process. */
  readonly mark?: PurgeMark | undefined;
}

/** A purge of this process that the subscribers of the channel acknowledge, this process by the receipt of its message. */
interface PublishedPurge {
  readonly subscribers: number;
  isReceivedHere: boolean;
  acknowledged: number;
  readonly onAll: () => void;
}

/** Bound of the wait for acknowledgements: a large memory takes a second to scan. */
const acknowledgedMs = 3_000;
/** Interval of `catchUp`, which only finds something after a disconnection. */
const checkMs = 5_000;
const form = /^(purge|purged) ([\da-f-]{36})(?: (.+))?$/s;

/**
 * Purges published to the other replicas, each of which clears its memory and acknowledges. A disconnected replica
 * loses messages, so Redis stores the newest purge's id: a replica that finds an id it has not received drops
 * everything.
 */
export class PurgeNews {
  readonly #link: RedisLink;
  readonly #options: PurgeNewsOptions;
  readonly #published = new Map<string, PublishedPurge>();
  readonly #timer: NodeJS.Timeout;
  #hasChecked = false;
  /** Id of the newest purge that was received, or found in Redis. */
  #newest: string | undefined;
  /** An id found in Redis whose message may still arrive. */
  #unreceived: string | undefined;

  constructor(link: RedisLink, options: PurgeNewsOptions) {
    this.#link = link;
    this.#options = options;
    this.#timer = setInterval(() => void this.catchUp(), checkMs).unref();
  }

  /** Publishes a purge and waits, within `acknowledgedMs`, for acknowledgements. `undefined`: it was not published. */
  async publish(scope: PurgeScope): Promise<NotifiedReplicas | undefined> {
    const { channel, key } = this.#options;
    const id = randomUUID();
    const kept = await this.#link.write(key, (client) => client.set(key, id));
    const subscribers = 'value' in kept ? await this.#countSubscribers() : undefined;
    if (subscribers === undefined) return undefined;
    const all = Promise.withResolvers<void>();
    const purge: PublishedPurge = { subscribers, isReceivedHere: false, acknowledged: 0, onAll: all.resolve };
    this.#published.set(id, purge);
    this.#receive(id);
    const text = `purge ${id} ${formatScope(scope)}`;
    const sent = await this.#link.write(channel, (client) => client.publish(channel, text));
    if ('value' in sent && subscribers > 0) await settlesWithin(all.promise, acknowledgedMs);
    this.#published.delete(id);
    if (!('value' in sent)) return undefined;
    // This process has purged itself ahead of the others.
    this.#options.mark?.record(id);
    return { notified: subscribers - Number(purge.isReceivedHere), acknowledged: purge.acknowledged };
  }

  /** Handles a message of the channel; other kinds are ignored. */
  onMessage(message: string): void {
    const [, kind, id = '', text = ''] = form.exec(message) ?? [];
    if (kind === undefined) return;
    const own = this.#published.get(id);
    if (own === undefined) {
      if (kind === 'purge') void this.#follow(id, text);
      return;
    }
    if (kind === 'purge') own.isReceivedHere = true;
    else own.acknowledged += 1;
    if (own.acknowledged + Number(own.isReceivedHere) >= own.subscribers) own.onAll();
  }

  /** Drops everything after a purge that was published while this process was disconnected. */
  async catchUp(): Promise<void> {
    const { key } = this.#options;
    const found = await this.#link.read(key, (client) => client.get(key));
    if (!('value' in found)) return;
    if (!this.#hasChecked) this.#newest ??= this.#options.mark?.read();
    const unreceived = found.value === null || found.value === this.#newest ? undefined : found.value;
    // An id that has not been received since the look-up before was missed, whatever purges followed it.
    const missed = this.#hasChecked ? this.#unreceived : unreceived;
    this.#hasChecked = true;
    this.#unreceived = unreceived;
    if (missed === undefined) return;
    if (missed === unreceived) this.#receive(missed);
    await this.#options.onPurge({ kind: 'everything' });
    this.#options.mark?.record(missed);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #receive(id: string): void {
    this.#newest = id;
    if (this.#unreceived === id) this.#unreceived = undefined;
  }

  async #follow(id: string, text: string): Promise<void> {
    this.#receive(id);
    // The scope of a newer gateway version may be unknown here: everything covers it.
    await this.#options.onPurge(findScope(text) ?? { kind: 'everything' });
    this.#options.mark?.record(id);
    const { channel } = this.#options;
    await this.#link.write(channel, (client) => client.publish(channel, `purged ${id}`));
  }

  /** Subscribers of the channel, this process included. In a cluster each server counts only its own. */
  async #countSubscribers(): Promise<number | undefined> {
    let count = 0;
    for (const server of this.#link.servers('all')) {
      const counted = await this.#link.runFor(acknowledgedMs, () => server.pubsub('NUMSUB', this.#options.channel));
      if (!('value' in counted)) return undefined;
      count += Number(counted.value[1] ?? 0);
    }
    return count;
  }
}
