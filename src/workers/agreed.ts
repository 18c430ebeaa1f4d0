/**
 * A worker's part in agreeing on what clients are shown (`agreement.ts` has the whole): it puts its news before the
 * primary, switches to what was decided when the moment comes, and lets requests wait that arrive while it cannot know
 * what it may show.
 */
import type { Gate } from '../proxy/server-parts.ts';
import { GatewayError } from '../ledger/errors.ts';
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { Fleet } from '../upstream/fleet.ts';
import type { News, Shown, Snapshot } from '../upstream/shown.ts';
import { covers, type AgreedNews, type AgreedState } from './agreed-state.ts';
import { fromShared, sharedNow, toShared } from './clock.ts';
import type { Channel } from './channel.ts';
import type { PrimaryHandlers, Standing, WorkerHandlers } from './protocol.ts';

/** Longest wait for the others, of a read that needs it and of a request that arrives at the wrong moment. */
const waitMs = 2_000;
/** A look at the freshest node, and those before it, take no longer. */
const turnMs = 5_000;
/** So often the fleet's head is looked at for news that nobody has asked for. */
const newsMs = 100;

interface Proposal {
  readonly id: number;
  readonly state: AgreedState;
  readonly atMs: number;
  isDecided: boolean;
}

interface Waiter {
  readonly news: AgreedNews;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

export class Agreed implements Shown, Gate {
  readonly #primary: Pick<Channel<PrimaryHandlers>, 'call' | 'tell'>;
  readonly #worker: number;
  #fleet: Fleet | undefined;
  #state: AgreedState = { ledger: 0 };
  /** The state's snapshot, timed as this process does. */
  #snapshot: Snapshot | undefined;
  #proposal: Proposal | undefined;
  #leaseUntilMs = -Infinity;
  /** This process's fleet has begun a generation, and the others have not followed yet. */
  #isAhead = false;
  #isFollowing = false;
  readonly #waiters = new Set<Waiter>();
  readonly #arrivals = new Set<() => void>();
  #news: NodeJS.Timeout | undefined;
  /** Usual: an answer of each side, and the moment that is waited for. */
  readonly costMs = 8;

  constructor(primary: Pick<Channel<PrimaryHandlers>, 'call' | 'tell'>, worker: number) {
    this.#primary = primary;
    this.#worker = worker;
  }

  attach(fleet: Fleet): void {
    this.#fleet = fleet;
    this.#news = setInterval(() => this.#tellHead(), newsMs);
    this.#news.unref();
  }

  /** The fleet begins with what is agreed on, as soon as it knows of its nodes. */
  tellKnown(): void {
    this.#tellFleet(this.#state);
  }

  close(): void {
    clearInterval(this.#news);
  }

  /** What the primary says. */
  readonly handlers: Pick<WorkerHandlers, 'prepare' | 'commit' | 'abort' | 'standing' | 'beat'> = {
    prepare: (proposal) => {
      this.#tick();
      this.#proposal = { ...proposal, isDecided: false };
    },
    commit: (id) => {
      const proposal = this.#proposal;
      if (proposal?.id !== id) return;
      proposal.isDecided = true;
      if (!this.#tick()) setTimeout(() => this.#tick(), Math.ceil(proposal.atMs - sharedNow()) + 1);
    },
    abort: (id) => {
      if (this.#proposal?.id !== id || this.#proposal.isDecided) return;
      this.#proposal = undefined;
      this.#admit();
    },
    standing: (standing) => this.#take(standing),
    beat: (untilMs) => {
      this.#leaseUntilMs = Math.max(this.#leaseUntilMs, untilMs);
      this.#admit();
    },
  };

  get head(): LedgerInfo | undefined {
    return this.#state.head?.info;
  }

  get served(): LedgerVersion | undefined {
    return this.#isAhead ? undefined : this.#state.served;
  }

  get snapshot(): Snapshot | undefined {
    return this.#isAhead ? undefined : this.#snapshot;
  }

  raise(news: News): Promise<void> | undefined {
    const { snapshot } = news;
    const shared = snapshot === undefined ? news : { snapshot: { ...snapshot, asOfMs: toShared(snapshot.asOfMs) } };
    return this.#raise({ ...shared, ...this.#headNews() });
  }

  raiseHead(): Promise<void> | undefined {
    return this.#raise(this.#headNews())?.catch(() => undefined);
  }

  async takeTurn(): Promise<boolean> {
    try {
      return await this.#primary.call('takeTurn', undefined, turnMs);
    } catch (error) {
      throw new GatewayError('unavailable', 'no node can be asked for the latest version now; try again', {
        cause: error,
      });
    }
  }

  endTurn(): void {
    this.#primary.tell('endTurn', undefined);
  }

  /** The fleet has begun a generation, by itself or because it follows. */
  startOver(): void {
    if (this.#isFollowing || this.#fleet === undefined) return;
    this.#isAhead = true;
    // The fleet is in the middle of it.
    queueMicrotask(() => {
      const reports = this.#fleet?.reports() ?? [];
      this.#primary.tell('startOver', { ledger: this.#state.ledger, reports, head: this.#fleetHead() });
    });
  }

  isOpen(): boolean {
    this.#tick();
    const nowMs = sharedNow();
    const isUndecided = this.#proposal !== undefined && nowMs >= this.#proposal.atMs;
    return !isUndecided && nowMs < this.#leaseUntilMs;
  }

  /**
   * Resolves when a request that has arrived may be answered. After its bound as well: a primary that says nothing for
   * so long has decided nothing either, and reads of "latest" fail by themselves.
   */
  pass(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(admit, waitMs);
      const arrivals = this.#arrivals;
      function admit(): void {
        clearTimeout(timer);
        arrivals.delete(admit);
        resolve();
      }
      arrivals.add(admit);
    });
  }

  #raise(news: AgreedNews): Promise<void> | undefined {
    this.#tick();
    if (covers(this.#state, news)) return undefined;
    this.#primary.tell('raise', { ledger: this.#state.ledger, news, isUrgent: true });
    return new Promise((resolve, reject) => {
      const end = (finish: () => void): void => {
        clearTimeout(timer);
        this.#waiters.delete(waiter);
        finish();
      };
      const waiter: Waiter = {
        news,
        resolve: () => end(resolve),
        reject: (error) => end(() => reject(error)),
      };
      const timer = setTimeout(() => waiter.reject(disagreed()), waitMs);
      this.#waiters.add(waiter);
    });
  }

  #tellHead(): void {
    const news = this.#headNews();
    if (covers(this.#state, news)) return;
    this.#primary.tell('raise', { ledger: this.#state.ledger, news, isUrgent: false });
  }

  #headNews(): AgreedNews {
    const head = this.#isAhead ? undefined : this.#fleetHead();
    return head === undefined ? {} : { head };
  }

  #fleetHead() {
    const { head: info, headSource } = this.#fleet ?? {};
    return info === undefined ? undefined : { info, upstream: headSource?.name ?? '' };
  }

  /** Switches to what was decided, when its moment has come; whether that is done. */
  #tick(): boolean {
    const proposal = this.#proposal;
    if (proposal === undefined || !proposal.isDecided || sharedNow() < proposal.atMs) return proposal === undefined;
    this.#proposal = undefined;
    this.#adopt(proposal.state);
    return true;
  }

  #adopt(state: AgreedState): void {
    const before = this.#state;
    this.#state = state;
    if (state.snapshot !== before.snapshot) {
      const { snapshot } = state;
      this.#snapshot = snapshot && {
        ...snapshot,
        body: Buffer.from(snapshot.body),
        asOfMs: fromShared(snapshot.asOfMs),
      };
    }
    this.#tellFleet(state);
    for (const waiter of this.#waiters) if (covers(state, waiter.news)) waiter.resolve();
    this.#admit();
  }

  /** A read at the agreed version is sent to a node that is known to have it. */
  #tellFleet({ head }: AgreedState): void {
    const fleet = this.#fleet;
    if (fleet === undefined) return;
    const source = fleet.upstreams.find(({ name }) => name === head?.upstream);
    if (head !== undefined && source !== undefined && head.info.version > (source.window.info?.version ?? -1n)) {
      const nowMs = performance.now();
      // It has just answered another worker, whatever was known of it here.
      source.recordAnswer(source.latencyMs(nowMs), nowMs);
      fleet.observe(source, head.info, nowMs);
    }
    // Afterwards: who has never seen a node that could be asked would take no outage for one.
    fleet.refresh();
  }

  /** Where things stand: at the start, after this process was stuck, and when the ledger went back. */
  #take({ by, state, reports }: Standing): void {
    const isAnother = state.ledger !== this.#state.ledger;
    this.#proposal = undefined;
    if (isAnother) this.#isAhead = false;
    if (isAnother && by !== this.#worker) this.#follow(reports);
    this.#adopt(state);
    if (isAnother) for (const waiter of this.#waiters) waiter.reject(disagreed());
  }

  #follow(reports: Standing['reports']): void {
    this.#isFollowing = true;
    this.#fleet?.follow(reports, performance.now());
    this.#isFollowing = false;
  }

  #admit(): void {
    if (this.#arrivals.size === 0 || !this.isOpen()) return;
    for (const admit of this.#arrivals) admit();
  }
}

function disagreed(): GatewayError {
  return new GatewayError('unavailable', 'the latest ledger version is not agreed on now; try again');
}
