/**
 * The primary's part in this promise: no client is shown less of the ledger by one worker than any client was shown by
 * another before its request. (A worker's part is `agreed.ts`.)
 *
 * What is to be shown anew is joined to the state that all have, and put before all workers: `prepare`, with a moment
 * a few milliseconds ahead. When every one of them has answered, the decision follows: `commit`. All processes read one
 * clock, so all switch at that moment, and no request is held up for it. A worker that has answered and does not know
 * the decision when the moment comes lets requests wait that arrive from then on; so nobody shows less to a request
 * that arrived after the moment, and nobody shows more before it. Requests that arrived earlier overlap with whatever
 * was shown since, and have no order with it.
 *
 * A worker that does not answer holds up the rest: after a while the round is called off (`abort`), which is safe while
 * nothing was decided, and begun again when that worker answers, is gone, or cannot show anything any more: workers
 * show something only while they hold a lease, which the primary renews (`beat`) as long as they answer. So a round
 * takes longer than usual only when a worker is stuck, and then as long as a lease at most.
 */
import type { Channel } from './channel.ts';
import { covers, join, type AgreedNews, type AgreedState } from './agreed-state.ts';
import { sharedNow } from './clock.ts';
import type { Raised, Standing, StartedOver, WorkerHandlers } from './protocol.ts';

/** Without news for this long a worker shows nothing; renewed four times in it. */
const leaseMs = 1_000;
const beatMs = 250;
/** A beat that is not answered for this long is tried again. */
const beatTimeoutMs = 60_000;
/** How far ahead the moment is: longer than workers took to answer last time, so that nobody waits for a decision. */
const lead = { shortestMs: 4, longestMs: 100, perAnswer: 1.5 };
/** Workers have so long after the moment to answer; requests may wait for that. */
const patienceMs = 20;
/** Headers that nobody waits for follow the ledger at this pace. */
const calmMs = 75;
/** Whose turn it is to look at the freshest node loses it after this long. */
const turnMs = 2_000;

interface Peer {
  readonly id: number;
  readonly channel: Channel<WorkerHandlers>;
  /** What it holds at most. */
  leaseUntilMs: number;
  isBeatOut: boolean;
  /** It did not answer, and holds no lease: it is not asked until it answers again. */
  isLapsed: boolean;
}

interface Round {
  readonly id: number;
  readonly state: AgreedState;
  readonly startedMs: number;
  readonly atMs: number;
  readonly waiting: Set<Peer>;
  readonly patience: NodeJS.Timeout;
}

export class Agreement {
  readonly #peers = new Map<number, Peer>();
  readonly #beats: NodeJS.Timeout;
  #state: AgreedState = { ledger: 0 };
  /** Of the worker that told that the ledger is another one. */
  #reports: Standing['reports'] = [];
  /** What was raised and is not agreed yet. */
  #wanted: AgreedNews | undefined;
  #isUrgent = false;
  #round: Round | undefined;
  #lastId = 0;
  #lastEndMs = -Infinity;
  /** The moment of the last round: the next has a later one. */
  #lastMomentMs = -Infinity;
  #leadMs = lead.shortestMs;
  /** Who has not answered a round that was called off. */
  readonly #stalling = new Set<Peer>();
  #timer: NodeJS.Timeout | undefined;
  #turn: { readonly peer: Peer; readonly timer: NodeJS.Timeout } | undefined;
  readonly #queue: { readonly peer: Peer; readonly resolve: (isOurs: boolean) => void }[] = [];

  constructor() {
    this.#beats = setInterval(() => this.#beat(), beatMs);
    this.#beats.unref();
  }

  close(): void {
    clearInterval(this.#beats);
    clearTimeout(this.#timer);
    clearTimeout(this.#round?.patience);
  }

  /** A worker has come. It knows the state, and of a round that is under way, before it is told anything else. */
  join(id: number, channel: Channel<WorkerHandlers>): void {
    const peer: Peer = { id, channel, leaseUntilMs: -Infinity, isBeatOut: false, isLapsed: false };
    this.#peers.set(id, peer);
    this.#welcome(peer);
    this.#beatTo(peer);
  }

  leave(id: number): void {
    const peer = this.#peers.get(id);
    if (peer === undefined) return;
    this.#peers.delete(id);
    this.#stalling.delete(peer);
    if (this.#turn?.peer === peer) this.#endTurn();
    const at = this.#queue.findIndex((waiting) => waiting.peer === peer);
    if (at >= 0) this.#queue.splice(at, 1);
    this.#answered(peer, this.#round?.id);
    this.#proceed();
  }

  raise({ ledger, news, isUrgent }: Raised): void {
    if (ledger !== this.#state.ledger || covers(this.#state, news)) return;
    this.#wanted = join(this.#wanted ?? {}, news);
    this.#isUrgent ||= isUrgent;
    this.#proceed();
  }

  /** A worker's fleet has begun a generation: all begin one, with what that worker knows of the nodes. */
  startOver(by: number, { ledger, reports, head }: StartedOver): void {
    // Several notice it at about the same time: the first is followed.
    if (ledger !== this.#state.ledger) return;
    this.#state = { ledger: ledger + 1, ...(head === undefined ? {} : { head }) };
    this.#wanted = undefined;
    this.#isUrgent = false;
    this.#drop();
    this.#reports = reports;
    for (const peer of this.#active()) this.#tellStanding(peer, by);
  }

  /** Resolves with true when the worker may look at the freshest node, with false when another has. */
  takeTurn(id: number): Promise<boolean> {
    const peer = this.#peers.get(id);
    if (peer === undefined) return Promise.resolve(false);
    if (this.#turn !== undefined) return new Promise((resolve) => this.#queue.push({ peer, resolve }));
    const timer = setTimeout(() => this.#endTurn(), turnMs);
    timer.unref();
    this.#turn = { peer, timer };
    return Promise.resolve(true);
  }

  endTurn(id: number): void {
    if (this.#turn?.peer.id === id) this.#endTurn();
  }

  #endTurn(): void {
    clearTimeout(this.#turn?.timer);
    this.#turn = undefined;
    for (const { resolve } of this.#queue.splice(0)) resolve(false);
  }

  /** Begins the next round when there is reason to and nothing against it. */
  #proceed(): void {
    if (this.#round !== undefined || this.#wanted === undefined) return;
    clearTimeout(this.#timer);
    const nowMs = sharedNow();
    for (const peer of this.#stalling) {
      if (nowMs < peer.leaseUntilMs) continue;
      peer.isLapsed = true;
      this.#stalling.delete(peer);
    }
    const [stalling] = this.#stalling;
    const calmUntilMs = Math.max(this.#lastMomentMs, this.#isUrgent ? nowMs : this.#lastEndMs + calmMs);
    if (stalling !== undefined) this.#proceedAfter(stalling.leaseUntilMs - nowMs);
    else if (nowMs < calmUntilMs) this.#proceedAfter(calmUntilMs - nowMs);
    else this.#begin(this.#wanted, nowMs);
  }

  #proceedAfter(ms: number): void {
    // A timer may be early by part of a millisecond.
    this.#timer = setTimeout(() => this.#proceed(), Math.ceil(ms) + 1);
    this.#timer.unref();
  }

  #begin(news: AgreedNews, nowMs: number): void {
    const state = join(this.#state, news);
    const peers = this.#active();
    const patience = setTimeout(() => this.#callOff(), this.#leadMs + patienceMs);
    patience.unref();
    const id = (this.#lastId += 1);
    const atMs = nowMs + this.#leadMs;
    this.#round = { id, state, startedMs: nowMs, atMs, waiting: new Set(peers), patience };
    const proposal = { id, state, atMs };
    for (const peer of peers) this.#prepare(peer, proposal);
    this.#decide();
  }

  #prepare(peer: Peer, proposal: { readonly id: number; readonly state: AgreedState; readonly atMs: number }): void {
    peer.channel.call('prepare', proposal, beatTimeoutMs).then(
      () => this.#answered(peer, proposal.id),
      () => undefined,
    );
  }

  #answered(peer: Peer, round: number | undefined): void {
    if (this.#stalling.delete(peer)) this.#proceed();
    if (this.#round === undefined || this.#round.id !== round) return;
    this.#round.waiting.delete(peer);
    this.#decide();
  }

  #decide(): void {
    const round = this.#round;
    if (round === undefined || round.waiting.size > 0) return;
    const nowMs = sharedNow();
    this.#drop();
    this.#state = round.state;
    for (const { channel } of this.#active()) channel.tell('commit', round.id);
    this.#lastEndMs = nowMs;
    this.#lastMomentMs = round.atMs;
    this.#learnLead(nowMs - round.startedMs);
    if (this.#wanted !== undefined && covers(round.state, this.#wanted)) {
      this.#wanted = undefined;
      this.#isUrgent = false;
    }
    this.#proceed();
  }

  /** Nothing is decided yet, so nothing has been shown. */
  #callOff(): void {
    const round = this.#round;
    if (round === undefined) return;
    this.#drop();
    for (const { channel } of this.#active()) channel.tell('abort', round.id);
    for (const peer of round.waiting) this.#stalling.add(peer);
    this.#learnLead(sharedNow() - round.startedMs);
    this.#proceed();
  }

  #drop(): void {
    clearTimeout(this.#round?.patience);
    this.#round = undefined;
  }

  #learnLead(answerMs: number): void {
    const needed = Math.max(answerMs * lead.perAnswer + 2, this.#leadMs * 0.8);
    this.#leadMs = Math.min(lead.longestMs, Math.max(lead.shortestMs, needed));
  }

  #active(): readonly Peer[] {
    return [...this.#peers.values()].filter(({ isLapsed }) => !isLapsed);
  }

  /** Tells a worker where things stand. What is under way now is not put before it: it would have to be asked too. */
  #welcome(peer: Peer): void {
    peer.isLapsed = false;
    this.#tellStanding(peer, 0);
    this.#callOff();
  }

  #tellStanding({ channel }: Peer, by: number): void {
    channel.tell('standing', { by, state: this.#state, reports: this.#reports });
  }

  /** A worker that had lapsed answers again. What was decided last is shown from its moment on, and not before. */
  #takeBack(peer: Peer): void {
    const earlyMs = this.#lastMomentMs - sharedNow();
    if (earlyMs > 0) setTimeout(() => this.#takeBack(peer), Math.ceil(earlyMs) + 1).unref();
    else if (peer.isLapsed && this.#peers.has(peer.id)) {
      this.#welcome(peer);
      this.#beatTo(peer);
    }
  }

  #beat(): void {
    for (const peer of this.#peers.values()) this.#beatTo(peer);
  }

  /** One beat at a time: a worker that is stuck must not gather messages. */
  #beatTo(peer: Peer): void {
    if (peer.isBeatOut) return;
    peer.isBeatOut = true;
    // Whoever lapsed has to be told the state before it may show anything.
    const untilMs = peer.isLapsed ? 0 : sharedNow() + leaseMs;
    peer.leaseUntilMs = Math.max(peer.leaseUntilMs, untilMs);
    peer.channel.call('beat', untilMs, beatTimeoutMs).then(
      () => {
        peer.isBeatOut = false;
        if (peer.isLapsed) this.#takeBack(peer);
      },
      () => {
        peer.isBeatOut = false;
      },
    );
  }
}
