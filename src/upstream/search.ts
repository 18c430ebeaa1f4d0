/**
 * One request on its way through the fleet: who is asked, who is asked beside them, and what is made of what they say,
 * all within one attempt budget and one deadline.
 */
import { performance } from 'node:perf_hooks';
import type { SenderMetrics } from '../metrics/sender-metrics.ts';
import type { UpstreamMetrics } from '../metrics/upstream-metrics.ts';
import type { StopSignal } from '../ledger/stop.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import { hasArrived, nearest, stepAfter } from './arrival.ts';
import { attemptSpan, type Reason } from './attempt-span.ts';
import type { Admission, Place } from './admission.ts';
import { isStateRead, type Attempts, type Fetch } from './attempt.ts';
import type { Background } from './background.ts';
import { Bound } from './bound.ts';
import { conclude } from './conclusion.ts';
import { Course, type Setback } from './course.ts';
import type { NodeAnswer, StreamedAnswer } from './exchange.ts';
import type { Fleet } from './fleet.ts';
import { withHedge, type Raced, type Run } from './hedge.ts';
import type { HedgeTimes } from './hedge-times.ts';
import type { Outliers } from './outliers.ts';
import { readClassOf, type ReadClass } from './read-class.ts';
import type { FleetRequest, SendLimits } from './sender.ts';
import type { TrafficShare } from './traffic-share.ts';
import type { Upstream } from './upstream.ts';
import { isKnownToHold, knownNodes, usefulNodes, type Known } from './useful.ts';

/** What all searches share. */
export interface Means {
  readonly fleet: Fleet;
  readonly limits: SendLimits;
  readonly metrics: UpstreamMetrics & SenderMetrics;
  readonly attempts: Attempts;
  readonly admission: Admission;
  readonly retries: TrafficShare;
  readonly hedges: HedgeTimes;
  readonly outliers: Outliers;
  readonly background: Background;
  /** Looks at the heads of all nodes; `undefined`: that has just been done. */
  readonly lookAround: (() => Promise<void> | undefined) | undefined;
}

/** What one is about. */
export interface Asking<A> {
  readonly request: FleetRequest;
  readonly fetch: Fetch<A>;
  /** The answer is handed on as it comes. */
  readonly isStreamed: boolean;
  readonly signal: StopSignal;
}

/** Heads do not come this much nearer within a wait: such a version is asked for straight away. */
const reachableVersions = 1_000_000n;
/** As long as a probe takes at most: a node that cannot tell its ledger in this time answers nothing else either. */
const longestTrialMs = 2_000;
/** A client with this name is the gateway itself: no address and no tenant is called so. */
const ownName = '(gateway)';

export class Search<A extends NodeAnswer | StreamedAnswer> {
  readonly #means: Means;
  readonly #asking: Asking<A>;
  readonly #course: Course;
  readonly #readClass: ReadClass | undefined;

  constructor(means: Means, asking: Asking<A>) {
    const nowMs = performance.now();
    this.#means = means;
    this.#asking = asking;
    this.#course = new Course(nowMs + boundMs(means, asking.request));
    this.#readClass = classOf(means.fleet, asking.request, nowMs);
    means.retries.earn();
    means.hedges.earn(asking.request);
  }

  /** Asks until there is a final answer, or nobody is left that has more to say. Throws `GatewayError`. */
  async run(): Promise<A | NodeAnswer> {
    const { request, signal } = this.#asking;
    const course = this.#course;
    const { need } = request;
    if (need.kind === 'head' && need.isExact === true) await this.#means.lookAround?.();
    while (course.attempts < this.#means.limits.maxAttempts + (course.isRepeating ? 1 : 0)) {
      const nodes = this.#useful();
      if (this.#leftMs <= 0 || signal.aborted || !this.#mayAsk(nodes)) break;
      const place = this.#freePlaceAt(nodes) ?? (await this.#placeAt(nodes));
      if (place === undefined) break;
      request.onPlace?.();
      const raced = await this.#attempt(place);
      const answer = this.#take(raced);
      if (answer !== undefined) return answer;
      const last = raced.ended.at(-1);
      if (last === undefined || last.outcome.verdict === 'final') break;
      if (!request.isIdempotent && last.outcome.mayHaveArrived) break;
      if (!(await this.#mayGoOn(last.run.upstream, last.outcome.verdict))) break;
    }
    return conclude(this.#means.fleet, request.need, course, signal);
  }

  get #leftMs(): number {
    return this.#course.deadlineAtMs - performance.now();
  }

  #known(): Known[] {
    const { need, isLook } = this.#asking.request;
    // A look tells which version reads are pinned to: better one that nodes hold which answer reads.
    const readClass = isLook === true ? 'head' : this.#readClass;
    return knownNodes(this.#means.fleet, need, performance.now(), readClass);
  }

  /** The nodes to ask next, all as good as each other; best first. */
  #useful(): readonly Known[] {
    const isLast = this.#course.attempts > 0 && this.#course.attempts >= this.#means.limits.maxAttempts - 1;
    return usefulNodes(this.#known(), this.#asking.request.need, this.#course, isLast);
  }

  /** A retry of what has failed must be earned by other requests: when everything fails, nodes are not asked thrice. */
  #mayAsk([best]: readonly Known[]): boolean {
    const { hasFailed, isNotNow } = this.#course;
    if (best === undefined) return false;
    // With every node refusing, all are deferred, and going on from one to the next must be earned as well.
    if (!hasFailed || (isNotNow && best.isDeferred !== true)) return true;
    const may = this.#means.retries.spend(performance.now());
    this.#means.metrics.retry(may ? 'sent' : 'refused');
    return may;
  }

  /** Looks and long polls take no place: a node works on neither for long. */
  #freePlaceAt(nodes: readonly Known[]): Place | undefined {
    const { request, isStreamed } = this.#asking;
    const [best] = nodes;
    if (best === undefined) return undefined;
    if (request.isLook === true || request.atOnce !== undefined)
      return { upstream: best.upstream, leave: () => undefined };
    return this.#means.admission.enterFree(nodes, isStreamed);
  }

  async #placeAt(nodes: readonly Known[]): Promise<Place | undefined> {
    const { request, isStreamed, signal } = this.#asking;
    if (nodes.length === 0) return undefined;
    const { client = ownName } = request;
    const place = await this.#means.admission.enter(nodes, { client, signal, withinMs: this.#leftMs, isStreamed });
    if (typeof place === 'object') return place;
    this.#course.crowded = client;
    if (!signal.aborted) this.#means.metrics.refused(place);
    return undefined;
  }

  /** One attempt at the node of `place`, and a hedge beside it where that is worth while. */
  #attempt(place: Place): Promise<Raced<A>> {
    const first = this.#run(place, reasonOf(this.#course));
    const afterMs = this.#means.hedges.afterMs(this.#asking.request, place.upstream, this.#readClass);
    return withHedge(first, afterMs, () => {
      const hedge = this.#placeForHedge();
      return hedge === undefined ? undefined : this.#run(hedge, 'hedge');
    });
  }

  #placeForHedge(): Place | undefined {
    const { request, isStreamed, signal } = this.#asking;
    const { limits, hedges, admission, metrics } = this.#means;
    if (this.#course.attempts >= limits.maxAttempts || this.#leftMs <= 0 || signal.aborted) return undefined;
    const nodes = this.#useful();
    // One that is passed over, or only perhaps holds what is asked for, is no help.
    if (nodes[0] === undefined || !hedges.isWorthAsking(nodes[0], request.need)) return undefined;
    const place =
      request.isLook === true
        ? { upstream: nodes[0].upstream, leave: () => undefined }
        : admission.enterFree(nodes, isStreamed);
    if (place === undefined) return undefined;
    if (!hedges.spend(request)) {
      place.leave();
      metrics.hedge('refused');
      return undefined;
    }
    return place;
  }

  #run({ upstream, leave }: Place, reason: Reason): Run<A> {
    const { request, fetch, signal } = this.#asking;
    const { limits, attempts } = this.#means;
    const span = attemptSpan(request, { upstream, reason, number: this.#course.attempts });
    this.#course.ask(upstream);
    // A node may answer looks and go on refusing the rest.
    if (request.isLook !== true) upstream.deferral.asked(performance.now());
    const longestMs = upstream.health === 'down' && request.isIdempotent ? longestTrialMs : limits.timeoutMs;
    const timeoutMs = Math.max(0, Math.min(request.timeoutMs ?? Infinity, limits.timeoutMs, longestMs, this.#leftMs));
    const bound = new Bound(signal, timeoutMs);
    return {
      upstream,
      sentAtMs: performance.now(),
      outcome: attempts.make(request, fetch, upstream, { bound, readClass: this.#readClass, onWorked: leave, span }),
      cancel: () => bound.giveUp(new Error('another node has answered')),
    };
  }

  /** Notes what the attempts came to. Returns the answer, if one of them was final. */
  #take({ ended, hedge, cancelled }: Raced<A>): A | undefined {
    const { hedges, metrics } = this.#means;
    const course = this.#course;
    for (const { run, outcome } of ended) {
      if (outcome.verdict !== 'final') {
        course.take(outcome, run.upstream, run.sentAtMs);
        continue;
      }
      if (cancelled !== undefined && hedge === run) {
        course.failures.push({ upstream: cancelled.upstream, sign: 'outpaced', sentAtMs: cancelled.sentAtMs });
        hedges.outpaced(cancelled, this.#readClass);
      }
      if (hedge !== undefined) metrics.hedge(hedge === run ? 'won' : 'lost');
      if (course.sawPruned) metrics.prunedRepaired.inc();
      this.#compare(run.upstream);
      return outcome.answer;
    }
    if (hedge !== undefined) metrics.hedge('failed');
    return undefined;
  }

  /** What others did worse than the node that answered is held against them; who is passed over may be tried again. */
  #compare(answering: Upstream): void {
    const { outliers, background } = this.#means;
    if (this.#readClass === undefined) return;
    outliers.blame(this.#readClass, this.#course.failures);
    background.tryOut(this.#asking.request, this.#asking.fetch, this.#readClass, answering);
  }

  /** Whether asking on makes sense after what `upstream` came to. Waits where a node is about to have the version. */
  async #mayGoOn(upstream: Upstream, verdict: Setback['verdict']): Promise<boolean> {
    const { need } = this.#asking.request;
    const course = this.#course;
    if (verdict !== 'behind' && verdict !== 'failed') return true;
    // Nobody waits for a block.
    if (need.kind === 'block') return verdict === 'failed' || isKnownToHold(this.#known(), need.height, course.asked);
    const version = need.kind === 'version' ? need.version : need.kind === 'head' ? need.min : undefined;
    const head = this.#means.fleet.head?.version;
    if (version === undefined || head === undefined) return true;
    if (version > head + reachableVersions) return verdict === 'failed';
    const mayWait = performance.now() < (course.waitUntilMs ?? Infinity);
    const mayRepeat = course.attempts < this.#means.limits.maxAttempts - 1;
    const step = stepAfter(this.#known(), upstream, { version, course, mayWait, mayRepeat });
    if (step === 'again') {
      course.hasRepeated = true;
      course.repeat(upstream);
    } else if (step === 'wait') await this.#await(version);
    return step !== 'end';
  }

  /**
   * Waits until a node that can answer has got to the version; those that were asked too early are asked once more. In
   * vain: the nearest has the last word, for its head may have moved without anybody telling.
   */
  async #await(version: LedgerVersion): Promise<void> {
    const { fleet, limits } = this.#means;
    const course = this.#course;
    course.waitUntilMs ??= performance.now() + limits.waitForVersionMs;
    const waitMs = Math.min(course.waitUntilMs - performance.now(), this.#leftMs);
    const arrived = (upstream: Upstream): boolean => hasArrived(upstream, version, course);
    const isReached = await fleet.waitForVersion(version, waitMs, this.#asking.signal, arrived);
    const early = [...course.asked].filter(arrived);
    const last = isReached ? undefined : nearest(this.#known());
    for (const upstream of last === undefined ? early : [last]) course.repeat(upstream);
    // The node that was waited for may be one that was not asked.
    course.isRepeating = true;
    if (!isReached) course.waitUntilMs = -Infinity;
  }
}

/** Why the next node is asked. */
function reasonOf({ attempts, isRepeating, last }: Course): Reason {
  if (attempts === 0 || last === undefined) return 'first choice';
  return isRepeating && last === 'behind' ? 'again after waiting' : follows[last];
}

const follows: Readonly<Record<Setback['verdict'], Reason>> = {
  failed: 'retry',
  pruned: 'pruned elsewhere',
  behind: 'behind elsewhere',
  absent: 'absent elsewhere',
  refused: 'refused elsewhere',
};

/** With every node known to be gone, a request waits no longer than the probes that will find one again. */
function boundMs({ limits, fleet }: Means, { isIdempotent }: FleetRequest): number {
  const { deadlineMs, timeoutMs } = limits;
  const isHopeless = isIdempotent && fleet.outageSinceMs !== undefined;
  return isHopeless ? Math.min(deadlineMs, timeoutMs, longestTrialMs) : deadlineMs;
}

function classOf({ upstreams }: Fleet, request: FleetRequest, nowMs: number): ReadClass | undefined {
  return isStateRead(request) ? readClassOf(request.need, request.isView === true, upstreams, nowMs) : undefined;
}
