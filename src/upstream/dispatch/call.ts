/** One request on its way through the fleet: attempts at one node after another, within one budget and one deadline. */
import { performance } from 'node:perf_hooks';
import type { Allowance, CancelSignal } from '../../ledger/index.ts';
import { Deadline } from '../deadline.ts';
import { isStateRead, type Attempts, type Fetch } from './attempt.ts';
import { AttemptHistory, reasonOf, type AttemptReason, attemptSpan } from './attempt-history.ts';
import { nextNodes, readClassOf, type NodeCandidate } from '../select/candidates.ts';
import { CallPlaces } from './call-places.ts';
import type { NodeAnswer, StreamedAnswer } from './exchange.ts';
import { isSureOf, nodesFor } from '../fleet-view.ts';
import { LargeAnswerError, type FleetRequest, type SenderParts } from './fleet-request.ts';
import { chooseFinalAnswer, holderThatFailed, isChosen, mayGoOn, type CallState } from './next-step.ts';
import { withHedge, type Hedging, type RaceResult, type RunningAttempt } from './hedge.ts';
import type { ReadClass } from '../select/ranking.ts';
import type { Outliers } from './outliers.ts';
import type { Permit, PlaceQueue } from './queue.ts';
import type { Upstream } from '../node/upstream.ts';

/** State and bounds that all calls share. */
export interface DispatchContext extends SenderParts {
  readonly attempts: Attempts;
  readonly queue: PlaceQueue;
  readonly retries: Allowance;
  readonly hedging: Hedging;
  readonly outliers: Outliers;
}

/** Options of one call. `A`: the answer that `fetch` resolves with. */
export interface CallOptions<A> {
  readonly request: FleetRequest;
  readonly fetch: Fetch<A>;
  /** The answer's body goes to the client as it arrives. */
  readonly isStreamed: boolean;
  readonly signal: CancelSignal;
}

/** Bound of an attempt at a node that is down, in ms: a node that cannot report its ledger answers nothing else. */
const longestTrialMs = 2_000;
/** A node is proven for this long after an answer, in ms. */
const provenMs = 1_000;
/** Retries, as a share of all requests. */
const retryShare = 0.2;

/** One call of the fleet. */
export class FleetCall<A extends NodeAnswer | StreamedAnswer> {
  readonly #context: DispatchContext;
  readonly #options: CallOptions<A>;
  readonly #state: CallState;
  readonly #readClass: ReadClass | undefined;
  /** It reads the newest state, of a look or of the node itself. */
  readonly #isOfNewest: boolean;
  readonly #places: CallPlaces;

  constructor(context: DispatchContext, options: CallOptions<A>) {
    const { request, isStreamed, signal } = options;
    const { need } = request;
    const { fleet, limits } = context;
    const nowMs = performance.now();
    this.#context = context;
    this.#options = options;
    const readClass = isStateRead(request)
      ? readClassOf(need, request.isView === true, fleet.upstreams, nowMs)
      : undefined;
    this.#readClass = readClass;
    // In an outage a request waits no longer than the probes that will end it.
    const isHopeless = request.isIdempotent && fleet.outageSinceMs !== undefined;
    const { deadlineMs, timeoutMs } = limits;
    const deadlineAtMs = nowMs + (isHopeless ? Math.min(deadlineMs, timeoutMs, longestTrialMs) : deadlineMs);
    const nodes = () => nodesFor(fleet, need, request.isLook === true ? 'head' : readClass);
    this.#isOfNewest = readClass !== undefined && (need.kind === 'head' || isChosen(need));
    const state = { fleet, limits, need, nodes, deadlineAtMs, signal, history: new AttemptHistory() };
    this.#state = state;
    const { queue, metrics, log } = context;
    const nextNodes = () => this.#nextNodes();
    this.#places = new CallPlaces({ queue, metrics, log, request, isStreamed, signal, state, nextNodes });
    context.retries.deposit(retryShare);
    context.hedging.deposit(request);
  }

  /** Asks nodes until one gives a final answer, or none has more to add. Throws `GatewayError` (`chooseFinalAnswer`). */
  async run(): Promise<A | NodeAnswer> {
    const { need } = this.#options.request;
    const { lookAround } = this.#context;
    if (need.kind === 'head' && need.isExact === true) await lookAround?.();
    const answer = await this.#askNodes();
    if (answer !== undefined) return answer;
    if (await this.#mayHoldElsewhere()) {
      const other = await this.#askNodes();
      if (other !== undefined) return other;
    }
    this.#repeat();
    return chooseFinalAnswer(this.#state);
  }

  /** Before a client gets a 410: whether one of the addresses that refused leads to further nodes. */
  async #mayHoldElsewhere(): Promise<boolean> {
    const { history, deadlineAtMs } = this.#state;
    const { addresses } = this.#context;
    if (!history.anyPruned || addresses === undefined || performance.now() >= deadlineAtMs) return false;
    const shared = await addresses.findShared(history.prunedAt);
    for (const upstream of shared) history.forgetMiss(upstream);
    return shared.length > 0;
  }

  async #askNodes(): Promise<A | undefined> {
    const { request, signal } = this.#options;
    const { onPlace } = request;
    for (;;) {
      const nodes = this.#nodesToAsk();
      if (this.#leftMs <= 0 || signal.aborted || !this.#mayAsk(nodes)) break;
      const permit = this.#places.tryAcquire(nodes) ?? (await this.#places.acquire(nodes));
      if (permit === undefined) break;
      onPlace?.();
      const raced = await this.#attempt(permit);
      const answer = this.#record(raced);
      if (answer !== undefined) return answer;
      const last = raced.ended.at(-1);
      if (last === undefined || last.outcome.kind === 'final') break;
      if (!request.isIdempotent && last.outcome.mayHaveArrived) break;
      if (request.mayStream === true && last.outcome.isTooLarge === true) throw new LargeAnswerError();
      if (!(await mayGoOn(this.#state, last.run.upstream, last.outcome.kind))) break;
    }
    return undefined;
  }

  get #leftMs(): number {
    return this.#state.deadlineAtMs - performance.now();
  }

  /** The nodes of the next attempt; none when the attempts are used up, or no node has more to add. */
  #nodesToAsk(): readonly NodeCandidate<Upstream>[] {
    const { history, limits } = this.#state;
    // A repeat and the node that was waited for have an attempt of their own each.
    const extra = (history.isRepeating ? 1 : 0) + (history.hasRepeated ? 1 : 0);
    const isSpent = history.attempts >= limits.maxAttempts + extra;
    const nodes = isSpent ? [] : this.#nextNodes();
    if (nodes.length > 0) return nodes;
    const holder = holderThatFailed(this.#state);
    if (holder === undefined) return [];
    history.hasRepeated = true;
    history.repeat(holder);
    return this.#nextNodes();
  }

  #nextNodes(): readonly NodeCandidate<Upstream>[] {
    const { nodes, need, limits, history } = this.#state;
    const isLast = history.attempts > 0 && history.attempts >= limits.maxAttempts - 1;
    return nextNodes(nodes(), need, history, isLast);
  }

  /**
   * A retry after a failure is within a budget: when every node fails, no node gets each request three times. Beyond it,
   * a node that answers such reads gets them, and another one a few, which prove that it answers them again: no other
   * read would while all others fail.
   */
  #mayAsk([best]: readonly NodeCandidate<Upstream>[]): boolean {
    const { last, hasRepeated } = this.#state.history;
    if (best === undefined) return false;
    // When all nodes shed requests, all are deferred, and the next one's attempt is a retry as well.
    const isFailover = last?.kind === 'failed' && (last.isShed !== true || best.isDeferred === true);
    if (!isFailover && !hasRepeated) return true;
    const nowMs = performance.now();
    const { retries } = this.#context;
    const may =
      retries.withdraw(nowMs) || this.#isProven(best.upstream, nowMs) || best.upstream.lastRetries.withdraw(nowMs);
    this.#context.metrics.retry(may ? 'sent' : 'refused');
    return may;
  }

  /** Whether the node has just answered such reads: retries there make no storm. */
  #isProven({ ejections }: Upstream, nowMs: number): boolean {
    return this.#readClass !== undefined && ejections[this.#readClass].hasAnsweredWithin(provenMs, nowMs);
  }

  /** One attempt, and a hedge beside it when the attempt is slow. */
  #attempt(permit: Permit): Promise<RaceResult<A>> {
    const first = this.#run(permit, reasonOf(this.#state.history));
    const { request } = this.#options;
    const afterMs = this.#context.hedging.afterMs(request, permit.upstream, this.#readClass);
    return withHedge(first, afterMs, () => {
      const hedge = this.#permitForHedge();
      return hedge === undefined ? undefined : this.#run(hedge, 'hedge');
    });
  }

  #permitForHedge(): Permit | undefined {
    const { request, signal } = this.#options;
    const { limits, hedging, metrics } = this.#context;
    if (this.#state.history.attempts >= limits.maxAttempts || this.#leftMs <= 0 || signal.aborted) return undefined;
    const nowMs = performance.now();
    const nodes = this.#nextNodes().filter(({ upstream }) => upstream.mayBeAskedMore(nowMs));
    // A node that is passed over, or may not hold the version, is no help.
    if (nodes[0] === undefined || !isSureOf(nodes[0], request.need)) return undefined;
    const permit = this.#places.tryAcquire(nodes);
    if (permit === undefined || hedging.withdraw(request)) return permit;
    permit.cancel();
    metrics.hedge('refused');
    return undefined;
  }

  #run(permit: Permit, reason: AttemptReason): RunningAttempt<A> {
    const { request, fetch, signal } = this.#options;
    const { limits, attempts } = this.#context;
    const { upstream } = permit;
    const span = attemptSpan(request, upstream, reason, this.#state.history.attempts);
    const isElsewhere = upstream.address.isShared && this.#state.history.isMissedByShared;
    this.#state.history.ask(upstream);
    // A node may answer looks and refuse all other requests.
    const nowMs = performance.now();
    if (request.isLook === true) upstream.lookSent(nowMs);
    else {
      upstream.deferral.asked(nowMs);
      upstream.requestSent(nowMs);
    }
    const longestMs = upstream.health === 'down' && request.isIdempotent ? longestTrialMs : limits.timeoutMs;
    const timeoutMs = Math.max(0, Math.min(request.timeoutMs ?? Infinity, limits.timeoutMs, longestMs, this.#leftMs));
    const deadline = new Deadline(signal, timeoutMs, this.#isOfNewest ? upstream.newestReads : undefined);
    return {
      upstream,
      sentAtMs: performance.now(),
      outcome: attempts.make(request, fetch, { permit, deadline, readClass: this.#readClass, span, isElsewhere }),
      cancel: () => deadline.giveUp(new Error('another node has answered')),
    };
  }

  /** Records the outcomes. Returns the final answer, if there is one. */
  #record({ ended, hedge, cancelled }: RaceResult<A>): A | undefined {
    const { metrics } = this.#context;
    const history = this.#state.history;
    for (const { run, outcome } of ended) {
      if (outcome.kind !== 'final') {
        history.record(outcome, run.upstream, run.sentAtMs);
        // No sign against the node: a client that hung up, an answer too large, a wait for a place.
        const isOfNode = outcome.kind === 'failed' && outcome.sign !== undefined && !this.#state.signal.aborted;
        if (isOfNode) this.#recordUnanswered(run, outcome.sign === 'timeout');
        continue;
      }
      if (cancelled !== undefined && hedge === run) this.#recordOutpaced(cancelled);
      if (hedge !== undefined) metrics.hedge(hedge === run ? 'won' : 'lost');
      if (history.anyPruned) metrics.prunedRepaired.inc();
      this.#compare(run.upstream);
      return outcome.answer;
    }
    if (hedge !== undefined) metrics.hedge('failed');
    return undefined;
  }

  /** A look has no client who could make it fail: its node provides no newest state for a while, if another can. */
  #recordUnanswered({ upstream, sentAtMs }: RunningAttempt<A>, isSilent: boolean): void {
    const nowMs = performance.now();
    if (this.#readClass !== undefined) upstream.ejections[this.#readClass].unanswered(nowMs);
    if (this.#options.request.isLook !== true) return;
    if (!this.#context.fleet.isReplaceable(upstream)) return;
    upstream.newest.fail('look', sentAtMs, nowMs);
    if (isSilent) upstream.expireNewestReads();
  }

  /** The hedge answered first: the other node took at least this long. */
  #recordOutpaced({ upstream, sentAtMs }: RunningAttempt<A>): void {
    const nowMs = performance.now();
    this.#state.history.failures.push({ upstream, sign: 'outpaced', sentAtMs });
    if (this.#readClass !== undefined) upstream.latencies[this.#readClass].record(nowMs - sentAtMs, nowMs);
    upstream.raiseLatency(nowMs - sentAtMs, nowMs);
  }

  /** Ejects nodes that failed a read that `answering` answered, and tries ejected ones. */
  #compare(answering: Upstream): void {
    const { outliers } = this.#context;
    if (this.#readClass === undefined) return;
    outliers.blame(this.#readClass, this.#state.history.failures);
    outliers.tryOut(this.#options.request, this.#options.fetch, this.#readClass, answering);
  }

  /** Compares the node that failed with others, by a repeat of the read, which no node answered. */
  #repeat(): void {
    const { outliers } = this.#context;
    const { history } = this.#state;
    if (this.#readClass !== undefined) outliers.repeat(this.#options.request, this.#readClass, history.failures);
  }
}
