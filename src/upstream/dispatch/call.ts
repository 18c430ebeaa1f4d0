/** One request on its way through the fleet: attempts at one node after another, within one budget and one deadline. */
import { performance } from 'node:perf_hooks';
import { Deadline, type CancelSignal } from '../../ledger/stop.ts';
import type { LedgerVersion } from '../../ledger/version.ts';
import type { SenderMetrics } from '../../metrics/sender-metrics.ts';
import type { UpstreamMetrics } from '../../metrics/upstream-metrics.ts';
import { isStateRead, type Attempts, type Fetch } from './attempt.ts';
import {
  AttemptHistory,
  hasArrived,
  nearest,
  reasonOf,
  stepAfter,
  type AttemptReason,
  type NonFinalOutcome,
} from './attempt-history.ts';
import { attemptSpan } from './attempt-recorder.ts';
import { nextNodes, readClassOf, unitOf, type NodeCandidate } from '../select/candidates.ts';
import type { NodeAnswer, StreamedAnswer } from './exchange.ts';
import { chooseFinalAnswer } from './final-answer.ts';
import type { Fleet } from '../fleet.ts';
import type { FleetRequest, SendLimits } from './fleet-request.ts';
import { withHedge, type Hedging, type RaceResult, type RunningAttempt } from './hedge.ts';
import type { RetryBudget } from '../node/limits.ts';
import { positionOf, type Need, type ReadClass } from '../select/need.ts';
import type { Outliers } from './outliers.ts';
import type { Permit, PermitKind, PlaceQueue } from './queue.ts';
import { holdingOf, trustRank } from '../select/ranking.ts';
import type { Upstream } from '../node/upstream.ts';

/** State that all calls share. */
export interface DispatchContext {
  readonly fleet: Fleet;
  readonly limits: SendLimits;
  readonly metrics: UpstreamMetrics & SenderMetrics;
  readonly attempts: Attempts;
  readonly queue: PlaceQueue;
  readonly retries: RetryBudget;
  readonly hedging: Hedging;
  readonly outliers: Outliers;
  /** Looks at the heads of all nodes; `undefined`: that has just been done. */
  readonly lookAround: (() => Promise<void> | undefined) | undefined;
}

/** One call. */
export interface CallOptions<A> {
  readonly request: FleetRequest;
  readonly fetch: Fetch<A>;
  /** The answer is handed on as it comes. */
  readonly isStreamed: boolean;
  readonly signal: CancelSignal;
}

/** Heads do not come this much nearer within a wait: such a version is asked for straight away. */
const reachableVersions = 1_000_000n;
/** Bound of an attempt at a node that is down, and of a probe: one that cannot report its ledger answers nothing else. */
const longestTrialMs = 2_000;
/** Client of the gateway's own requests: no address and no tenant has this name. */
const ownName = '(gateway)';

/** Asks until there is a final answer, or no node has more to add. Throws `GatewayError`. */
export function callFleet<A extends NodeAnswer | StreamedAnswer>(
  context: DispatchContext,
  options: CallOptions<A>,
): Promise<A | NodeAnswer> {
  return new FleetCall(context, options).run();
}

/** The nodes of the fleet's chain. `readClass`: the class they may be ejected for; absent: for none. */
export function nodesFor(fleet: Fleet, need: Need, readClass?: ReadClass): readonly NodeCandidate<Upstream>[] {
  const nodes = fleet.candidates(performance.now(), unitOf(need), readClass);
  return nodes.filter(({ health }) => health !== 'foreign');
}

class FleetCall<A extends NodeAnswer | StreamedAnswer> {
  readonly #context: DispatchContext;
  readonly #options: CallOptions<A>;
  readonly #history = new AttemptHistory();
  readonly #readClass: ReadClass | undefined;
  readonly #permitKind: PermitKind;
  /** In ms of `performance.now()`. */
  readonly #deadlineAtMs: number;

  constructor(context: DispatchContext, options: CallOptions<A>) {
    const { request, isStreamed } = options;
    const { fleet, limits } = context;
    const nowMs = performance.now();
    this.#context = context;
    this.#options = options;
    // Looks and long polls take no place: a node works on neither for long.
    if (request.isLook === true) this.#permitKind = 'look';
    else if (request.atOnce !== undefined) this.#permitKind = 'poll';
    else this.#permitKind = isStreamed ? 'stream' : 'read';
    this.#readClass = isStateRead(request)
      ? readClassOf(request.need, request.isView === true, fleet.upstreams, nowMs)
      : undefined;
    // With every node known to be gone, a request waits no longer than the probes that will find one again.
    const isHopeless = request.isIdempotent && fleet.outageSinceMs !== undefined;
    const { deadlineMs, timeoutMs } = limits;
    this.#deadlineAtMs = nowMs + (isHopeless ? Math.min(deadlineMs, timeoutMs, longestTrialMs) : deadlineMs);
    context.retries.deposit();
    context.hedging.deposit(request);
  }

  async run(): Promise<A | NodeAnswer> {
    const { request, signal } = this.#options;
    const { fleet, limits, lookAround } = this.#context;
    const { need, onPlace } = request;
    const history = this.#history;
    if (need.kind === 'head' && need.isExact === true) await lookAround?.();
    while (history.attempts < limits.maxAttempts + (history.isRepeating ? 1 : 0)) {
      const nodes = this.#nextNodes();
      if (this.#leftMs <= 0 || signal.aborted || !this.#mayAsk(nodes)) break;
      const permit = this.#tryAcquire(nodes) ?? (await this.#acquire(nodes));
      if (permit === undefined) break;
      onPlace?.();
      const raced = await this.#attempt(permit);
      const answer = this.#record(raced);
      if (answer !== undefined) return answer;
      const last = raced.ended.at(-1);
      if (last === undefined || last.outcome.kind === 'final') break;
      if (!request.isIdempotent && last.outcome.mayHaveArrived) break;
      if (!(await this.#mayGoOn(last.run.upstream, last.outcome.kind))) break;
    }
    return chooseFinalAnswer({ fleet, need, nodes: nodesFor(fleet, need), history }, signal);
  }

  get #leftMs(): number {
    return this.#deadlineAtMs - performance.now();
  }

  #nodes(): readonly NodeCandidate<Upstream>[] {
    const { need, isLook } = this.#options.request;
    // A look chooses the version that reads are pinned to: better one of a node that answers reads.
    return nodesFor(this.#context.fleet, need, isLook === true ? 'head' : this.#readClass);
  }

  #nextNodes(): readonly NodeCandidate<Upstream>[] {
    const { attempts } = this.#history;
    const isLast = attempts > 0 && attempts >= this.#context.limits.maxAttempts - 1;
    return nextNodes(this.#nodes(), this.#options.request.need, this.#history, isLast);
  }

  /** A retry of what has failed must be within its budget: when every node fails, none gets each request three times. */
  #mayAsk([best]: readonly NodeCandidate<Upstream>[]): boolean {
    const { last } = this.#history;
    if (best === undefined) return false;
    // With every node shedding, all are deferred, and going on from one to the next is a retry as well.
    if (last?.kind !== 'failed' || (last.isShed === true && best.isDeferred !== true)) return true;
    const may = this.#context.retries.withdraw(performance.now());
    this.#context.metrics.retry(may ? 'sent' : 'refused');
    return may;
  }

  #tryAcquire(nodes: readonly NodeCandidate<Upstream>[]): Permit | undefined {
    const { queue } = this.#context;
    const kind = this.#permitKind;
    if (kind === 'read' || kind === 'stream') return queue.tryAcquire(nodes, kind);
    return nodes[0] === undefined ? undefined : queue.acquireUnbounded(nodes[0].upstream, kind);
  }

  /** Waits for a place. */
  async #acquire(nodes: readonly NodeCandidate<Upstream>[]): Promise<Permit | undefined> {
    const { signal, isStreamed, request } = this.#options;
    const { queue, metrics } = this.#context;
    const { client = ownName } = request;
    const kind = isStreamed ? 'stream' : 'read';
    const permit = await queue.acquire(nodes, { client, signal, withinMs: this.#leftMs, kind });
    if (typeof permit === 'object') return permit;
    this.#history.queueFullFor = client;
    if (!signal.aborted) metrics.refused(permit);
    return undefined;
  }

  /** One attempt, and a hedge beside it where that is worth while. */
  #attempt(permit: Permit): Promise<RaceResult<A>> {
    const first = this.#run(permit, reasonOf(this.#history));
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
    if (this.#history.attempts >= limits.maxAttempts || this.#leftMs <= 0 || signal.aborted) return undefined;
    const nodes = this.#nextNodes();
    // A node that is passed over, or only perhaps holds what is asked for, is no help.
    if (nodes[0] === undefined || !isSureOf(nodes[0], request.need)) return undefined;
    const permit = this.#tryAcquire(nodes);
    if (permit === undefined || hedging.withdraw(request)) return permit;
    permit.close();
    metrics.hedge('refused');
    return undefined;
  }

  #run(permit: Permit, reason: AttemptReason): RunningAttempt<A> {
    const { request, fetch, signal } = this.#options;
    const { limits, attempts } = this.#context;
    const { upstream } = permit;
    const span = attemptSpan(request, upstream, reason, this.#history.attempts);
    this.#history.ask(upstream);
    // A node may answer looks and go on refusing the rest.
    if (request.isLook !== true) upstream.deferral.asked(performance.now());
    const longestMs = upstream.health === 'down' && request.isIdempotent ? longestTrialMs : limits.timeoutMs;
    const timeoutMs = Math.max(0, Math.min(request.timeoutMs ?? Infinity, limits.timeoutMs, longestMs, this.#leftMs));
    const deadline = new Deadline(signal, timeoutMs);
    return {
      upstream,
      sentAtMs: performance.now(),
      outcome: attempts.make(request, fetch, { permit, deadline, readClass: this.#readClass, span }),
      cancel: () => deadline.giveUp(new Error('another node has answered')),
    };
  }

  /** Records the outcomes. Returns the answer, if one of them was final. */
  #record({ ended, hedge, cancelled }: RaceResult<A>): A | undefined {
    const { metrics } = this.#context;
    const history = this.#history;
    for (const { run, outcome } of ended) {
      if (outcome.kind !== 'final') {
        history.record(outcome, run.upstream, run.sentAtMs);
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

  /** The hedge answered first: the other node took at least this long. */
  #recordOutpaced({ upstream, sentAtMs }: RunningAttempt<A>): void {
    const nowMs = performance.now();
    this.#history.failures.push({ upstream, sign: 'outpaced', sentAtMs });
    if (this.#readClass !== undefined) upstream.latencies[this.#readClass].record(nowMs - sentAtMs, nowMs);
    upstream.recordOutpaced(nowMs - sentAtMs, nowMs);
  }

  /** Nodes that failed what `answering` answered may be ejected, and ejected ones be tried. */
  #compare(answering: Upstream): void {
    const { outliers } = this.#context;
    if (this.#readClass === undefined) return;
    outliers.blame(this.#readClass, this.#history.failures);
    outliers.tryOut(this.#options.request, this.#options.fetch, this.#readClass, answering);
  }

  /** Whether another attempt makes sense after the setback at `upstream`. Waits where a node is about to arrive. */
  async #mayGoOn(upstream: Upstream, kind: NonFinalOutcome['kind']): Promise<boolean> {
    const { need } = this.#options.request;
    const { fleet, limits } = this.#context;
    const history = this.#history;
    if (kind !== 'behind' && kind !== 'failed') return true;
    // Blocks are not waited for: only a node that has reported the block is asked after one that has not.
    if (need.kind === 'block') return kind === 'failed' || this.#isReported(need.height);
    const version = need.kind === 'version' ? need.version : need.kind === 'head' ? need.min : undefined;
    const head = fleet.head?.version;
    if (version === undefined || head === undefined) return true;
    if (version > head + reachableVersions) return kind === 'failed';
    const mayWait = performance.now() < (history.waitUntilMs ?? Infinity);
    const mayRepeat = history.attempts < limits.maxAttempts - 1;
    const step = stepAfter(this.#nodes(), upstream, { version, history, mayWait, mayRepeat });
    if (step === 'again') {
      history.hasRepeated = true;
      history.repeat(upstream);
    } else if (step === 'wait') await this.#await(version);
    return step !== 'end';
  }

  #isReported(height: bigint): boolean {
    return this.#nodes().some(
      ({ upstream, window }) => !this.#history.asked.has(upstream) && window !== undefined && height <= window.head,
    );
  }

  /**
   * Waits until a node that can answer has got to the version; those that were asked too early are asked once more. In
   * vain: the nearest has the last word, for its head may have moved since its last report.
   */
  async #await(version: LedgerVersion): Promise<void> {
    const { fleet, limits } = this.#context;
    const history = this.#history;
    history.waitUntilMs ??= performance.now() + limits.waitForVersionMs;
    const waitMs = Math.min(history.waitUntilMs - performance.now(), this.#leftMs);
    const arrived = (upstream: Upstream): boolean => hasArrived(upstream, version, history);
    const isReached = await fleet.waiters.wait(version, waitMs, this.#options.signal, arrived);
    const early = [...history.asked].filter(arrived);
    const last = isReached ? undefined : nearest(this.#nodes());
    for (const upstream of last === undefined ? early : [last]) history.repeat(upstream);
    // The node that was waited for may be one that was not asked.
    history.isRepeating = true;
    if (!isReached) history.waitUntilMs = -Infinity;
  }
}

/** Whether a node is likely to answer, and at once. */
function isSureOf(node: NodeCandidate<Upstream>, need: Need): boolean {
  const position = positionOf(need);
  return trustRank(node) === 0 && (position === undefined || holdingOf(node.window, position) === 'held');
}
