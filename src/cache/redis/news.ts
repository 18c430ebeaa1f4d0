/**
 * News between replicas, beside answers: the states that reads without a version share and the floors of clients ahead of
 * them, so that the next answer of another replica is not older, and versions that nodes have pruned. Receivers verify
 * news themselves, and without Redis each replica goes on alone.
 *
 * The version has one small key without a TTL, which the recommended eviction policy (`volatile-*`) never evicts: every
 * answer has a TTL (docs/redis.md).
 */
import { randomUUID } from 'node:crypto';
import { Allowance, findU64, type LedgerInfo, LedgerVersion, settlesWithin } from '../../ledger/index.ts';
import { findScope, formatScope, type NotifiedReplicas, type PurgeMark, type PurgeScope } from '../purge.ts';
import type { RedisClient } from './redis-source.ts';
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
  readonly #prefix: string;
  readonly #ledger: () => string | undefined;
  readonly #epoch: () => string | undefined;
  #followed: FollowedLedger | undefined;
  /** The highest version to publish, as a floor for every client and of a state. */
  #pending = -1n;
  #pendingShared = -1n;
  readonly #floors = new Map<string, bigint>();
  #timer: NodeJS.Timeout | undefined;
  /** A moving edge makes a few refusals a second. */
  readonly #refusals = new Allowance(20);

  /**
   * `ledger`: its name, chain included; without one, no news is published or received. `epoch`: of this process;
   * `undefined` while nodes have not confirmed one.
   */
  constructor(
    link: RedisLink,
    subscriber: RedisClient,
    prefix: string,
    ledger: () => string | undefined,
    epoch: () => string | undefined,
    listener: NewsListener,
  ) {
    this.#link = link;
    this.#subscriber = subscriber;
    this.#prefix = prefix;
    this.#ledger = ledger;
    this.#epoch = epoch;
    this.#listener = listener;
    subscriber.on('message', (channel: string, message: string) => this.#onMessage(channel, message));
    // The client drops a subscription that it sends without a connection, and renews only granted ones: without this a
    // replica that starts before Redis would never receive a message.
    subscriber.on('ready', () => this.#subscribe());
  }

  /** Subscribes to the current ledger's channel and reads the version served before. Idempotent for one ledger. */
  async follow(): Promise<void> {
    const name = this.#ledger();
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
    const prefix = this.#prefix;
    const channel = `${prefix}:news:${name}`;
    const onPurge = (scope: PurgeScope) => this.#listener.onPurge(scope);
    const mark = this.#listener.purgeMark?.(name);
    const purges = new PurgeNews(this.#link, channel, `${prefix}:purge:${name}`, onPurge, mark);
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

  /** See `PurgeNews.publish`. */
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
    this.#send(`shared ${this.#epoch() ?? '-'} ${bounds.join(',')} ${facts.join(' ')}`);
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
    const epochOfFloors = this.#epoch() ?? '-';
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
    const epoch = this.#epoch();
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
    const epoch = this.#epoch();
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
const purgeForm = /^(purge|purged) ([\da-f-]{36})(?: (.+))?$/s;

/**
 * Purges published to the other replicas, each of which clears its memory and acknowledges. A disconnected replica
 * loses messages, so Redis stores the newest purge's id: a replica that finds an id it has not received drops
 * everything.
 */
export class PurgeNews {
  readonly #link: RedisLink;
  readonly #channel: string;
  readonly #key: string;
  readonly #onPurge: (scope: PurgeScope) => Promise<unknown>;
  readonly #mark: PurgeMark | undefined;
  readonly #published = new Map<string, PublishedPurge>();
  readonly #timer: NodeJS.Timeout;
  #hasChecked = false;
  /** Id of the newest purge that was received, or found in Redis. */
  #newest: string | undefined;
  /** An id found in Redis whose message may still arrive. */
  #unreceived: string | undefined;

  /**
   * `key`: of the newest purge's id in Redis. `onPurge`: carries out another replica's purge; resolves when this process is
   * clear. `mark`: absent without a tier that outlives the process.
   */
  constructor(
    link: RedisLink,
    channel: string,
    key: string,
    onPurge: (scope: PurgeScope) => Promise<unknown>,
    mark?: PurgeMark,
  ) {
    this.#link = link;
    this.#channel = channel;
    this.#key = key;
    this.#onPurge = onPurge;
    this.#mark = mark;
    this.#timer = setInterval(() => void this.catchUp(), checkMs).unref();
  }

  /** Publishes a purge and waits, within `acknowledgedMs`, for acknowledgements. `undefined`: it was not published. */
  async publish(scope: PurgeScope): Promise<NotifiedReplicas | undefined> {
    const [channel, key, id] = [this.#channel, this.#key, randomUUID()];
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
    this.#mark?.record(id);
    return { notified: subscribers - Number(purge.isReceivedHere), acknowledged: purge.acknowledged };
  }

  /** Handles a message of the channel; other kinds are ignored. */
  onMessage(message: string): void {
    const [, kind, id = '', text = ''] = purgeForm.exec(message) ?? [];
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
    const key = this.#key;
    const found = await this.#link.read(key, (client) => client.get(key));
    if (!('value' in found)) return;
    if (!this.#hasChecked) this.#newest ??= this.#mark?.read();
    const unreceived = found.value === null || found.value === this.#newest ? undefined : found.value;
    // An id that has not been received since the look-up before was missed, whatever purges followed it.
    const missed = this.#hasChecked ? this.#unreceived : unreceived;
    this.#hasChecked = true;
    this.#unreceived = unreceived;
    if (missed === undefined) return;
    if (missed === unreceived) this.#receive(missed);
    await this.#onPurge({ kind: 'everything' });
    this.#mark?.record(missed);
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
    await this.#onPurge(findScope(text) ?? { kind: 'everything' });
    this.#mark?.record(id);
    const channel = this.#channel;
    await this.#link.write(channel, (client) => client.publish(channel, `purged ${id}`));
  }

  /** Subscribers of the channel, this process included. In a cluster each server counts only its own. */
  async #countSubscribers(): Promise<number | undefined> {
    let count = 0;
    for (const server of this.#link.servers('all')) {
      const counted = await this.#link.runFor(acknowledgedMs, () => server.pubsub('NUMSUB', this.#channel));
      if (!('value' in counted)) return undefined;
      count += Number(counted.value[1] ?? 0);
    }
    return count;
  }
}
