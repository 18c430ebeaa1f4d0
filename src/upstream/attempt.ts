/** One node, one try: the exchange, what its answer means, and what it teaches of the node. */
import { performance } from 'node:perf_hooks';
import { GatewayError } from '../ledger/errors.ts';
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import { doneOrStopped, type StopSignal } from '../ledger/stop.ts';
import { conditions } from '../ledger/node-headers.ts';
import type { FailureKind, UpstreamMetrics } from '../metrics/upstream-metrics.ts';
import type { Span } from '../trace/span.ts';
import { endAttempt } from './attempt-span.ts';
import type { Bound } from './bound.ts';
import { createAnswerBudget, OverBudgetError, type ByteBudget } from './byte-budget.ts';
import type { Outcome } from './course.ts';
import { isUnsendable, type ExchangeContext, type NodeAnswer, type Progress, type StreamedAnswer } from './exchange.ts';
import { findFault, type AnswerFault } from './answer-fault.ts';
import type { Fleet } from './fleet.ts';
import { overLiveConnection } from './lost-connection.ts';
import { onceClosed } from './node-stream.ts';
import { findNotNow, type NotNow } from './not-now.ts';
import type { Sign } from './ejection.ts';
import type { ReadClass } from './read-class.ts';
import type { Need } from './need.ts';
import type { FleetRequest, UpstreamLog } from './sender.ts';
import { NoPlaceError } from './slots.ts';
import type { Upstream } from './upstream.ts';
import { judge, type Verdict } from './verdict.ts';

/** How a node is asked. */
export type Fetch<A> = (upstream: Upstream, context: ExchangeContext) => Promise<A>;

export interface AttemptParts {
  readonly fleet: Fleet;
  readonly metrics: UpstreamMetrics;
  readonly log: UpstreamLog;
  /**
   * Looks at the node's ledger info: a request failed in a way that may be its own fault, or that of something before the
   * node; or its answer reports another chain. What it returns settles when that is done, and never rejects.
   */
  readonly onDoubt: (upstream: Upstream) => unknown;
  /** Whether what was lost with its connection may be sent once more. Default: always. */
  readonly mayRepeat?: () => boolean;
  /** Bounds the bytes of answers that are read whole. Default: that of a process that serves alone. */
  readonly budget?: ByteBudget;
}

interface Timed {
  readonly startedMs: number;
  readonly elapsedMs: number;
  readonly readClass: ReadClass | undefined;
}

export interface AttemptBounds {
  /**
   * Until the answer's head (streamed) or its end (whole), and until the chain of the answer is settled; afterwards the
   * attempt ends it.
   */
  readonly bound: Bound;
  /** What the answer tells of the node; `undefined`: nothing, as when it needs no state, or is waited for. */
  readonly readClass: ReadClass | undefined;
  /** Called when the node has done its part: the head of a stream has come, or the whole answer, or none. */
  readonly onWorked?: () => void;
  /** It is ended here. */
  readonly span?: Span | undefined;
}

export class Attempts {
  readonly #fleet: Fleet;
  readonly #budget: ByteBudget;
  readonly #metrics: UpstreamMetrics;
  readonly #log: UpstreamLog;
  readonly #onDoubt: (upstream: Upstream) => unknown;
  readonly #mayRepeat: (() => boolean) | undefined;

  constructor({ fleet, metrics, log, onDoubt, mayRepeat, budget = createAnswerBudget() }: AttemptParts) {
    this.#fleet = fleet;
    this.#mayRepeat = mayRepeat;
    this.#budget = budget;
    this.#metrics = metrics;
    this.#log = log;
    this.#onDoubt = onDoubt;
  }

  /** Asks one node. Throws `GatewayError` 400 for a request that can be sent to none, and nothing else. */
  async make<A extends NodeAnswer | StreamedAnswer>(
    request: FleetRequest,
    fetch: Fetch<A>,
    upstream: Upstream,
    { bound, readClass, onWorked, span }: AttemptBounds,
  ): Promise<Outcome<A>> {
    const startedMs = performance.now();
    // Looks have connections of their own, so they neither wait for other requests nor make them wait.
    const places = request.isLook === true ? 0 : 1;
    const isQueued = places > 0 && upstream.isBusy;
    const progress: Progress = { sentAtMs: undefined, isAnswered: false };
    const context = {
      dialect: this.#fleet.dialect,
      signal: bound.signal,
      progress,
      budget: this.#budget,
      traceHeaders: span?.headers(),
    };
    const leave = (): void => {
      upstream.inFlight -= places;
    };
    const end = (): void => {
      bound.end();
      leave();
    };
    const exchange = (): Promise<A> => fetch(upstream, context);
    let answer: A;
    upstream.inFlight += places;
    try {
      answer = await (request.isIdempotent
        ? overLiveConnection(exchange, progress, bound.signal, this.#mayRepeat)
        : exchange());
    } catch (error) {
      end();
      onWorked?.();
      if (isUnsendable(error)) {
        endAttempt(span, { verdict: 'failed', kind: 'unsendable' });
        throw new GatewayError('malformed', 'the request cannot be sent on', { cause: error });
      }
      const waited = isQueued && bound.isOver && progress.sentAtMs === undefined;
      const kind = waited ? 'queue' : kindOf(error, bound);
      if (!bound.isAbandoned) {
        const nowMs = performance.now();
        this.#fail(upstream, nowMs - startedMs, kind, error);
        // How long a view takes is up to the client who chose it.
        if (kind === 'timeout' && readClass !== 'view') upstream.places.pushBack(nowMs);
      }
      endAttempt(span, bound.isAbandoned ? { verdict: 'cancelled' } : { verdict: 'failed', kind });
      const mayHaveArrived = progress.sentAtMs !== undefined;
      return { verdict: 'failed', answer: undefined, mayHaveArrived, sign: signOf(kind, mayHaveArrived) };
    }
    onWorked?.();
    if ('stream' in answer) onceClosed(answer.stream, end);
    else leave();
    const { info } = answer;
    const isOurs = info === undefined || this.#fleet.observe(upstream, info, performance.now());
    const isSettled = isOurs || upstream.chain.doubted === undefined;
    const isOursThen = isSettled ? isOurs : await this.#confirmChain(upstream, info, bound.signal);
    if ('stream' in answer) bound.release();
    else bound.end();
    return this.#learn(request, answer, startedMs, { readClass, span, isOurs: isOursThen });
  }

  /** The answer reports another chain: the request waits for the look that decides, within the attempt's bound. */
  async #confirmChain(upstream: Upstream, info: LedgerInfo, signal: StopSignal): Promise<boolean> {
    await doneOrStopped(this.#onDoubt(upstream), signal);
    return this.#fleet.isOurs(upstream, info) && this.#fleet.observe(upstream, info, performance.now());
  }

  #learn<A extends NodeAnswer | StreamedAnswer>(
    request: FleetRequest,
    answer: A,
    startedMs: number,
    { readClass, span, isOurs }: Pick<AttemptBounds, 'readClass' | 'span'> & { readonly isOurs: boolean },
  ): Outcome<A> {
    const { upstream } = answer;
    const nowMs = performance.now();
    const elapsedMs = nowMs - startedMs;
    const fault = this.#faultOf(answer, request);
    const verdict = isOurs && fault === undefined ? this.#judge(answer, request) : 'failed';
    const notNow = verdict === 'failed' && isOurs && fault === undefined ? findNotNow(answer, Date.now()) : undefined;
    if (!isOurs) this.#recordFailure(upstream, elapsedMs, 'chain', `status ${answer.status}`);
    else if (fault !== undefined) this.#recordFault(answer, elapsedMs, fault);
    else if (verdict === 'failed') this.#recordFailed(answer, elapsedMs, notNow);
    else this.#recordAnswer(upstream, elapsedMs, answer.status);
    if (notNow !== undefined) this.#defer(upstream, startedMs, notNow);
    const kind = verdict !== 'failed' ? undefined : !isOurs ? 'chain' : fault === undefined ? 'status' : 'bad answer';
    endAttempt(span, { verdict, kind, status: answer.status });
    const isNotNow = notNow !== undefined;
    const sign = isNotNow ? undefined : signOfAnswer(verdict, answer, request.need);
    if (sign === undefined && !isNotNow) this.#recordTime(request, upstream, { startedMs, elapsedMs, readClass });
    if (verdict === 'pruned' && request.need.kind === 'version') {
      this.#fleet.recordRefusal(upstream, request.need.version, nowMs);
      this.#log.debug({ upstream: upstream.name, version: request.need.version }, 'version pruned at upstream');
    }
    // What a node answers to a submission is its answer: another node must not be asked as well.
    if (verdict === 'final' || (!request.isIdempotent && isOurs)) return { verdict: 'final', answer };
    if ('stream' in answer) answer.stream.destroy();
    // A success that cannot be one is never the best that nodes had to say.
    const isWorthKeeping = 'body' in answer && isOurs && fault === undefined;
    return { verdict, answer: isWorthKeeping ? answer : undefined, mayHaveArrived: true, sign, isNotNow };
  }

  /** What hedges are timed by, what the node is given at once, and whether it is passed over. */
  #recordTime(request: FleetRequest, upstream: Upstream, { startedMs, elapsedMs, readClass }: Timed): void {
    const nowMs = performance.now();
    if (request.isLook === true) upstream.latencies.look.record(elapsedMs, nowMs);
    else upstream.deferral.answered(startedMs);
    if (readClass === undefined) return;
    upstream.latencies[readClass].record(elapsedMs, nowMs);
    upstream.places.observe(readClass, elapsedMs, nowMs);
    if (upstream.ejections[readClass].answered(nowMs)) {
      const fields = { upstream: upstream.name, readClass };
      this.#log.tell('back', fields, 'upstream answers again what others answered for it');
    }
  }

  /** What a node says of something that must not be asked twice is its answer, whatever it looks like. */
  #faultOf(answer: NodeAnswer | StreamedAnswer, request: FleetRequest): AnswerFault | undefined {
    const { need, promised, wire, isIdempotent } = request;
    if (!isIdempotent || promised === undefined) return undefined;
    const isConditional = answer.status === 304 && conditions.some((name) => Object.hasOwn(wire.headers, name));
    const hasBody = wire.body !== undefined;
    const asked = { need, promised, isHead: wire.method === 'HEAD', isConditional, hasBody };
    return findFault(answer, asked, this.#fleet.dialect);
  }

  #judge(answer: NodeAnswer | StreamedAnswer, { need, isHealthCheck }: FleetRequest): Verdict {
    if (isBehind(answer, need, this.#fleet.head?.version)) return 'behind';
    if ('stream' in answer) return 'final';
    return judge(answer, need, isHealthCheck);
  }

  #recordFault({ upstream, status }: NodeAnswer | StreamedAnswer, elapsedMs: number, fault: AnswerFault): void {
    if (status < 300) return this.#recordFailure(upstream, elapsedMs, 'bad answer', fault);
    // What stands before a node may only dislike what this client asks for.
    this.#note(upstream, elapsedMs, 'bad answer', `status ${status}: ${fault}`);
    return this.#doubt(upstream, elapsedMs);
  }

  /** The node gave an answer, and it shows something broken: what? */
  #recordFailed({ upstream, status }: NodeAnswer | StreamedAnswer, elapsedMs: number, notNow?: NotNow): void {
    if (requestMayBeAtFault.has(status)) {
      this.#recordAnswer(upstream, elapsedMs, status);
    } else {
      this.#note(upstream, elapsedMs, 'status', `status ${status}`);
      if (notNow?.isOfNode !== true) this.#doubt(upstream, elapsedMs);
    }
  }

  /** The node is asked less at once, and after the others for a moment. */
  #defer(upstream: Upstream, sentAtMs: number, { retryAfterMs }: NotNow): void {
    const nowMs = performance.now();
    upstream.places.pushBack(nowMs);
    const isFirst = upstream.deferral.isForgiven(nowMs);
    const pauseMs = upstream.deferral.refused(sentAtMs, retryAfterMs, nowMs);
    if (pauseMs === undefined) return;
    this.#metrics.deferred(upstream.name);
    const fields = { upstream: upstream.name, pauseMs: Math.round(pauseMs) };
    const message = 'upstream limits or sheds requests: others are asked first';
    if (isFirst) this.#log.tell('deferred', fields, message);
    else this.#log.debug(fields, message);
  }

  #recordAnswer(upstream: Upstream, elapsedMs: number, status: number): void {
    const before = upstream.health;
    upstream.recordAnswer(elapsedMs, performance.now());
    if (upstream.health !== before) {
      this.#fleet.refresh();
      const fields = { upstream: upstream.name, health: upstream.health };
      this.#log.tell('node usable', fields, `upstream is ${upstream.health}`);
    }
    this.#metrics.observeAnswer(upstream.name, status, elapsedMs / 1000);
  }

  #fail(upstream: Upstream, elapsedMs: number, kind: FailureKind, error: unknown): void {
    // What waited for our own requests to end, or is more than we take, says nothing of the node.
    if (kind === 'connection') {
      this.#recordFailure(upstream, elapsedMs, kind, error);
      return;
    }
    this.#note(upstream, elapsedMs, kind, error);
    if (kind === 'timeout') this.#doubt(upstream, elapsedMs);
  }

  /** A probe tells whether it is the node's doing. */
  #doubt(upstream: Upstream, elapsedMs: number): void {
    upstream.recordDoubt(elapsedMs, performance.now());
    this.#onDoubt(upstream);
  }

  #note(upstream: Upstream, elapsedMs: number, kind: FailureKind, cause: unknown): void {
    this.#metrics.observeFailure(upstream.name, kind, elapsedMs / 1000);
    this.#log.debug({ upstream: upstream.name, kind, cause: String(cause) }, 'attempt failed');
  }

  #recordFailure(upstream: Upstream, elapsedMs: number, kind: FailureKind, cause: unknown): void {
    const before = upstream.health;
    this.#note(upstream, elapsedMs, kind, cause);
    upstream.recordFailure(elapsedMs, performance.now());
    if (upstream.health === before) return;
    this.#fleet.refresh();
    const fields = { upstream: upstream.name, kind, cause: String(cause) };
    this.#log.tell('node down', fields, `upstream is ${upstream.health}`);
  }
}

function kindOf(error: unknown, { isOver }: Bound): FailureKind {
  if (error instanceof NoPlaceError) return 'queue';
  if (error instanceof OverBudgetError) return 'size';
  return isOver ? 'timeout' : 'connection';
}

/** How an answer that came may be the node's own failing, should another node answer the same read. */
function signOfAnswer(verdict: Verdict, { info }: NodeAnswer | StreamedAnswer, need: Need): Sign | undefined {
  if (verdict === 'failed') return 'error';
  if (verdict === 'refused') return 'refused';
  // A node compares the version with the very ledger info that its headers tell (protocol 3).
  const isHeld = info !== undefined && need.kind === 'version' && need.version >= info.oldestVersion;
  return verdict === 'pruned' && isHeld && need.version <= info.version ? 'error' : undefined;
}

/** What waited for a place, or is more than we take, is no sign of anything. */
function signOf(kind: FailureKind, mayHaveArrived: boolean): Sign | undefined {
  if (kind === 'timeout') return mayHaveArrived ? 'timeout' : undefined;
  return kind === 'connection' ? 'error' : undefined;
}

/** A client could provoke these at every node in turn, so they say nothing of a node's health. */
const requestMayBeAtFault = new Set([408, 429, 500]);

/** Looks and fixed answers come from a node that can read nothing; a long poll may take as long as an attempt. */
export function isStateRead({ need, isIdempotent, isLook, atOnce }: FleetRequest): boolean {
  return isIdempotent && isLook !== true && atOnce === undefined && (need.kind !== 'head' || need.min !== undefined);
}

/**
 * Whether an answer, or an error, is of an older state than the request needs. `head`: the newest that is known, up to
 * which another node can do better.
 */
function isBehind({ status, info }: NodeAnswer | StreamedAnswer, need: Need, head: bigint | undefined): boolean {
  if (status >= 500) return false;
  if (need.kind === 'head' && need.min !== undefined) {
    return info === undefined ? status < 300 : info.version < need.min;
  }
  if (need.kind !== 'version' || status < 400 || info === undefined) return false;
  return info.version < need.version && head !== undefined && need.version <= head;
}
