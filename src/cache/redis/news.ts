/**
 * News between replicas, beside answers: the states that reads without a version share and the floors of clients ahead of
 * them, so that the next answer of another replica is not older, and versions that nodes have pruned. Receivers verify
 * news themselves, and without Redis each replica goes on alone.
 *
 * The version has one small key without a TTL, which the recommended eviction policy (`volatile-*`) never evicts: every
 * answer has a TTL (docs/redis.md).
 */
import { Allowance, findU64, type LedgerInfo, LedgerVersion } from '../../ledger/index.ts';
import type { PurgeMark } from '../purge.ts';
import type { PurgeScope } from '../purge.ts';
import { PurgeNews } from './purge-news.ts';
import type { RedisClient } from './redis-client.ts';
import type { RedisLink } from './redis-link.ts';

/** News for the other replicas. */
export type ReplicaNews =
  /** A client was answered with this version, a floor for every client. */
  | { readonly kind: 'served'; readonly version: LedgerVersion }
  /** Reads whose bound on staleness is one of `bounds`, in ms, share this state. */
  | { readonly kind: 'shared'; readonly info: LedgerInfo; readonly bounds: readonly number[] }
  /** This client was answered with this version, a floor for itself. */
  | { readonly kind: 'floor'; readonly client: string; readonly version: LedgerVersion }
  /** The node with this fingerprint refused this version as pruned. */
  | { readonly kind: 'refused'; readonly fingerprint: string; readonly version: LedgerVersion };

/** Receiver of other replicas' news. */
export interface NewsListener {
  onNews(news: ReplicaNews): void;
  /** Another replica published a purge; resolves when this process is clear. */
  onPurge(scope: PurgeScope): Promise<unknown>;
  /** The newest purge of a ledger in a tier that outlives the process; absent without one. */
  readonly purgeMark?: ((ledger: string) => PurgeMark) | undefined;
}

interface NewsOptions {
  /** Name of the ledger, chain included; without one, no news is published or received. */
  readonly ledger: () => string | undefined;
  readonly prefix: string;
  /** The epoch of this process; `undefined` while nodes have not confirmed one. */
  readonly epoch: () => string | undefined;
}

/** The news of one ledger. */
interface FollowedLedger {
  readonly name: string;
  readonly channel: string;
  /** Redis key of the highest version served. */
  readonly key: string;
  readonly purges: PurgeNews;
  /** The version served before has been read. */
  hasFloor: boolean;
  published: bigint;
  /** The newest version of a state published. */
  shared: bigint;
  /** The last version received: not to be published again by every replica that serves it next. */
  received: bigint;
}

/** Ms from a served version to its publication: the highest of that time is published. */
const publishDelayMs = 2;
/** Longer messages are ignored: the text of a purge's key has at most about 500 characters. */
const longestMessage = 1_024;
/** Floors of clients between two publications; beyond, their newest is published as a floor for all. */
const mostFloors = 1_000;
/** Scores are doubles, exact up to here. */
const largestScore = BigInt(Number.MAX_SAFE_INTEGER);

/** Publishes this process's news, and passes on that of other replicas. */
export class News {
  readonly #link: RedisLink;
  readonly #subscriber: RedisClient;
  readonly #listener: NewsListener;
  readonly #options: NewsOptions;
  #followed: FollowedLedger | undefined;
  /** The highest version to publish, as a floor for every client and of a state. */
  #pending = -1n;
  #pendingShared = -1n;
  /** The floors to publish, by client. */
  readonly #floors = new Map<string, bigint>();
  #timer: NodeJS.Timeout | undefined;
  /** A moving edge makes a few refusals a second. */
  readonly #refusals = new Allowance(20);

  constructor(link: RedisLink, subscriber: RedisClient, listener: NewsListener, options: NewsOptions) {
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
    const name = this.#options.ledger();
    const before = this.#followed;
    if (name === before?.name) return before?.hasFloor === false ? this.#readFloor(before) : undefined;
    if (before !== undefined) {
      this.#pending = -1n;
      this.#pendingShared = -1n;
      this.#floors.clear();
      this.#subscriber.unsubscribe(before.channel).catch(() => undefined);
      before.purges.close();
    }
    this.#followed = undefined;
    if (name === undefined) return;
    const { prefix } = this.#options;
    const channel = `${prefix}:news:${name}`;
    const purges = new PurgeNews(this.#link, {
      channel,
      key: `${prefix}:purge:${name}`,
      onPurge: (scope) => this.#listener.onPurge(scope),
      mark: this.#listener.purgeMark?.(name),
    });
    const key = `${prefix}:state:${name}`;
    const ledger = { name, channel, key, purges, hasFloor: false, published: -1n, received: -1n, shared: -1n };
    this.#followed = ledger;
    this.#subscribe();
    void purges.catchUp();
    await this.#readFloor(ledger);
  }

  /** Publishes news; that of a served version and of floors after `publishDelayMs`. Never waits. */
  publish(news: ReplicaNews): void {
    if (news.kind === 'served') this.#publishServed(news.version);
    else if (news.kind === 'shared') this.#publishShared(news.info, news.bounds);
    else if (news.kind === 'floor') this.#publishFloor(news.client, news.version);
    else if (this.#refusals.withdraw(performance.now())) this.#send(`refused ${news.fingerprint} ${news.version}`);
  }

  /** Deletes the served version after a change of history: it is no floor for replicas that start later. */
  forgetServed(): void {
    const ledger = this.#followed;
    this.#pending = -1n;
    this.#pendingShared = -1n;
    this.#floors.clear();
    if (ledger === undefined) return;
    ledger.published = -1n;
    ledger.received = -1n;
    ledger.shared = -1n;
    void this.#link.write(ledger.key, (client) => client.unlink(ledger.key));
  }

  /** Purges the other replicas: see `PurgeNews.publish`. */
  async publishPurge(scope: PurgeScope) {
    await this.follow();
    return this.#followed?.purges.publish(scope);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#followed?.purges.close();
    this.#subscriber.disconnect();
  }

  #subscribe(): void {
    if (this.#followed !== undefined) this.#subscriber.subscribe(this.#followed.channel).catch(() => undefined);
  }

  /** Reads the version served before, once, as soon as Redis answers. */
  async #readFloor(ledger: FollowedLedger): Promise<void> {
    const kept = await this.#link.read(ledger.key, (client) => client.zscore(ledger.key, member));
    if (!('value' in kept) || ledger !== this.#followed) return;
    ledger.hasFloor = true;
    const version = kept.value === null ? undefined : findU64(kept.value);
    if (version !== undefined) this.#listener.onNews({ kind: 'served', version: LedgerVersion.of(version) });
  }

  /** A state, and its version for replicas that know no states, or start later. */
  #publishShared(info: LedgerInfo, bounds: readonly number[]): void {
    void this.follow();
    const { chainId, epoch, version, oldestVersion, timestampUsec, blockHeight, oldestBlockHeight } = info;
    const facts = [chainId, epoch, version, oldestVersion, timestampUsec, blockHeight, oldestBlockHeight];
    this.#send(`shared ${this.#options.epoch() ?? '-'} ${bounds.join(',')} ${facts.join(' ')}`);
    if (version > largestScore) return;
    if (version > this.#pendingShared) this.#pendingShared = version;
    this.#publishSoon();
  }

  #publishFloor(client: string, version: bigint): void {
    if (client.length > longestMessage / 2 || this.#floors.size >= mostFloors) return this.#publishServed(version);
    this.#floors.set(client, version);
    this.#publishSoon();
  }

  #publishServed(version: bigint): void {
    if (version > largestScore) return;
    // Workers may publish in any order: the highest counts.
    if (version > this.#pending) this.#pending = version;
    this.#publishSoon();
  }

  #publishSoon(): void {
    void this.follow();
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#publishPending();
    }, publishDelayMs);
    this.#timer.unref();
  }

  #publishPending(): void {
    void this.follow();
    const [ledger, version, shared] = [this.#followed, this.#pending, this.#pendingShared];
    const epochOfFloors = this.#options.epoch() ?? '-';
    for (const [client, floor] of this.#floors) this.#send(`floor ${epochOfFloors} ${floor} ${client}`);
    this.#floors.clear();
    if (ledger === undefined) return;
    if (version > ledger.published) {
      ledger.published = version;
      // Only an equal version is skipped: a wrong higher one must not suppress a true one.
      if (version !== ledger.received) this.#sendServed(ledger, version, '');
    }
    if (shared > ledger.shared) {
      ledger.shared = shared;
      this.#sendServed(ledger, shared, ofState);
    }
  }

  #sendServed(ledger: FollowedLedger, version: bigint, mark: string): void {
    const epoch = this.#options.epoch();
    this.#send(`served ${mark}${version}${epoch === undefined ? '' : ` ${epoch}`}`);
    void this.#link.write(ledger.key, (client) => client.zadd(ledger.key, 'GT', version.toString(), member));
  }

  #send(message: string): void {
    const { channel } = this.#followed ?? {};
    if (channel !== undefined) void this.#link.write(channel, (client) => client.publish(channel, message));
  }

  #onMessage(channel: string, message: string): void {
    const ledger = this.#followed;
    if (channel !== ledger?.channel) return;
    if (message.length > longestMessage) return;
    ledger.purges.onMessage(message);
    if (message.startsWith('shared ')) return this.#onShared(message);
    if (message.startsWith('floor ')) return this.#onFloor(message);
    const [, kind, node = '', number = '', theirs = '-'] = form.exec(message) ?? [];
    const found = findU64(number);
    if (found === undefined) return;
    const version = LedgerVersion.of(found);
    if (kind === 'served') {
      if (!this.#isOurs(theirs) || node === ofState) return;
      ledger.received = version;
      this.#listener.onNews({ kind, version });
    } else this.#listener.onNews({ kind: 'refused', fingerprint: node.trim(), version });
  }

  #onShared(message: string): void {
    const [, epoch = '', bounds = '', facts = ''] = sharedForm.exec(message) ?? [];
    const [chainId, ledgerEpoch, version, oldest, timestampUsec, blockHeight, oldestBlockHeight] = facts
      .split(' ')
      .map(findU64);
    if (!this.#isOurs(epoch) || chainId === undefined || ledgerEpoch === undefined || version === undefined) return;
    if (oldest === undefined || timestampUsec === undefined || blockHeight === undefined) return;
    if (oldestBlockHeight === undefined) return;
    const info = {
      chainId: Number(chainId),
      epoch: ledgerEpoch,
      version: LedgerVersion.of(version),
      oldestVersion: LedgerVersion.of(oldest),
      timestampUsec,
      blockHeight,
      oldestBlockHeight,
    };
    this.#listener.onNews({ kind: 'shared', info, bounds: bounds.split(',').map(Number) });
  }

  #onFloor(message: string): void {
    const [, epoch = '', number = '', client = ''] = floorForm.exec(message) ?? [];
    const version = findU64(number);
    if (version === undefined || !this.#isOurs(epoch)) return;
    this.#listener.onNews({ kind: 'floor', client, version: LedgerVersion.of(version) });
  }

  /** Whether a version of this epoch is of the history here. With one epoch unknown, it counts. */
  #isOurs(theirs: string): boolean {
    const epoch = this.#options.epoch();
    return theirs === '-' || epoch === undefined || theirs === epoch;
  }
}

/** Member of the sorted set whose score is the highest version served: `ZADD GT` raises it and never lowers it. */
const member = 'served';
/**
 * Marks a served version as that of a state, which `shared` has for this version of the gateway. It has the form of a node's
 * fingerprint: replicas that know no states ignore one there, and take the version for a floor of every client.
 */
const ofState = 'of-a-state------------ ';
const sharedForm = /^shared ([\da-z]{8}|-) ([\d,]{1,900}) ([\d ]{13,200})$/;
const floorForm = /^floor ([\da-z]{8}|-) (\d{1,20}) (.{1,600})$/;
const form = /^(served|refused) ([\w-]{22} )?(\d{1,20})(?: ([0-9a-z]{8}))?$/;
