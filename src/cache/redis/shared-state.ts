/**
 * News between replicas, beside answers: the highest version served to a client, so that the next answer of another
 * replica is not older, and versions that nodes have pruned. Receivers verify news themselves, and without Redis each
 * replica goes on alone.
 *
 * The version has one small key without a TTL, which the recommended eviction policy (`volatile-*`) never evicts: every
 * answer has a TTL (docs/redis.md).
 */
import { findU64 } from '../../ledger/version.ts';
import { PurgeNews, type PeerPurge } from '../purge/purge-news.ts';
import type { PurgeScope } from '../purge/purge-scope.ts';
import type { RedisClient } from './redis-client.ts';
import type { RedisLink } from './redis-link.ts';

/** Receiver of other replicas' news. */
export interface NewsListener {
  /** Another replica served this version. */
  onServed(version: bigint): void;
  /** The node with this fingerprint refused this version as pruned. */
  onRefused(node: string, version: bigint): void;
  /** Another replica published a purge; resolves when this process is clear. */
  onPurge(scope: PurgeScope): Promise<unknown>;
}

interface SharedStateOptions {
  /** Name of the ledger, chain included; without one, no news is published or received. */
  readonly ledger: () => string | undefined;
  readonly prefix: string;
  /** The term of this process's history; `undefined` while nodes have not confirmed one. */
  readonly history: () => string | undefined;
}

/** Ms from a served version to its publication: the highest of that time is published. */
const publishDelayMs = 2;
/** Longer messages are ignored. */
const longestMessage = 128;
/** Scores are doubles, exact up to here. */
const largestScore = BigInt(Number.MAX_SAFE_INTEGER);
/** Refusals published in a second at most; a moving edge makes a few. */
const refusalsPerSecond = 20;

/** Publishes this process's news, and passes on that of other replicas. */
export class SharedState {
  readonly #link: RedisLink;
  readonly #subscriber: RedisClient;
  readonly #listener: NewsListener;
  readonly #options: SharedStateOptions;
  #ledger: string | undefined;
  #purges: PurgeNews | undefined;
  #published = -1n;
  /** The last version received: not to be published again by every replica that serves it next. */
  #received = -1n;
  #hasFloor = false;
  #pending = -1n;
  #timer: NodeJS.Timeout | undefined;
  #refusals = { second: 0, count: 0 };

  constructor(link: RedisLink, subscriber: RedisClient, listener: NewsListener, options: SharedStateOptions) {
    this.#link = link;
    this.#subscriber = subscriber;
    this.#listener = listener;
    this.#options = options;
    subscriber.on('message', (channel: string, message: string) => this.#onMessage(channel, message));
    // The client drops a subscription that it sends without a connection, and renews only granted ones: without this a
    // replica that starts before Redis would never receive a message.
    subscriber.on('ready', () => this.#subscribe());
  }

  /** Subscribes to the current ledger's channel and reads the version served before. Idempotent for one ledger. */
  async follow(): Promise<void> {
    const ledger = this.#options.ledger();
    if (ledger === this.#ledger) return this.#hasFloor ? undefined : this.#readFloor();
    const before = this.#ledger;
    this.#ledger = ledger;
    this.#hasFloor = false;
    this.#published = -1n;
    this.#received = -1n;
    if (before !== undefined) {
      this.#pending = -1n;
      this.#subscriber.unsubscribe(this.#channel(before)).catch(() => undefined);
    }
    this.#purges?.close();
    this.#purges = undefined;
    if (ledger === undefined) return;
    this.#purges = new PurgeNews(this.#link, {
      channel: this.#channel(ledger),
      key: `${this.#options.prefix}:purge:${ledger}`,
      onPurge: (scope) => this.#listener.onPurge(scope),
    });
    this.#subscribe();
    void this.#purges.catchUp();
    await this.#readFloor();
  }

  /** Publishes, after `publishDelayMs`, that this process serves `version`. Never waits. */
  publishServed(version: bigint): void {
    if (version > largestScore) return;
    void this.follow();
    // Workers may publish in any order: the highest counts.
    if (version > this.#pending) this.#pending = version;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#publishPending();
    }, publishDelayMs);
    this.#timer.unref();
  }

  /** Publishes that the node with this fingerprint refused `version` as pruned. Never waits. */
  publishRefused(node: string, version: bigint): void {
    const second = Math.floor(performance.now() / 1000);
    if (this.#refusals.second !== second) this.#refusals = { second, count: 0 };
    this.#refusals.count += 1;
    if (this.#refusals.count <= refusalsPerSecond) this.#publish(`refused ${node} ${version}`);
  }

  /** Deletes the served version after a change of history: it is no floor for replicas that start later. */
  forgetServed(): void {
    const ledger = this.#ledger;
    this.#pending = -1n;
    this.#published = -1n;
    this.#received = -1n;
    if (ledger === undefined) return;
    const key = this.#key(ledger);
    void this.#link.write(key, (client) => client.unlink(key));
  }

  /** Purges the other replicas: see `PurgeNews.publish`. */
  async publishPurge(scope: PurgeScope): Promise<PeerPurge | undefined> {
    await this.follow();
    return this.#purges?.publish(scope);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#purges?.close();
    this.#subscriber.disconnect();
  }

  #subscribe(): void {
    if (this.#ledger !== undefined) this.#subscriber.subscribe(this.#channel(this.#ledger)).catch(() => undefined);
  }

  /** Reads the version served before, once, as soon as Redis answers. */
  async #readFloor(): Promise<void> {
    const ledger = this.#ledger;
    if (ledger === undefined) return;
    const key = this.#key(ledger);
    const kept = await this.#link.read(key, (client) => client.zscore(key, member));
    if (!('value' in kept) || ledger !== this.#ledger) return;
    this.#hasFloor = true;
    const version = kept.value === null ? undefined : findU64(kept.value);
    if (version !== undefined) this.#listener.onServed(version);
  }

  #publishPending(): void {
    void this.follow();
    const ledger = this.#ledger;
    if (ledger === undefined || this.#pending <= this.#published) return;
    const version = this.#pending.toString();
    this.#published = this.#pending;
    // Only an equal version is skipped: a wrong higher one must not suppress a true one.
    if (this.#pending === this.#received) return;
    const history = this.#options.history();
    this.#publish(history === undefined ? `served ${version}` : `served ${version} ${history}`);
    const key = this.#key(ledger);
    void this.#link.write(key, (client) => client.zadd(key, 'GT', version, member));
  }

  #publish(message: string): void {
    const ledger = this.#ledger;
    if (ledger === undefined) return;
    const channel = this.#channel(ledger);
    void this.#link.write(channel, (client) => client.publish(channel, message));
  }

  #onMessage(channel: string, message: string): void {
    if (this.#ledger === undefined || channel !== this.#channel(this.#ledger)) return;
    this.#purges?.onMessage(message);
    const [, kind, node = '', number = '', theirs] = message.length > longestMessage ? [] : (form.exec(message) ?? []);
    const version = findU64(number);
    if (version === undefined) return;
    if (kind === 'served') {
      const history = this.#options.history();
      // A version of another history is no floor here. With one history unknown, it counts.
      if (theirs !== undefined && history !== undefined && theirs !== history) return;
      this.#received = version;
      this.#listener.onServed(version);
    } else this.#listener.onRefused(node.trim(), version);
  }

  #key(ledger: string): string {
    return `${this.#options.prefix}:state:${ledger}`;
  }

  #channel(ledger: string): string {
    return `${this.#options.prefix}:news:${ledger}`;
  }
}

/** Member of the sorted set whose score is the highest version served: `ZADD GT` raises it and never lowers it. */
const member = 'served';
const form = /^(served|refused) ([\w-]{22} )?(\d{1,20})(?: ([0-9a-z]{8}))?$/;
