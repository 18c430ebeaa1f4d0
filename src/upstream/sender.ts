/**
 * Sends one request to the fleet: picks a node, judges its answer, goes on to the next while it makes sense, and asks a
 * second one beside the first where that takes unusually long; all within one attempt budget and one deadline.
 */
import { performance } from 'node:perf_hooks';
import type { SenderMetrics } from '../metrics/sender-metrics.ts';
import type { UpstreamMetrics } from '../metrics/upstream-metrics.ts';
import { Admission, type Place } from './admission.ts';
import { Attempts, isStateRead, type AttemptParts, type Fetch } from './attempt.ts';
import { Background, type Another } from './background.ts';
import { Bound } from './bound.ts';
import { conclude } from './conclusion.ts';
import { Course } from './course.ts';
import {
  fetchWhole,
  type ExchangeContext,
  type NodeAnswer,
  type StreamedAnswer,
  type WireRequest,
} from './exchange.ts';
import type { Promised } from './answer-fault.ts';
import type { Fleet } from './fleet.ts';
import { withHedge, type Raced, type Run } from './hedge.ts';
import { HedgeTimes, type HedgeLimits } from './hedge-times.ts';
import { fetchStream, onceClosed, readWhole } from './node-stream.ts';
import { Outliers } from './outliers.ts';
import { readClassOf, type ReadClass } from './read-class.ts';
import { alternatives, type Need } from './select.ts';
import { TrafficShare } from './traffic-share.ts';
import type { Upstream } from './upstream.ts';
import { isKnownToHold, knownNodes, usefulNodes, type Known } from './useful.ts';

export interface FleetRequest {
  readonly wire: WireRequest;
  readonly need: Need;
  /** Whether asking twice does no harm. A submission is never sent again once bytes of it may have left. */
  readonly isIdempotent: boolean;
  /** What a success has to be; another node is asked instead of one that answers otherwise. Absent: anything. */
  readonly promised?: Promised | undefined;
  /** It runs code that the client chose. */
  readonly isView?: boolean;
  /** For whom it is: whoever waits for a node waits for others of the same client first. Default: the gateway itself. */
  readonly client?: string;
  /** Bound of one attempt where it is shorter than usual. */
  readonly timeoutMs?: number;
  /** A look at the ledger info, which everybody waits for: it goes past the requests that wait for a connection. */
  readonly isLook?: boolean;
  /** A long poll: what is asked instead, and answered at once, where too many hold a node's connections already. */
  readonly atOnce?: WireRequest | undefined;
}

export interface SendLimits {
  /** Bound of one attempt, until the answer's headers (streamed) or its end (whole). */
  readonly timeoutMs: number;
  /** Bound of all attempts together. */
  readonly deadlineMs: number;
  /** Of one request, hedges and retries included. */
  readonly maxAttempts: number;
  /** How long a version above every head is waited for. */
  readonly waitForVersionMs: number;
  /** A streamed answer ends when its client takes nothing of it for this long. */
  readonly stallMs: number;
  /** Retries of failed attempts, in parts of all requests. Default 0.2. */
  readonly retryShare?: number;
  /** Absent: no attempt is begun before the one before has failed. */
  readonly hedge?: HedgeLimits | undefined;
}

export interface UpstreamLog {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/** Heads do not come this much nearer within a wait: such a version is asked for straight away. */
const reachableVersions = 1_000_000n;
/** A quiet gateway may retry so often; a burst is what fails at once when a busy node dies. */
const retries = { share: 0.2, perSecond: 10, most: 500 };
/** As long as a probe takes at most: a node that cannot tell its ledger in this time answers nothing else either. */
const longestTrialMs = 2_000;
/** A client with this name is the gateway itself: no address and no tenant is called so. */
const ownName = '(gateway)';

export interface SenderParts extends Omit<AttemptParts, 'metrics'> {
  readonly limits: SendLimits;
  readonly metrics: UpstreamMetrics & SenderMetrics;
}

export class Sender {
  readonly #fleet: Fleet;
  readonly #limits: SendLimits;
  readonly #metrics: UpstreamMetrics & SenderMetrics;
  readonly #attempts: Attempts;
  readonly #admission = new Admission();
  readonly #retries: TrafficShare;
  readonly #hedges: HedgeTimes;
  readonly #outliers: Outliers;
  readonly #background: Background;

  constructor(parts: SenderParts) {
    const { fleet, limits, metrics, log } = parts;
    this.#fleet = fleet;
    this.#limits = limits;
    this.#metrics = metrics;
    this.#attempts = new Attempts(parts);
    this.#retries = new TrafficShare({ ...retries, share: limits.retryShare ?? retries.share });
    this.#hedges = new HedgeTimes(limits.hedge, fleet);
    this.#outliers = new Outliers({ fleet, metrics, log });
    const { timeoutMs } = limits;
    this.#background = new Background({ fleet, timeoutMs, attempts: this.#attempts, outliers: this.#outliers });
  }

  /** Requests that wait for a place at a node now. */
  get waiting(): number {
    return this.#admission.waiting;
  }

  /** Ends what goes on in the background. */
  close(): void {
    this.#background.close();
  }

  /**
   * Asks the fleet and reads the whole answer: the best that nodes had to say, their own errors included. Throws
   * `GatewayError` when no node gave an answer worth passing on.
   */
  whole(request: FleetRequest, signal: AbortSignal): Promise<NodeAnswer> {
    const { wire, atOnce, isLook } = request;
    const fetch: Fetch<NodeAnswer> = (upstream, context) =>
      atOnce === undefined
        ? fetchWhole(upstream, wire, context, isLook === true ? upstream.lookPool : upstream.pool)
        : fetchPoll(upstream, wire, atOnce, context);
    return this.#send(this.#begin(request, false, signal), fetch);
  }

  /** Asks one node beside those in `notOf`, in the background: see `Background.another`. */
  another(request: FleetRequest, notOf: readonly Upstream[], signal: AbortSignal): Promise<Another> {
    return this.#background.another(request, notOf, signal);
  }

  /** As `whole`, but a successful answer is handed on while it comes. */
  stream(request: FleetRequest, signal: AbortSignal): Promise<NodeAnswer | StreamedAnswer> {
    const { deadlineMs: idleMs, stallMs } = this.#limits;
    const fetch: Fetch<NodeAnswer | StreamedAnswer> = async (upstream, context) => {
      const answer = await fetchStream(upstream, request.wire, { ...context, idleMs, stallMs });
      onceClosed(answer.stream, () => this.#admission.offer(upstream));
      return answer.status < 300 ? answer : readWhole(answer, context.budget);
    };
    return this.#send(this.#begin(request, true, signal), fetch);
  }

  #begin(request: FleetRequest, isStreamed: boolean, signal: AbortSignal): Search {
    this.#retries.earn();
    this.#hedges.earn(request);
    const course = new Course(performance.now() + this.#boundMs(request));
    return { request, isStreamed, course, signal, readClass: this.#classOf(request) };
  }

  async #send<A extends NodeAnswer | StreamedAnswer>(search: Search, fetch: Fetch<A>): Promise<A | NodeAnswer> {
    const { request, course, signal } = search;
    while (course.attempts < this.#limits.maxAttempts || course.isRepeating) {
      const nodes = usefulNodes(this.#known(search), request.need, course);
      if (nodes.length === 0 || leftMs(course) <= 0 || signal.aborted || !this.#mayRetry(course)) break;
      const place = await this.#placeFor(search, alternatives(nodes, request.need));
      if (place === undefined) break;
      const raced = await this.#attempt(search, fetch, place);
      const answer = this.#take(search, fetch, raced);
      if (answer !== undefined) return answer;
      const last = raced.ended.at(-1);
      if (last === undefined || last.outcome.verdict === 'final') break;
      if (!request.isIdempotent && last.outcome.mayHaveArrived) break;
      if (last.outcome.verdict === 'behind' && !(await this.#mayGetThere(search, last.run.upstream))) break;
    }
    return conclude(this.#fleet, request.need, course, signal);
  }

  #classOf(request: FleetRequest): ReadClass | undefined {
    if (!isStateRead(request)) return undefined;
    return readClassOf(request.need, request.isView === true, this.#fleet.upstreams, performance.now());
  }

  #known({ request, readClass }: Search): Known[] {
    return knownNodes(this.#fleet, request.need, performance.now(), readClass);
  }

  /** A retry of what has failed must be earned by other requests: when everything fails, nodes are not asked thrice. */
  #mayRetry(course: Course): boolean {
    if (!course.hasFailed) return true;
    const may = this.#retries.spend(performance.now());
    this.#metrics.retry(may ? 'sent' : 'refused');
    return may;
  }

  /** Looks and long polls take no place: a node works on neither for long. */
  async #placeFor(
    { request, isStreamed, course, signal }: Search,
    nodes: readonly Known[],
  ): Promise<Place | undefined> {
    const [best] = nodes;
    if (best === undefined) return undefined;
    if (request.isLook === true || request.atOnce !== undefined)
      return { upstream: best.upstream, leave: () => undefined };
    const { client = ownName } = request;
    const place = await this.#admission.enter(nodes, { client, signal, withinMs: leftMs(course), isStreamed });
    if (typeof place === 'object') return place;
    course.refused = place;
    if (!signal.aborted) this.#metrics.refused(place);
    return undefined;
  }

  /** One attempt at the node of `place`, and a hedge beside it where that is worth while. */
  #attempt<A extends NodeAnswer | StreamedAnswer>(search: Search, fetch: Fetch<A>, place: Place): Promise<Raced<A>> {
    const first = this.#run(search, fetch, place);
    const afterMs = this.#hedges.afterMs(search.request, place.upstream, search.readClass);
    return withHedge(first, afterMs, () => {
      const hedge = this.#placeForHedge(search);
      return hedge === undefined ? undefined : this.#run(search, fetch, hedge);
    });
  }

  #placeForHedge(search: Search): Place | undefined {
    const { request, isStreamed, course, signal } = search;
    if (course.attempts >= this.#limits.maxAttempts || leftMs(course) <= 0 || signal.aborted) return undefined;
    const nodes = alternatives(usefulNodes(this.#known(search), request.need, course), request.need);
    // One that is passed over, or only perhaps holds what is asked for, is no help.
    if (nodes[0] === undefined || !this.#hedges.isWorthAsking(nodes[0], request.need)) return undefined;
    const place =
      request.isLook === true
        ? { upstream: nodes[0].upstream, leave: () => undefined }
        : this.#admission.enterFree(nodes, isStreamed);
    if (place === undefined) return undefined;
    if (!this.#hedges.spend(request)) {
      place.leave();
      this.#metrics.hedge('refused');
      return undefined;
    }
    return place;
  }

  #run<A extends NodeAnswer | StreamedAnswer>(
    { request, course, signal, readClass }: Search,
    fetch: Fetch<A>,
    { upstream, leave }: Place,
  ): Run<A> {
    course.ask(upstream);
    const { timeoutMs: usualMs } = this.#limits;
    const timeoutMs = Math.max(0, Math.min(request.timeoutMs ?? usualMs, usualMs, leftMs(course)));
    const bound = new Bound(signal, timeoutMs);
    return {
      upstream,
      sentAtMs: performance.now(),
      outcome: this.#attempts.make(request, fetch, upstream, { bound, readClass, onWorked: leave }),
      cancel: () => bound.giveUp(new Error('another node has answered')),
    };
  }

  /** Notes what the attempts came to. Returns the answer, if one of them was final. */
  #take<A extends NodeAnswer | StreamedAnswer>(
    search: Search,
    fetch: Fetch<A>,
    { ended, hedge, cancelled }: Raced<A>,
  ): A | undefined {
    const { course, readClass } = search;
    for (const { run, outcome } of ended) {
      if (outcome.verdict !== 'final') {
        course.take(outcome, run.upstream, run.sentAtMs);
        continue;
      }
      if (cancelled !== undefined && hedge === run) {
        course.failures.push({ upstream: cancelled.upstream, sign: 'outpaced', sentAtMs: cancelled.sentAtMs });
        this.#hedges.outpaced(cancelled, readClass);
      }
      if (hedge !== undefined) this.#metrics.hedge(hedge === run ? 'won' : 'lost');
      if (course.sawPruned) this.#metrics.prunedRepaired.inc();
      if (readClass !== undefined) {
        this.#outliers.blame(readClass, course.failures, run.upstream);
        this.#background.tryOut(search.request, fetch, readClass, run.upstream);
      }
      return outcome.answer;
    }
    if (hedge !== undefined) this.#metrics.hedge('failed');
    return undefined;
  }

  /** With every node known to be gone, a request waits no longer than the probes that will find one again. */
  #boundMs({ isIdempotent }: FleetRequest): number {
    const { deadlineMs, timeoutMs } = this.#limits;
    const isHopeless = isIdempotent && this.#fleet.outageSinceMs !== undefined;
    return isHopeless ? Math.min(deadlineMs, timeoutMs, longestTrialMs) : deadlineMs;
  }

  /**
   * A node has not got to the version yet. When none is known that has, that is waited for, and the node is asked once
   * more: its head may have moved without anybody telling. Returns whether asking on makes sense.
   */
  async #mayGetThere(search: Search, upstream: Upstream): Promise<boolean> {
    const { course, signal } = search;
    const { need } = search.request;
    if (need.kind === 'block') return isKnownToHold(this.#known(search), need.height, course.asked);
    const version = need.kind === 'version' ? need.version : need.kind === 'head' ? need.min : undefined;
    const head = this.#fleet.head?.version;
    if (version === undefined || head === undefined) return true;
    if (version > head + reachableVersions) return false;
    if (course.wait !== undefined) return course.wait === 'reached';
    const waitMs = Math.min(this.#limits.waitForVersionMs, leftMs(course));
    const isReached = await this.#fleet.waitForVersion(version, waitMs, signal);
    course.wait = isReached ? 'reached' : 'vain';
    // Who was behind while another node had the version all the time has nothing to add.
    if (!isReached || (upstream.window.info?.version ?? 0n) >= version) course.repeat(upstream);
    return true;
  }
}

/** One request on its way through the fleet. */
interface Search {
  readonly request: FleetRequest;
  /** The answer is handed on as it comes. */
  readonly isStreamed: boolean;
  readonly course: Course;
  readonly signal: AbortSignal;
  readonly readClass: ReadClass | undefined;
}

function leftMs({ deadlineAtMs }: Course): number {
  return deadlineAtMs - performance.now();
}

/** Nodes do the same with more long polls than they take (protocol 1, row 19). */
async function fetchPoll(
  upstream: Upstream,
  poll: WireRequest,
  atOnce: WireRequest,
  context: ExchangeContext,
): Promise<NodeAnswer> {
  const giveBack = upstream.polls.takeFree();
  if (giveBack === undefined) return fetchWhole(upstream, atOnce, context);
  return fetchWhole(upstream, poll, context).finally(giveBack);
}
