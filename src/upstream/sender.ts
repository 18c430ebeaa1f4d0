/**
 * Sends one request to the fleet: picks a node, judges its answer, goes on to the next while it makes sense, all within
 * one attempt budget and one deadline.
 */
import { performance } from 'node:perf_hooks';
import { GatewayError } from '../ledger/errors.ts';
import type { UpstreamMetrics } from '../metrics/upstream-metrics.ts';
import { Attempts, type AttemptParts, type Fetch } from './attempt.ts';
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
import { fetchStream, readWhole } from './node-stream.ts';
import type { Unit } from './retention-window.ts';
import {
  deeperThan,
  deepest,
  holdingOf,
  positionOf,
  selectUpstreams,
  type Candidate,
  type Need,
  trustRank,
} from './select.ts';
import { errorCodeOf } from './verdict.ts';
import type { Upstream } from './upstream.ts';

export interface FleetRequest {
  readonly wire: WireRequest;
  readonly need: Need;
  /** Whether asking twice does no harm. A submission is never sent again once bytes of it may have left. */
  readonly isIdempotent: boolean;
  /** What a success has to be; another node is asked instead of one that answers otherwise. Absent: anything. */
  readonly promised?: Promised | undefined;
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
  readonly maxAttempts: number;
  /** How long a version above every head is waited for. */
  readonly waitForVersionMs: number;
  /** A streamed answer ends when its client takes nothing of it for this long. */
  readonly stallMs: number;
}

export interface UpstreamLog {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/** Heads do not come this much nearer within a wait: such a version is asked for straight away. */
const reachableVersions = 1_000_000n;

/** As long as a probe takes at most: a node that cannot tell its ledger in this time answers nothing else either. */
const longestTrialMs = 2_000;

export interface SenderParts extends AttemptParts {
  readonly limits: SendLimits;
}

export class Sender {
  readonly #fleet: Fleet;
  readonly #limits: SendLimits;
  readonly #metrics: UpstreamMetrics;
  readonly #attempts: Attempts;

  constructor(parts: SenderParts) {
    this.#fleet = parts.fleet;
    this.#limits = parts.limits;
    this.#metrics = parts.metrics;
    this.#attempts = new Attempts(parts);
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
    return this.#send(request, { fetch, isStreamed: false }, signal);
  }

  /**
   * Asks one node beside those in `notOf`, once: a usable one that surely holds what is asked for and has a connection
   * to spare. `no answer`: it gave none, or not the fleet's.
   */
  async another(
    request: FleetRequest,
    notOf: readonly Upstream[],
    signal: AbortSignal,
  ): Promise<NodeAnswer | 'no node' | 'no answer'> {
    const { need, wire } = request;
    const position = positionOf(need);
    if (position === undefined) return 'no node';
    const able = this.#candidates(unitOf(need)).filter(
      (node) =>
        !notOf.includes(node.upstream) &&
        trustRank(node) === 0 &&
        holdingOf(node.window, position) === 'held' &&
        !node.upstream.isBusy,
    );
    const [next] = selectUpstreams(able, need);
    if (next === undefined) return 'no node';
    const fetch: Fetch<NodeAnswer> = (upstream, context) => fetchWhole(upstream, wire, context);
    const { timeoutMs } = this.#limits;
    const outcome = await this.#attempts.make(request, fetch, next.upstream, { signal, timeoutMs });
    return outcome.verdict === 'final' ? outcome.answer : 'no answer';
  }

  /** As `whole`, but a successful answer is handed on while it comes. */
  stream(request: FleetRequest, signal: AbortSignal): Promise<NodeAnswer | StreamedAnswer> {
    const { deadlineMs: idleMs, stallMs } = this.#limits;
    const fetch: Fetch<NodeAnswer | StreamedAnswer> = async (upstream, context) => {
      const answer = await fetchStream(upstream, request.wire, { ...context, idleMs, stallMs });
      return answer.status < 300 ? answer : readWhole(answer, context.budget);
    };
    return this.#send(request, { fetch, isStreamed: true }, signal);
  }

  async #send<A extends NodeAnswer | StreamedAnswer>(
    request: FleetRequest,
    { fetch, isStreamed }: Way<A>,
    signal: AbortSignal,
  ): Promise<A | NodeAnswer> {
    const { need } = request;
    const course = new Course(performance.now() + this.#boundMs(request));
    while (course.attempts < this.#limits.maxAttempts || course.isRepeating) {
      const leftMs = course.deadlineAtMs - performance.now();
      const upstream = this.#next(need, course, isStreamed);
      if (upstream === undefined || leftMs <= 0 || signal.aborted) break;
      course.ask(upstream);
      const askedAtMs = performance.now();
      const timeoutMs = Math.min(request.timeoutMs ?? Infinity, this.#limits.timeoutMs, leftMs);
      const outcome = await this.#attempts.make(request, fetch, upstream, { signal, timeoutMs });
      if (outcome.verdict === 'final') {
        this.#attempts.blame(request, course.hung, upstream);
        if (course.sawPruned) this.#metrics.prunedRepaired.inc();
        return outcome.answer;
      }
      course.take(outcome);
      if (outcome.isHung === true) course.hung.set(upstream, askedAtMs);
      if (!request.isIdempotent && outcome.mayHaveArrived) break;
      if (outcome.verdict === 'behind' && !(await this.#mayGetThere(need, upstream, course, signal))) break;
    }
    return this.#conclude(need, course, signal);
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
  async #mayGetThere(need: Need, upstream: Upstream, course: Course, signal: AbortSignal): Promise<boolean> {
    if (need.kind === 'block') return this.#isKnownToHold(need.height, course.asked);
    const version = need.kind === 'version' ? need.version : need.kind === 'head' ? need.min : undefined;
    const head = this.#fleet.head?.version;
    if (version === undefined || head === undefined) return true;
    if (version > head + reachableVersions) return false;
    if (course.wait !== undefined) return course.wait === 'reached';
    const waitMs = Math.min(this.#limits.waitForVersionMs, course.deadlineAtMs - performance.now());
    const isReached = await this.#fleet.waitForVersion(version, waitMs, signal);
    course.wait = isReached ? 'reached' : 'vain';
    // Who was behind while another node had the version all the time has nothing to add.
    if (!isReached || (upstream.window.info?.version ?? 0n) >= version) course.repeat(upstream);
    return true;
  }

  /** Whether a node that was not asked yet has told of the block; nobody waits for one, as is done for versions. */
  #isKnownToHold(height: bigint, asked: ReadonlySet<Upstream>): boolean {
    return this.#candidates('blocks').some(({ upstream, window }) => {
      return !asked.has(upstream) && window !== undefined && holdingOf(window, height) !== 'unknown';
    });
  }

  #candidates(unit: Unit): Known[] {
    return this.#fleet.candidates(performance.now(), unit).filter(({ health }) => health !== 'foreign');
  }

  #next(need: Need, course: Course, isStreamed: boolean): Upstream | undefined {
    const known = this.#candidates(unitOf(need));
    if (course.sawPruned && need.kind === 'head') return this.#deeper(known, course);
    const ordered = selectUpstreams(
      known.filter(({ upstream }) => !course.asked.has(upstream)),
      need,
    );
    const best = isStreamed ? firstWithPlace(ordered, need) : ordered[0];
    // Once one node has said "pruned", only a node that may hold the version has more to say.
    const position = positionOf(need);
    const isFutile = course.sawPruned && position !== undefined && holdingOf(best?.window, position) === 'pruned';
    // A node whose head is not believed has nothing to add to what believed ones said.
    const isDoubtful = best?.isSuspect === true && course.kept !== undefined;
    return isFutile || isDoubtful ? undefined : best?.upstream;
  }

  /** What was called pruned without a version that others could be told by: only the deepest node has more to say. */
  #deeper(known: readonly Known[], { asked, refusers }: Course): Upstream | undefined {
    const final = deeperThan(known, ({ upstream }) => refusers.has(upstream))?.upstream;
    return final === undefined || asked.has(final) ? undefined : final;
  }

  /** No final answer: the most telling one of those that came, unless it would be a false claim about the ledger. */
  #conclude(need: Need, course: Course, signal: AbortSignal): NodeAnswer {
    if (signal.aborted) throw new GatewayError('unavailable', 'the request was abandoned', { cause: signal.reason });
    const kept = course.kept;
    // An answer from an older state than asked for is no answer, whatever it says.
    const isTooOld = need.kind === 'head' && kept?.verdict === 'behind';
    if (kept !== undefined && !isTooOld && !this.#mayStillBeHeld(need, course.refusers)) {
      if (kept.verdict !== 'failed' || errorCodeOf(kept.answer) !== undefined) return kept.answer;
    }
    throw new GatewayError('unavailable', this.#explain(need, course));
  }

  /** Whether a node that gave no answer could hold what others say is gone: then "gone" must not be said. */
  #mayStillBeHeld(need: Need, refusers: ReadonlySet<Upstream>): boolean {
    if (refusers.size === 0) return false;
    const known = this.#candidates(unitOf(need));
    if (need.kind === 'transaction') {
      const final = deepest(known)?.upstream;
      return final !== undefined && !refusers.has(final);
    }
    const position = positionOf(need);
    if (position === undefined) return deeperThan(known, ({ upstream }) => refusers.has(upstream)) !== undefined;
    return known.some(({ upstream, window }) => !refusers.has(upstream) && holdingOf(window, position) !== 'pruned');
  }

  #explain(need: Need, course: Course): string {
    if (this.#fleet.upstreams.every((upstream) => upstream.health === 'foreign'))
      return 'no node of this chain is known';
    const head = this.#fleet.head?.version ?? 0n;
    if (need.kind === 'head' && need.min !== undefined && head < need.min) {
      return `the ledger is at version ${head} here, and version ${need.min} was asked for; try again`;
    }
    const position = positionOf(need);
    const what =
      position === undefined ? 'this request' : `${need.kind === 'block' ? 'block' : 'ledger version'} ${position}`;
    if (course.refusers.size > 0) return `the nodes that may hold ${what} cannot be reached now; try again`;
    return `no node answered ${what} in time (${course.asked.size} asked); try again`;
  }
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

/** How an answer is taken from a node. */
interface Way<A> {
  readonly fetch: Fetch<A>;
  readonly isStreamed: boolean;
}

type Known = Candidate & { readonly upstream: Upstream };

function unitOf(need: Need): Unit {
  return need.kind === 'block' ? 'blocks' : 'versions';
}

/** The best node, or the next that is as good for the request but has a place for a stream at once. */
function firstWithPlace(ordered: readonly Known[], need: Need): Known | undefined {
  const best = ordered[0];
  if (best?.upstream.streams.isFull !== true) return best;
  const position = positionOf(need);
  const holding = ({ window }: Known): string => (position === undefined ? '' : holdingOf(window, position));
  const isAsGood = (other: Known): boolean => other.health === best.health && holding(other) === holding(best);
  return ordered.find((other) => !other.upstream.streams.isFull && isAsGood(other)) ?? best;
}
