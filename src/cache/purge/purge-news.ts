/**
 * Purges told to other replicas, each of which clears its own memory and says so. Messages are lost on whoever is not
 * connected, so the name of the newest purge is kept in Redis as well: who finds one there that it has not heard of
 * forgets everything.
 */
import { randomUUID } from 'node:crypto';
import { findScope, formatScope, type PurgeScope } from './purge-scope.ts';
import type { RedisLink } from '../redis/redis-link.ts';

/** `told`: other replicas that heard; `cleared`: those that said in time that they have forgotten. */
export interface PeerPurge {
  readonly told: number;
  readonly cleared: number;
}

export interface PurgeNewsOptions {
  readonly channel: string;
  /** Name in Redis of the newest purge. */
  readonly key: string;
  /** Another replica's purge; resolves when it is done here. */
  readonly onPurge: (scope: PurgeScope) => Promise<unknown>;
}

interface PendingPurge {
  /** Our own message came back, so that we are one of those who listen. */
  isHeardHere: boolean;
  cleared: number;
  readonly check: () => void;
}

/** How long others are waited for: a large memory takes a second to be looked through. */
const clearedMs = 3_000;
/** How often the newest purge is looked up; of no concern to who is connected all the time. */
const checkMs = 5_000;

export class PurgeNews {
  readonly #link: RedisLink;
  readonly #options: PurgeNewsOptions;
  readonly #awaited = new Map<string, PendingPurge>();
  readonly #timer: NodeJS.Timeout;
  #hasLooked = false;
  /** The newest purge that was heard, or found in Redis. */
  #newest: string | undefined;
  /** Found in Redis once and not heard yet: the message may be on its way. */
  #unheard: string | undefined;

  constructor(link: RedisLink, options: PurgeNewsOptions) {
    this.#link = link;
    this.#options = options;
    this.#timer = setInterval(() => void this.catchUp(), checkMs);
    this.#timer.unref();
  }

  /** Tells the other replicas and waits for them, within a bound. `undefined`: they could not be told. */
  async publish(scope: PurgeScope): Promise<PeerPurge | undefined> {
    const { channel, key } = this.#options;
    const id = randomUUID();
    const kept = await this.#link.write(key, (client) => client.set(key, id));
    const listeners = 'value' in kept ? await this.#countListeners() : undefined;
    if (listeners === undefined) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    const awaited: PendingPurge = {
      isHeardHere: false,
      cleared: 0,
      check: () => {
        if (awaited.cleared + Number(awaited.isHeardHere) >= listeners) resolve();
      },
    };
    this.#awaited.set(id, awaited);
    this.#know(id);
    const timer = setTimeout(resolve, clearedMs);
    const sent = await this.#link.write(channel, (client) =>
      client.publish(channel, `purge ${id} ${formatScope(scope)}`),
    );
    awaited.check();
    if ('value' in sent) await promise;
    clearTimeout(timer);
    this.#awaited.delete(id);
    if (!('value' in sent)) return undefined;
    return { told: listeners - Number(awaited.isHeardHere), cleared: awaited.cleared };
  }

  /** Takes a message of the channel, if it is of purges. */
  onMessage(message: string): void {
    const [, kind, id = '', text = ''] = message.length > longestMessage ? [] : (form.exec(message) ?? []);
    if (kind === undefined) return;
    const awaited = this.#awaited.get(id);
    if (kind === 'purged') {
      if (awaited !== undefined) awaited.cleared += 1;
    } else if (awaited === undefined) {
      this.#know(id);
      void this.#follow(id, text);
    } else awaited.isHeardHere = true;
    awaited?.check();
  }

  /** Makes up for purges that were told while nobody listened here. */
  async catchUp(): Promise<void> {
    const { key } = this.#options;
    const found = await this.#link.read(key, (client) => client.get(key));
    if (!('value' in found)) return;
    const unheard = found.value === null || found.value === this.#newest ? undefined : found.value;
    // What nobody has said since the look before has been missed, however many purges have followed it.
    const missed = this.#hasLooked ? this.#unheard : unheard;
    this.#hasLooked = true;
    this.#unheard = unheard;
    if (missed === undefined) return;
    if (missed === unheard) this.#know(missed);
    await this.#options.onPurge({ kind: 'everything' });
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #know(id: string): void {
    this.#newest = id;
    if (this.#unheard === id) this.#unheard = undefined;
  }

  async #follow(id: string, text: string): Promise<void> {
    // What only a later version of this program can say is surely within everything.
    await this.#options.onPurge(findScope(text) ?? { kind: 'everything' });
    const { channel } = this.#options;
    await this.#link.write(channel, (client) => client.publish(channel, `purged ${id}`));
  }

  /** How many listen to the channel, ourselves included. In a cluster each server only knows its own listeners. */
  async #countListeners(): Promise<number | undefined> {
    let count = 0;
    for (const server of this.#link.servers('all')) {
      const counted = await this.#link.runFor(clearedMs, () => server.pubsub('NUMSUB', this.#options.channel));
      if (!('value' in counted)) return undefined;
      count += Number(counted.value[1] ?? 0);
    }
    return count;
  }
}

/** A key's text has at most some 500 characters. */
const longestMessage = 1_024;
const form = /^(purge|purged) ([\da-f-]{36})(?: (.+))?$/s;
