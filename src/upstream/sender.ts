/**
 * Sends one request to the fleet: picks a node, judges its answer, goes on to the next while it makes sense, all within
 * one attempt budget and one deadline.
 */
import { performance } from 'node:perf_hooks';
import { GatewayError } from '../ledger/errors.ts';
import type { Dialect } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { FailureKind, UpstreamMetrics } from '../metrics/upstream-metrics.ts';
import {
  fetchStream,
  fetchWhole,
  readWhole,
  type NodeAnswer,
  type StreamedAnswer,
  type WireRequest,
} from './exchange.ts';
import { Bound } from './bound.ts';
import { Course, type Outcome } from './course.ts';
import type { Fleet } from './fleet.ts';
import { deepest, holdingOf, selectUpstreams, type Need } from './select.ts';
import { errorCodeOf, judge, type Judged, type Verdict } from './verdict.ts';
import type { Upstream } from './upstream.ts';

export interface FleetRequest {
  readonly wire: WireRequest;
  readonly need: Need;
  /** Whether asking twice does no harm. A submission is never sent again once bytes of it may have left. */
  readonly isIdempotent: boolean;
  /** Bound of one attempt where it is shorter than usual. */
  readonly timeoutMs?: number;
}

export interface SendLimits {
  /** Bound of one attempt, until the answer's headers (streamed) or its end (whole). */
  readonly timeoutMs: number;
  /** Bound of all attempts together. */
  readonly deadlineMs: number;
  readonly maxAttempts: number;
  /** How long a version above every head is waited for. */
  readonly waitForVersionMs: number;
}

export interface UpstreamLog {
  debug(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/** Heads do not come this much nearer within a wait: such a version is asked for straight away. */
const reachableVersions = 1_000_000n;

export class Sender {
  readonly #fleet: Fleet;
  readonly #limits: SendLimits;
  readonly #metrics: UpstreamMetrics;
  readonly #log: UpstreamLog;

  constructor(fleet: Fleet, limits: SendLimits, metrics: UpstreamMetrics, log: UpstreamLog) {
    this.#fleet = fleet;
    this.#limits = limits;
    this.#metrics = metrics;
    this.#log = log;
  }

  /**
   * Asks the fleet and reads the whole answer: the best that nodes had to say, their own errors included. Throws
   * `GatewayError` when no node gave an answer worth passing on.
   */
  whole(request: FleetRequest, signal: AbortSignal): Promise<NodeAnswer> {
    const fetch: Fetch<NodeAnswer> = (upstream, attemptSignal) =>
      fetchWhole(upstream, request.wire, this.#dialect, attemptSignal);
    return this.#send(request, fetch, signal);
  }

  /** As `whole`, but a successful answer is handed on while it comes. */
  stream(request: FleetRequest, signal: AbortSignal): Promise<NodeAnswer | StreamedAnswer> {
    const fetch: Fetch<NodeAnswer | StreamedAnswer> = async (upstream, attemptSignal) => {
      const bounds = { signal: attemptSignal, idleMs: this.#limits.deadlineMs };
      const answer = await fetchStream(upstream, request.wire, this.#dialect, bounds);
      return answer.status < 300 ? answer : readWhole(answer);
    };
    return this.#send(request, fetch, signal);
  }

  get #dialect(): Dialect {
    return this.#fleet.dialect;
  }

  async #send<A extends NodeAnswer | StreamedAnswer>(
    request: FleetRequest,
    fetch: Fetch<A>,
    signal: AbortSignal,
  ): Promise<A | NodeAnswer> {
    const { need } = request;
    const deadlineAtMs = performance.now() + this.#limits.deadlineMs;
    const needed = need.kind === 'version' ? need.version : need.kind === 'head' ? need.min : undefined;
    if (needed !== undefined) await this.#awaitVersion(needed, signal);

    const course = new Course();
    while (course.asked.size < this.#limits.maxAttempts) {
      const leftMs = deadlineAtMs - performance.now();
      const upstream = this.#next(need, course);
      if (upstream === undefined || leftMs <= 0 || signal.aborted) break;
      course.asked.add(upstream);
      const outcome = await this.#attempt(request, fetch, { upstream, signal, leftMs });
      if (outcome.verdict === 'final') {
        if (course.sawPruned) this.#metrics.prunedRepaired.inc();
        return outcome.answer;
      }
      course.take(outcome);
      if (!request.isIdempotent && outcome.mayHaveArrived) break;
    }
    return this.#conclude(need, course, signal);
  }

  async #awaitVersion(version: LedgerVersion, signal: AbortSignal): Promise<void> {
    const head = this.#fleet.head?.version;
    if (head === undefined || version > head + reachableVersions) return;
    await this.#fleet.waitForVersion(version, this.#limits.waitForVersionMs, signal);
  }

  #next(need: Need, course: Course): Upstream | undefined {
    const candidates = this.#fleet.candidates(performance.now()).filter(({ upstream }) => !course.asked.has(upstream));
    const best = selectUpstreams(candidates, need)[0];
    // Once one node has said "pruned", only a node that may hold the version has more to say.
    const isFutile = course.sawPruned && need.kind === 'version' && holdingOf(best?.window, need.version) === 'pruned';
    // A node whose head is not believed has nothing to add to what believed ones said.
    const isDoubtful = best?.isSuspect === true && course.kept !== undefined;
    return isFutile || isDoubtful ? undefined : best?.upstream;
  }

  /** One node, one try: the answer judged, the node's record kept. */
  async #attempt<A extends NodeAnswer | StreamedAnswer>(
    request: FleetRequest,
    fetch: Fetch<A>,
    attempt: { readonly upstream: Upstream; readonly signal: AbortSignal; readonly leftMs: number },
  ): Promise<Outcome<A>> {
    const { upstream, signal } = attempt;
    const startedMs = performance.now();
    const bound = new Bound(signal, Math.min(request.timeoutMs ?? Infinity, this.#limits.timeoutMs, attempt.leftMs));
    upstream.inFlight += 1;
    try {
      const answer = await fetch(upstream, bound.signal);
      if ('stream' in answer) bound.release();
      else bound.end();
      return this.#learn(request, answer, startedMs);
    } catch (error) {
      bound.end();
      const elapsedMs = performance.now() - startedMs;
      if (!signal.aborted) this.#recordFailure(upstream, elapsedMs, bound.isOver ? 'timeout' : 'connection', error);
      return { verdict: 'failed', answer: undefined, mayHaveArrived: !neverConnected(error) };
    } finally {
      upstream.inFlight -= 1;
    }
  }

  #learn<A extends NodeAnswer | StreamedAnswer>(request: FleetRequest, answer: A, startedMs: number): Outcome<A> {
    const { upstream, info } = answer;
    const nowMs = performance.now();
    const elapsedMs = nowMs - startedMs;
    const isOurs = info === undefined || this.#fleet.observe(upstream, info, nowMs);
    const verdict = isOurs ? this.#judge(answer, request.need) : 'failed';
    if (verdict === 'failed' && !(isOurs && requestMayBeAtFault.has(answer.status))) {
      this.#recordFailure(upstream, elapsedMs, isOurs ? 'status' : 'chain', `status ${answer.status}`);
    } else {
      this.#recordAnswer(upstream, elapsedMs, answer.status);
    }
    if (verdict === 'pruned' && request.need.kind === 'version') {
      upstream.window.observeRefusal(request.need.version, nowMs);
      this.#log.debug({ upstream: upstream.name, version: request.need.version }, 'version pruned at upstream');
    }
    // What a node answers to a submission is its answer: another node must not be asked as well.
    if (verdict === 'final' || (!request.isIdempotent && isOurs)) return { verdict: 'final', answer };
    if ('stream' in answer) answer.stream.destroy();
    return { verdict, answer: 'body' in answer && isOurs ? answer : undefined, mayHaveArrived: true };
  }

  #judge(answer: NodeAnswer | StreamedAnswer, need: Need): Verdict {
    if (isBehind(answer, need)) return 'behind';
    if ('stream' in answer) return 'final';
    return judge(judged(answer), need);
  }

  #recordAnswer(upstream: Upstream, elapsedMs: number, status: number): void {
    const before = upstream.health;
    upstream.recordAnswer(elapsedMs, performance.now());
    if (upstream.health !== before) this.#fleet.refresh();
    this.#metrics.observeAnswer(upstream.name, status, elapsedMs / 1000);
  }

  #recordFailure(upstream: Upstream, elapsedMs: number, kind: FailureKind, cause: unknown): void {
    const before = upstream.health;
    upstream.recordFailure(elapsedMs, performance.now());
    this.#metrics.observeFailure(upstream.name, kind, elapsedMs / 1000);
    this.#log.debug({ upstream: upstream.name, kind, cause: String(cause) }, 'attempt failed');
    if (upstream.health === before) return;
    this.#fleet.refresh();
    this.#log.warn({ upstream: upstream.name, kind, cause: String(cause) }, `upstream is ${upstream.health}`);
  }

  /** No final answer: the most telling one of those that came, unless it would be a false claim about the ledger. */
  #conclude(need: Need, course: Course, signal: AbortSignal): NodeAnswer {
    if (signal.aborted) throw new GatewayError('unavailable', 'the request was abandoned', { cause: signal.reason });
    const kept = course.kept;
    // An answer from an older state than asked for is no answer, whatever it says.
    const isTooOld = need.kind === 'head' && kept?.verdict === 'behind';
    if (kept !== undefined && !isTooOld && !this.#mayStillBeHeld(need, course.refusers)) {
      if (kept.verdict !== 'failed' || errorCodeOf(judged(kept.answer)) !== undefined) return kept.answer;
    }
    throw new GatewayError('unavailable', this.#explain(need, course));
  }

  /** Whether a node that gave no answer could hold what others say is gone: then "gone" must not be said. */
  #mayStillBeHeld(need: Need, refusers: ReadonlySet<Upstream>): boolean {
    if (refusers.size === 0) return false;
    const candidates = this.#fleet.candidates(performance.now());
    if (need.kind === 'transaction') {
      const final = deepest(candidates)?.upstream;
      return final !== undefined && !refusers.has(final);
    }
    return candidates
      .filter(({ upstream, health }) => health !== 'foreign' && !refusers.has(upstream))
      .some(({ window }) => need.kind === 'version' && holdingOf(window, need.version) !== 'pruned');
  }

  #explain(need: Need, course: Course): string {
    if (this.#fleet.upstreams.every((upstream) => upstream.health === 'foreign'))
      return 'no node of this chain is known';
    const head = this.#fleet.head?.version ?? 0n;
    if (need.kind === 'head' && need.min !== undefined && head < need.min) {
      return `the ledger is at version ${head} here, and version ${need.min} was asked for; try again`;
    }
    const what = need.kind === 'version' ? `ledger version ${need.version}` : 'this request';
    if (course.refusers.size > 0) return `the nodes that may hold ${what} cannot be reached now; try again`;
    return `no node answered ${what} in time (${course.asked.size} asked); try again`;
  }
}

type Fetch<A> = (upstream: Upstream, signal: AbortSignal) => Promise<A>;

function judged(answer: NodeAnswer): Judged {
  const contentType = answer.headers['content-type'];
  return {
    status: answer.status,
    contentType: typeof contentType === 'string' ? contentType : undefined,
    body: answer.body,
  };
}

/** A client could provoke these at every node in turn, so they say nothing of a node's health. */
const requestMayBeAtFault = new Set([408, 429, 500]);

/** Whether a 2xx is of an older state than the request needs. */
function isBehind({ status, info }: NodeAnswer | StreamedAnswer, need: Need): boolean {
  if (need.kind !== 'head' || need.min === undefined || status >= 300) return false;
  return info === undefined || info.version < need.min;
}

const connectFailures = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Whether the error shows that no connection was made, so that no byte can have arrived. */
function neverConnected(error: unknown): boolean {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  if (code !== undefined && connectFailures.has(code)) return true;
  return error instanceof AggregateError && error.errors.length > 0 && error.errors.every(neverConnected);
}
