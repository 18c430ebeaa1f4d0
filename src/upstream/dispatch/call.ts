/**
 * One request on its way through the fleet: attempts at one node after another, within one budget and one deadline, and
 * hedges: a second attempt beside a slow one, of which the first answer wins.
 */
import { performance } from 'node:perf_hooks';
import { Allowance, type CancelSignal, setPatientTimeout } from '../../ledger/index.ts';
import { Deadline } from '../deadline.ts';
import type { FleetState } from '../fleet-state.ts';
import type { PlaceKind } from '../node/limits.ts';
import { nodesFor, type Upstream } from '../node/upstream.ts';
import type { Choice } from '../select/pick.ts';
import type { FirstChoices } from '../select/first-choice.ts';
import { type Candidate, isPositioned, isSureOf, type Need, type ReadClass } from '../select/ranking.ts';
import { Attempt, type AttemptParts, type Fetch, isStateRead } from './attempt.ts';
import type { NodeAnswer, StreamedAnswer } from './exchange.ts';
import { type FleetRequest, LargeAnswerError, type SendLimits } from './fleet-request.ts';
import type { Outliers } from './outliers.ts';
import {
  type AttemptOutcome,
  type AttemptReason,
  CallHistory,
  type CallState,
  choose,
  chooseFinalAnswer,
  isChosen,
  type NonFinalOutcome,
  plan,
  reasonOf,
  type Step,
} from './plan.ts';
import type { Permit, PlaceQueue } from './queue.ts';

/** State and bounds that all calls share. */
export interface DispatchContext extends AttemptParts {
  readonly queue: PlaceQueue;
  readonly hedging: Hedging;
  readonly outliers: Outliers;
  readonly firstChoices: FirstChoices;
}

/** Bound of an attempt at a node that is down, in ms: a node that cannot report its ledger answers nothing else. */
const longestTrialMs = 2_000;
/** A node is proven for this long after an answer, in ms. */
const provenMs = 1_000;
/** Retries, as a share of all requests. */
const retryShare = 0.2;
/** Client of the gateway's own requests: no address and no tenant has this name. */
const ownName = '(gateway)';

/** A second attempt beside a slow one. */
interface Hedge<A extends NodeAnswer | StreamedAnswer> {
  readonly attempt: Attempt<A>;
  readonly ended: Promise<AttemptOutcome<A>>;
  /** It has answered while the first one was in flight. */
  hasWon: boolean;
  /** Its outcome, when it ended without an answer while the first one was in flight. */
  failure: NonFinalOutcome | undefined;
}

/** One call of the fleet. `A`: the answer that `fetch` resolves with. */
export class FleetCall<A extends NodeAnswer | StreamedAnswer> implements CallState {
  readonly fleet: FleetState;
  readonly limits: SendLimits;
  readonly need: Need;
  readonly isIdempotent: boolean;
  readonly history = new CallHistory();
  readonly deadlineAtMs: number;
  readonly signal: CancelSignal;
  readonly #context: DispatchContext;
  readonly #request: FleetRequest;
  readonly #fetch: Fetch<A>;
  readonly #kind: PlaceKind;
  readonly #readClass: ReadClass | undefined;
  /** Beside the last attempt. */
  #hedge: Hedge<A> | undefined;
  /** It reads the newest state, of a look or of the node itself. */
  readonly #isOfNewest: boolean;

  /** `isStreamed`: the answer's body goes to the client as it arrives. */
  constructor(
    context: DispatchContext,
    request: FleetRequest,
    fetch: Fetch<A>,
    isStreamed: boolean,
    signal: CancelSignal,
  ) {
    const { need, isIdempotent } = request;
    const { fleet, limits } = context;
    const nowMs = performance.now();
    this.fleet = fleet;
    this.limits = limits;
    this.need = need;
    this.isIdempotent = isIdempotent;
    this.signal = signal;
    this.#context = context;
    this.#request = request;
    this.#fetch = fetch;
    // Looks and long polls take no place: they cost a node little work.
    if (request.isLook === true) this.#kind = 'look';
    else if (request.atOnce !== undefined) this.#kind = 'poll';
    else this.#kind = isStreamed ? 'stream' : 'read';
    const readClass = isStateRead(request)
      ? context.firstChoices.classOf(need, request.isView === true, nowMs)
      : undefined;
    this.#readClass = readClass;
    this.#isOfNewest = readClass !== undefined && (need.kind === 'head' || isChosen(need));
    // In an outage a request waits no longer than the probes that will end it.
    const isHopeless = isIdempotent && fleet.outageSinceMs !== undefined;
    const { deadlineMs, timeoutMs } = limits;
    this.deadlineAtMs = nowMs + (isHopeless ? Math.min(deadlineMs, timeoutMs, longestTrialMs) : deadlineMs);
    context.retries.deposit(retryShare);
    context.hedging.deposit(request);
  }

  nodes(): readonly Candidate<Upstream>[] {
    return nodesFor(this.fleet, this.need, this.#kind === 'look' ? 'head' : this.#readClass, this.#kind);
  }

  /** Asks nodes until one gives a final answer, or none has more to add. Throws `GatewayError` (`chooseFinalAnswer`). */
  async run(): Promise<A | NodeAnswer> {
    const { need, history } = this;
    const { lookAround, outliers } = this.#context;
    if (need.kind === 'head' && need.isExact === true) await lookAround?.();
    let hasLooked = false;
    for (;;) {
      const step = this.#firstStep() ?? plan(this, this.nodes(), performance.now());
      history.isLost = step.isLost;
      if (step.kind === 'wait') {
        await this.#waitFor(step);
        continue;
      }
      const taken = step.kind === 'ask' ? this.#permitFor(step) : undefined;
      const permit = taken instanceof Promise ? await taken : taken;
      if (permit !== undefined) {
        this.#request.onPlace?.();
        const first = this.#begin(permit, reasonOf(history));
        const timer = this.#hedgeLater(first);
        let outcome: AttemptOutcome<A>;
        try {
          outcome = await first.run(this.#fetch);
        } catch (error) {
          this.#hedge?.attempt.cancel();
          throw error;
        } finally {
          clearTimeout(timer);
        }
        const hedge = this.#hedge;
        const answer =
          hedge === undefined ? this.#settle(first, outcome) : await this.#settleBoth(first, outcome, hedge);
        if (answer !== undefined) return answer;
        if (this.#request.mayStream === true && history.last?.isTooLarge === true) throw new LargeAnswerError();
      } else if (hasLooked || !(await this.#mayHoldElsewhere())) break;
      else hasLooked = true;
    }
    // The node that failed is compared with others by a repeat of the read, which no node answered.
    if (this.#readClass !== undefined) outliers.repeat(this.#request, this.#readClass, history.failures);
    return chooseFinalAnswer(this);
  }

  /** The first attempt of most reads; `undefined`: all nodes have to be compared. */
  #firstStep(): Step | undefined {
    const { history, need, deadlineAtMs, signal } = this;
    const nowMs = performance.now();
    if (!isPositioned(need) || history.last !== undefined || nowMs >= deadlineAtMs || signal.aborted) return undefined;
    const choice = this.#context.firstChoices.find(need, this.#readClass, this.#kind, nowMs);
    return choice && { kind: 'ask', choice, isRetry: false, isLost: false };
  }

  async #waitFor({ version, untilMs }: Extract<Step, { kind: 'wait' }>): Promise<void> {
    const { fleet, history, signal } = this;
    history.waitUntilMs = untilMs;
    const arrived = (upstream: Upstream): boolean => history.hasArrived(upstream, version);
    const isReached = await fleet.waitFor(version, untilMs - performance.now(), signal, arrived);
    history.endWait(version, isReached, this.nodes());
  }

  /** Before a client gets a 410: whether one of the addresses that refused leads to further nodes. */
  async #mayHoldElsewhere(): Promise<boolean> {
    const { history, deadlineAtMs } = this;
    if (!history.anyPruned || performance.now() >= deadlineAtMs) return false;
    const single = [...history.prunedAt].filter(({ address }) => !address.isShared);
    await Promise.all(single.map(({ address }) => address.check()));
    const shared = single.filter(({ address }) => address.isShared);
    for (const upstream of shared) history.forgetMiss(upstream);
    return shared.length > 0;
  }

  /** A place at the chosen node, at once or after a wait; `undefined`: budget, queue or time allow none. */
  #permitFor({
    choice,
    repeats,
    isRetry,
  }: Extract<Step, { kind: 'ask' }>): Permit | Promise<Permit | undefined> | undefined {
    const { history } = this;
    if (isRetry && !this.#mayRetry(choice.node.upstream)) return undefined;
    if (repeats !== undefined) history.repeatAtOnce(repeats);
    return choice.isFree ? this.#context.queue.take(choice.node.upstream, this.#kind) : this.#wait(choice);
  }

  /**
   * A retry after a failure is within a budget: when every node fails, no node gets each request three times. Beyond it, a
   * node that answers such reads gets them: a refused retry is a refused comparison as well, so the nodes that fail would
   * never be passed over (test/journeys/faults/hedging.test.ts fails without it). Looks are few, many requests wait
   * for each, and no node is proven to answer them. An attempt that never left cost no node anything: a submission goes
   * on after no other failure.
   */
  #mayRetry(upstream: Upstream): boolean {
    const { retries, metrics } = this.#context;
    const nowMs = performance.now();
    const ejection = this.#readClass === undefined ? undefined : upstream.ejections[this.#readClass];
    const isProven = ejection?.hasAnsweredWithin(provenMs, nowMs) === true;
    const wasSent = this.history.last?.mayHaveArrived !== false;
    const may = this.#kind === 'look' || !wasSent || retries.withdraw(nowMs) || isProven;
    metrics.retry(may ? 'sent' : 'refused');
    return may;
  }

  async #wait(choice: Choice<Upstream>): Promise<Permit | undefined> {
    const { queue, metrics } = this.#context;
    const { fleet, history, deadlineAtMs, signal } = this;
    const { client = ownName } = this.#request;
    const nowMs = performance.now();
    const permit = await queue.acquire(choice, { client, signal, withinMs: deadlineAtMs - nowMs, kind: this.#kind });
    if (typeof permit === 'object') return permit;
    if (permit === 'withheld') {
      // While the request waited for a place at these nodes, another may have become better.
      const other = choose(this, this.nodes());
      if (other?.isFree === true) return queue.take(other.node.upstream, this.#kind);
      if (other?.alike.some(({ upstream }) => upstream.mayBeAsked(performance.now())) === true)
        return this.#wait(other);
      for (const { upstream } of choice.alike) this.#recordRefusal(upstream);
      return undefined;
    }
    // Without a node that answers, the nodes are not busy: the call reports their faults.
    if (!fleet.upstreams.some(isAnswering)) return undefined;
    history.queueFullFor = client;
    if (!signal.aborted) metrics.refused(permit);
    return undefined;
  }

  #recordRefusal({ name, allowance }: Upstream): void {
    const nowMs = performance.now();
    if (!allowance.isSpent(nowMs)) return;
    const { metrics, log } = this.#context;
    metrics.allowanceRefused(name);
    if (!allowance.refuse(nowMs)) return;
    const message = 'allowance used up: reads that only this upstream holds get 503';
    log.record('allowance used up', { upstream: name }, message);
  }

  /** Begins a hedge beside the attempt when it is slow. */
  #hedgeLater(first: Attempt<A>): NodeJS.Timeout | undefined {
    this.#hedge = undefined;
    const afterMs = this.#context.hedging.afterMs(this.#request, first.upstream, this.#readClass);
    if (afterMs === undefined) return undefined;
    return setPatientTimeout(() => {
      if (!first.hasEnded) this.#hedge = this.#beginHedge(first);
    }, afterMs);
  }

  /** Settles an attempt that has ended, and its hedge. Resolves with the final answer, or once none is in flight. */
  async #settleBoth(first: Attempt<A>, outcome: AttemptOutcome<A>, hedge: Hedge<A>): Promise<A | undefined> {
    const { metrics } = this.#context;
    const { attempt, failure } = hedge;
    // Outcomes are recorded in the order of their ends: the node of the hedge is compared with one that answers.
    if (failure !== undefined) this.#settle(attempt, failure);
    if (outcome.kind === 'final') {
      attempt.cancel();
      metrics.hedge('lost');
      return this.#settle(first, outcome);
    }
    if (hedge.hasWon) this.#recordOutpaced(first);
    else this.#settle(first, outcome);
    const ofHedge = failure ?? (await hedge.ended);
    metrics.hedge(ofHedge.kind === 'final' ? 'won' : 'failed');
    return failure === undefined ? this.#settle(attempt, ofHedge) : undefined;
  }

  /** Begins a hedge, which ends `first` when it answers before it, if a node and the budget are left for one. */
  #beginHedge(first: Attempt<A>): Hedge<A> | undefined {
    const permit = this.#permitForHedge();
    if (permit === undefined) return undefined;
    const attempt = this.#begin(permit, 'hedge');
    const hedge: Hedge<A> = { attempt, ended: attempt.run(this.#fetch), hasWon: false, failure: undefined };
    hedge.ended.then(
      (outcome) => {
        if (first.hasEnded) return;
        if (outcome.kind !== 'final') hedge.failure = outcome;
        else {
          hedge.hasWon = true;
          first.cancel();
        }
      },
      // A request that HTTP forbids at one node: no reader would take the answer of the other.
      () => first.cancel(),
    );
    return hedge;
  }

  #permitForHedge(): Permit | undefined {
    const { hedging, metrics, queue } = this.#context;
    const { history, limits, deadlineAtMs, signal } = this;
    const nowMs = performance.now();
    if (history.attempts >= limits.maxAttempts || nowMs >= deadlineAtMs || signal.aborted) return undefined;
    const choice = choose(this, this.nodes());
    if (choice === undefined) return undefined;
    const { upstream } =
      [choice.node, ...choice.alike].find(
        (node) =>
          node.upstream.mayBeAskedMore(nowMs) && node.upstream.hasPlace(this.#kind, node.tier !== choice.tier, nowMs),
      ) ?? {};
    // A node that is passed over, or may not hold the version, is no help.
    if (upstream === undefined || !isSureOf(choice.node, this.#request.need)) return undefined;
    if (hedging.withdraw(this.#request)) return queue.take(upstream, this.#kind);
    metrics.hedge('refused');
    return undefined;
  }

  #begin(permit: Permit, reason: AttemptReason): Attempt<A> {
    const { history, limits, signal, deadlineAtMs } = this;
    const { upstream } = permit;
    const isElsewhere = upstream.address.isShared && history.isMissedByShared;
    const traced = { reason, attemptsBefore: history.attempts, isElsewhere };
    history.ask(upstream);
    const nowMs = performance.now();
    // A node may answer looks and refuse all other requests.
    if (this.#kind === 'look') upstream.silence.looked(nowMs);
    else upstream.silence.asked(nowMs);
    const { timeoutMs = Infinity, isIdempotent } = this.#request;
    const longestMs = upstream.health === 'down' && isIdempotent ? longestTrialMs : limits.timeoutMs;
    const boundMs = Math.max(0, Math.min(timeoutMs, limits.timeoutMs, longestMs, deadlineAtMs - nowMs));
    const deadline = new Deadline(signal, boundMs, this.#isOfNewest ? upstream.newestReads : undefined);
    return new Attempt<A>(this.#context, this.#request, permit, deadline, this.#readClass, traced);
  }

  /** Returns the final answer, if the outcome is one. */
  #settle(attempt: Attempt<A>, outcome: AttemptOutcome<A>): A | undefined {
    const { metrics, outliers } = this.#context;
    const { history, signal } = this;
    const { upstream } = attempt;
    if (outcome.kind === 'final') {
      if (history.anyPruned) metrics.prunedRepaired.inc();
      // The nodes that failed a read that this one answered are compared with it.
      if (this.#readClass !== undefined && (history.failures.length > 0 || outliers.out.size > 0))
        outliers.compare(this.#request, this.#fetch, this.#readClass, upstream, history.failures);
      return outcome.answer;
    }
    history.record(outcome, upstream, attempt.startedMs);
    // No sign against the node: a client that hung up, an answer too large, a wait for a place.
    const isOfNode = outcome.kind === 'failed' && outcome.sign !== undefined && !signal.aborted;
    if (isOfNode) this.#recordUnanswered(attempt, outcome.sign === 'timeout');
    return undefined;
  }

  /** A look has no client who could make it fail: its node provides no newest state for a while, if another can. */
  #recordUnanswered({ upstream, startedMs }: Attempt<A>, isSilent: boolean): void {
    const nowMs = performance.now();
    if (this.#readClass !== undefined) upstream.ejections[this.#readClass].unanswered(nowMs);
    if (this.#kind !== 'look' || !this.fleet.isReplaceable(upstream)) return;
    upstream.newest.fail('look', startedMs, nowMs);
    if (isSilent) upstream.expireNewestReads();
  }

  /** The hedge answered first: the other node took at least this long. */
  #recordOutpaced({ upstream, startedMs }: Attempt<A>): void {
    const nowMs = performance.now();
    this.history.failures.push({ upstream, sign: 'outpaced', sentAtMs: startedMs });
    if (this.#readClass !== undefined) upstream.latencies[this.#readClass].record(nowMs - startedMs, nowMs);
    upstream.raiseLatency(nowMs - startedMs, nowMs);
  }
}

function isAnswering({ health, silence, isDrained }: Upstream): boolean {
  return health === 'usable' && !silence.isOn(performance.now()) && !isDrained;
}

/** Largest burst of hedges: for the first seconds of a node that hangs, at a few hundred reads a second. */
const mostSaved = 20;
/** Below this delay a second request costs more than it saves. */
const soonestMs = 2;

/** Decides when a hedge begins, and bounds hedges to a share of the reads. */
export class Hedging {
  readonly #limits: SendLimits['hedge'];
  readonly #fleet: FleetState;
  readonly #budget = new Allowance(0, mostSaved);

  constructor(limits: SendLimits['hedge'], fleet: FleetState) {
    this.#limits = limits;
    this.#fleet = fleet;
  }

  deposit(request: FleetRequest): void {
    if (isHedgeable(request)) this.#budget.deposit(this.#limits?.share ?? 0);
  }

  /** Whether the budget allows a hedge; always for looks, which are few and which many requests wait for. */
  withdraw(request: FleetRequest): boolean {
    return request.isLook === true || this.#budget.withdraw(performance.now());
  }

  /**
   * Delay of the hedge in ms, by the node's own answers to reads of the class, or by those of the slowest node when it has
   * too few. `undefined`: no hedge.
   */
  afterMs(request: FleetRequest, upstream: Upstream, readClass: ReadClass | undefined): number | undefined {
    const timed = request.isLook === true ? 'look' : readClass;
    const quantile = this.#limits?.quantile ?? 1;
    const { upstreams } = this.#fleet;
    if (quantile >= 1 || timed === undefined || !isHedgeable(request) || upstreams.length < 2) return undefined;
    const nowMs = performance.now();
    const usualMsOf = ({ latencies }: Upstream) => latencies[timed].quantile(quantile, nowMs);
    const usualMs = usualMsOf(upstream) ?? Math.max(...upstreams.map((other) => usualMsOf(other) ?? 0));
    return usualMs === 0 ? undefined : Math.max(soonestMs, usualMs);
  }
}

/** Whether a hedge is safe and useful: no submission, no long poll. */
function isHedgeable({ isIdempotent, atOnce }: FleetRequest): boolean {
  return isIdempotent && atOnce === undefined;
}
