/**
 * What replicas tell each other beside answers: the highest version that a client was shown, so that the next answer
 * of another replica is not older, and versions that nodes no longer hold. It is news, not truth: whoever hears it
 * looks for himself, and without Redis each replica goes on with what it knows.
 *
 * The version is kept in one small key without an end, which the recommended eviction policy (`volatile-*`) never
 * touches: every answer in the cache has an end, so answers make room for each other only (docs/redis.md).
 */
import { findU64 } from '../../ledger/version.ts';
import { PurgeNews, type PeerPurge } from '../purge/purge-news.ts';
import type { PurgeScope } from '../purge/purge-scope.ts';
import type { RedisClient } from './redis-client.ts';
import type { RedisLink } from './redis-link.ts';

/** What other replicas said. */
export interface NewsListener {
  /** A client of another replica was shown this version. */
  onServed(version: bigint): void;
  /** The node with this fingerprint refused this version as pruned. */
  onRefused(node: string, version: bigint): void;
  /** Another replica was told to purge; resolves when that is done here. */
  onPurge(scope: PurgeScope): Promise<unknown>;
}

export interface SharedStateOptions {
  /** Name of the ledger, chain included; `undefined` while it is not known: then nothing is told or heard. */
  readonly ledger: () => string | undefined;
  readonly prefix: string;
  /** The term of the ledger's history that this process is on; `undefined` while nodes have not confirmed one. */
  readonly history: () => string | undefined;
}

/** Versions that follow each other this closely are told as one, the last. */
const publishDelayMs = 2;
/** Longer messages are not ours. */
const longestMessage = 128;
/** Scores are doubles: beyond this they would not be versions any more. */
const largestScore = BigInt(Number.MAX_SAFE_INTEGER);
/** Refusals a second that are told; a moving edge makes a few. */
const refusalsPerSecond = 20;

export class SharedState {
  readonly #link: RedisLink;
  readonly #subscriber: RedisClient;
  readonly #listener: NewsListener;
  readonly #options: SharedStateOptions;
  #ledger: string | undefined;
  #purges: PurgeNews | undefined;
  #told = -1n;
  /** The last version that another replica told: not to be told once more by everybody who looks into it. */
  #heard = -1n;
  #hasTakenUp = false;
  #toTell = -1n;
  #timer: NodeJS.Timeout | undefined;
  #refusals = { second: 0, count: 0 };

  constructor(link: RedisLink, subscriber: RedisClient, listener: NewsListener, options: SharedStateOptions) {
    this.#link = link;
    this.#subscriber = subscriber;
    this.#listener = listener;
    this.#options = options;
    subscriber.on('message', (channel: string, message: string) => this.#hear(channel, message));
    // What is asked while there is no connection is given up by the client, and only what was once granted is asked
    // for anew by itself: a replica that starts before Redis would hear nothing for as long as it lives.
    subscriber.on('ready', () => this.#listen());
  }

  /**
   * Listens to the ledger of the moment, and takes up what replicas were shown of it before. Called again when that may
   * have changed; it costs nothing when it has not.
   */
  async follow(): Promise<void> {
    const ledger = this.#options.ledger();
    if (ledger === this.#ledger) return this.#hasTakenUp ? undefined : this.#takeUp();
    const before = this.#ledger;
    this.#ledger = ledger;
    this.#hasTakenUp = false;
    this.#told = -1n;
    this.#heard = -1n;
    if (before !== undefined) {
      this.#toTell = -1n;
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
    this.#listen();
    void this.#purges.catchUp();
    await this.#takeUp();
  }

  /** A client is being shown `version`. Never waits. */
  publishServed(version: bigint): void {
    if (version > largestScore) return;
    void this.follow();
    // Of several workers, one may be about to show less than another is: the highest counts.
    if (version > this.#toTell) this.#toTell = version;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#tell();
    }, publishDelayMs);
    this.#timer.unref();
  }

  publishRefused(node: string, version: bigint): void {
    const second = Math.floor(performance.now() / 1000);
    if (this.#refusals.second !== second) this.#refusals = { second, count: 0 };
    this.#refusals.count += 1;
    if (this.#refusals.count <= refusalsPerSecond) this.#publish(`refused ${node} ${version}`);
  }

  /** The ledger has another history than before: what was shown of that is no floor for who starts from now on. */
  forgetServed(): void {
    const ledger = this.#ledger;
    this.#toTell = -1n;
    this.#told = -1n;
    this.#heard = -1n;
    if (ledger === undefined) return;
    const key = this.#key(ledger);
    void this.#link.write(key, (client) => client.unlink(key));
  }

  /** Makes the other replicas forget; `undefined` when they cannot be told. */
  async publishPurge(scope: PurgeScope): Promise<PeerPurge | undefined> {
    await this.follow();
    return this.#purges?.publish(scope);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#purges?.close();
    this.#subscriber.disconnect();
  }

  #listen(): void {
    if (this.#ledger !== undefined) this.#subscriber.subscribe(this.#channel(this.#ledger)).catch(() => undefined);
  }

  /** What replicas were shown before: once, as soon as Redis tells. */
  async #takeUp(): Promise<void> {
    const ledger = this.#ledger;
    if (ledger === undefined) return;
    const key = this.#key(ledger);
    const kept = await this.#link.read(key, (client) => client.zscore(key, member));
    if (!('value' in kept) || ledger !== this.#ledger) return;
    this.#hasTakenUp = true;
    const version = kept.value === null ? undefined : findU64(kept.value);
    if (version !== undefined) this.#listener.onServed(version);
  }

  #tell(): void {
    void this.follow();
    const ledger = this.#ledger;
    if (ledger === undefined || this.#toTell <= this.#told) return;
    const version = this.#toTell.toString();
    this.#told = this.#toTell;
    // This very version and no other: a wrong word must not silence what is true.
    if (this.#toTell === this.#heard) return;
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

  #hear(channel: string, message: string): void {
    if (this.#ledger === undefined || channel !== this.#channel(this.#ledger)) return;
    this.#purges?.onMessage(message);
    const [, kind, node = '', number = '', told] = message.length > longestMessage ? [] : (form.exec(message) ?? []);
    const version = findU64(number);
    if (version === undefined) return;
    if (kind === 'served') {
      const history = this.#options.history();
      // Of another history it is no floor here. While one of the two is not known, it is news like any other.
      if (told !== undefined && history !== undefined && told !== history) return;
      this.#heard = version;
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
