import { randomUUID } from 'node:crypto';
import { findScope, formatScope, type PurgeScope } from './purge-scope.ts';
import type { RedisLink } from '../redis/redis-link.ts';

/** `told`: other replicas that received the purge; `cleared`: those that acknowledged in time. */
export interface PeerPurge {
  readonly told: number;
  readonly cleared: number;
}

interface PurgeNewsOptions {
  readonly channel: string;
  /** Redis key of the newest purge's id. */
  readonly key: string;
  /** Carries out another replica's purge; resolves when this process is clear. */
  readonly onPurge: (scope: PurgeScope) => Promise<unknown>;
  /** Absent without a tier that outlives the process. */
  readonly mark?: PurgeMark | undefined;
}

/** The newest purge that a tier which outlives the process has carried out. */
export interface PurgeMark {
  /** Its id; `undefined`: not known. */
  read(): string | undefined;
  record(id: string): void;
}

interface PendingPurge {
  /** This process received its own message: it is one of the subscribers. */
  isReceivedHere: boolean;
  cleared: number;
  readonly check: () => void;
}

/** Bound of the wait for acknowledgements: a large memory takes a second to scan. */
const clearedMs = 3_000;
/** Interval of `catchUp`, which only finds something after a disconnection. */
const checkMs = 5_000;

/**
 * Purges published to the other replicas, each of which clears its memory and acknowledges. A disconnected replica
 * loses messages, so Redis stores the newest purge's id: a replica that finds an id it has not received drops
 * everything.
 */
export class PurgeNews {
  readonly #link: RedisLink;
  readonly #options: PurgeNewsOptions;
  readonly #awaited = new Map<string, PendingPurge>();
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

  /** Publishes a purge and waits, within `clearedMs`, for acknowledgements. `undefined`: it was not published. */
  async publish(scope: PurgeScope): Promise<PeerPurge | undefined> {
    const { channel, key } = this.#options;
    const id = randomUUID();
    const kept = await this.#link.write(key, (client) => client.set(key, id));
    const listeners = 'value' in kept ? await this.#countListeners() : undefined;
    if (listeners === undefined) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    const awaited: PendingPurge = {
      isReceivedHere: false,
      cleared: 0,
      check: () => {
        if (awaited.cleared + Number(awaited.isReceivedHere) >= listeners) resolve();
      },
    };
    this.#awaited.set(id, awaited);
    this.#receive(id);
    const timer = setTimeout(resolve, clearedMs);
    const sent = await this.#link.write(channel, (client) =>
      client.publish(channel, `purge ${id} ${formatScope(scope)}`),
    );
    awaited.check();
    if ('value' in sent) await promise;
    clearTimeout(timer);
    this.#awaited.delete(id);
    if (!('value' in sent)) return undefined;
    // This process has purged itself ahead of the others.
    this.#options.mark?.record(id);
    return { told: listeners - Number(awaited.isReceivedHere), cleared: awaited.cleared };
  }

  /** Handles a message of the channel; other kinds are ignored. */
  onMessage(message: string): void {
    const [, kind, id = '', text = ''] = message.length > longestMessage ? [] : (form.exec(message) ?? []);
    if (kind === undefined) return;
    const awaited = this.#awaited.get(id);
    if (kind === 'purged') {
      if (awaited !== undefined) awaited.cleared += 1;
    } else if (awaited === undefined) {
      this.#receive(id);
      void this.#follow(id, text);
    } else awaited.isReceivedHere = true;
    awaited?.check();
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
    // The scope of a newer gateway version may be unknown here: everything covers it.
    await this.#options.onPurge(findScope(text) ?? { kind: 'everything' });
    this.#options.mark?.record(id);
    const { channel } = this.#options;
    await this.#link.write(channel, (client) => client.publish(channel, `purged ${id}`));
  }

  /** Subscribers of the channel, this process included. In a cluster each server counts only its own. */
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

/** A key's text has at most about 500 characters. */
const longestMessage = 1_024;
const form = /^(purge|purged) ([\da-f-]{36})(?: (.+))?$/s;
