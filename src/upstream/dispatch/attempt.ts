/** One request to one node: the exchange, the class of the answer, and the record of both in the node's state. */
import { performance } from 'node:perf_hooks';
import { type Allowance, doneOrStopped, GatewayError, type LedgerInfo } from '../../ledger/index.ts';
import type { Span } from '../../metrics/index.ts';
import { type ByteBudget, OverBudgetError, TooLargeError } from '../byte-budget.ts';
import type { Deadline } from '../deadline.ts';
import type { FailureSign, Shedding } from '../node/circuits.ts';
import { faultOfError, type NodeFault } from '../node/node-fault.ts';
import type { Upstream } from '../node/upstream.ts';
import type { Need, ReadClass } from '../select/ranking.ts';
import type { FailureKind } from '../upstream-metrics.ts';
import {
  type AnswerClass,
  classifyAnswer,
  errorCodeOf,
  findShedding,
  type InvalidAnswerReason,
  isUnknownRoute,
  validateAnswer,
} from './classify.ts';
import { type ExchangeContext, isUnsendable, type NodeAnswer, type StreamedAnswer } from './exchange.ts';
import { wasLostIdle } from './fetch-whole.ts';
import type { FleetRequest, SenderParts } from './fleet-request.ts';
import { onceClosed } from './node-stream.ts';
import type { AttemptOutcome, AttemptReason } from './plan.ts';
import type { Permit } from './queue.ts';

/** Sends a request to one node. `A`: a whole or a streamed answer. */
export type Fetch<A> = (upstream: Upstream, request: FleetRequest, context: ExchangeContext) => Promise<A>;

/** The parts that all attempts share. */
export interface AttemptParts extends SenderParts {
  /** Retries, and requests that are sent once more because they were lost with their connection. */
  readonly retries: Allowance;
}

/** `blame`: `node`, the node is at fault; `doubt`, a probe decides. */
interface FailedAttempt {
  readonly kind: FailureKind;
  readonly cause: string;
  readonly blame: 'none' | 'doubt' | 'node';
  readonly fault: NodeFault;
}

/** One request to the node of its permit. It closes the permit, and ends its deadline and span. */
export class Attempt<A extends NodeAnswer | StreamedAnswer> implements ExchangeContext {
  readonly upstream: Upstream;
  /** Bounds the time to the answer's head (streamed) or end (whole), and until the chain of the answer is settled. */
  readonly signal: Deadline;
  readonly isElsewhere: boolean;
  readonly traceHeaders: ExchangeContext['traceHeaders'];
  readonly startedMs = performance.now();
  sentAtMs: number | undefined;
  isAnswered = false;
  isRepeat = false;
  hasEnded = false;
  readonly #parts: AttemptParts;
  readonly #request: FleetRequest;
  readonly #permit: Permit;
  readonly #readClass: ReadClass | undefined;
  readonly #span: Span | undefined;

  /**
   * `readClass`: of the read in the node's statistics; absent for a request without state, or a long poll. `traced`:
   * for its span.
   */
  constructor(
    parts: AttemptParts,
    request: FleetRequest,
    permit: Permit,
    deadline: Deadline,
    readClass: ReadClass | undefined,
    traced?: { readonly reason: AttemptReason; readonly attemptsBefore: number; readonly isElsewhere: boolean },
  ) {
    this.#parts = parts;
    this.#request = request;
    this.#permit = permit;
    this.upstream = permit.upstream;
    this.signal = deadline;
    this.#readClass = readClass;
    this.isElsewhere = traced?.isElsewhere === true;
    this.#span = traced && this.#beginSpan(traced.reason, traced.attemptsBefore);
    this.traceHeaders = this.#span?.headers();
  }

  get dialect(): ExchangeContext['dialect'] {
    return this.#parts.fleet.dialect;
  }

  get budget(): ByteBudget {
    return this.#parts.budget;
  }

  get client(): string | undefined {
    return this.#request.client;
  }

  cancel(): void {
    this.signal.giveUp(new Error('another node has answered'));
  }

  /** Sends the request. Throws `GatewayError` 400 for one that HTTP forbids, and nothing else. */
  async run(fetch: Fetch<A>): Promise<AttemptOutcome<A>> {
    const permit = this.#permit;
    const isQueued = permit.kind !== 'look' && this.upstream.isBusy;
    let answer: A | undefined;
    while (answer === undefined) {
      try {
        answer = await fetch(this.upstream, this.#request, this);
      } catch (error) {
        const mayRepeat = (): boolean => this.#parts.retries.withdraw(performance.now()) && permit.mayRepeat();
        if (this.#request.isIdempotent && (await wasLostIdle(error, this, mayRepeat))) continue;
        this.#end();
        if (this.sentAtMs === undefined) permit.cancel();
        else permit.close();
        return this.#failed(error, isQueued && this.sentAtMs === undefined);
      }
    }
    permit.answered();
    this.upstream.silence.end();
    if ('stream' in answer) {
      onceClosed(answer.stream, () => {
        this.signal.end();
        permit.close();
      });
    } else permit.close();
    const { info } = answer;
    const { address, chain } = this.upstream;
    if (info !== undefined) address.observe(info, this.startedMs, performance.now(), info.chainId === chain.id);
    const isSettled = info === undefined || this.#isOurs(info);
    const isOurs = typeof isSettled === 'boolean' ? isSettled : await isSettled;
    if ('stream' in answer) {
      this.hasEnded = true;
      this.signal.release();
    } else this.#end();
    return this.#answered(answer, isOurs);
  }

  #end(): void {
    this.hasEnded = true;
    this.signal.end();
  }

  #failed(error: unknown, hasWaited: boolean): AttemptOutcome<A> {
    if (isUnsendable(error)) {
      this.#endSpan('failed', 'unsendable');
      throw new GatewayError('malformed', 'the request cannot be sent on', { cause: error });
    }
    const mayHaveArrived = this.sentAtMs !== undefined;
    const kind = kindOf(error, this.signal, hasWaited);
    const fault = faultOfError(error);
    if (this.signal.isAbandoned) this.#endSpan('cancelled');
    else {
      const nowMs = performance.now();
      const failure = { kind, cause: String(error), blame: blameFor[kind] ?? 'none', fault };
      this.#recordFailure(failure, nowMs);
      // A client chooses the duration of its view.
      if (kind === 'timeout' && this.#readClass !== 'view') this.upstream.places.pushBack(nowMs);
      this.#endSpan('failed', kind);
    }
    // An attempt that was never sent, or whose answer is too large, is no sign against the node.
    const sign = kind === 'connection' ? 'error' : kind === 'timeout' && mayHaveArrived ? 'timeout' : undefined;
    const symptom = sign === 'error' ? fault : undefined;
    const isTooLarge = error instanceof TooLargeError;
    return { kind: 'failed', answer: undefined, mayHaveArrived, sign, symptom, isTooLarge };
  }

  #answered(answer: A, isOurs: boolean): AttemptOutcome<A> {
    const { upstream } = this;
    const { fleet, log } = this.#parts;
    const { need, isIdempotent } = this.#request;
    const nowMs = performance.now();
    const reason = validateAnswer(answer, this.#request, fleet.dialect);
    const isValid = isOurs && reason === undefined;
    if (isValid && answer.info !== undefined) this.#recordHeaders(answer, answer.info);
    const kind = isValid ? this.#classify(answer) : 'failed';
    const shedding = isValid && kind === 'failed' ? findShedding(answer, Date.now()) : undefined;
    const failure = kind === 'failed' ? failureOf(answer, isOurs, reason, shedding) : undefined;
    const isUnrouted = isUnknownRoute(answer);
    if (failure === undefined || requestMayBeAtFault(failure, answer)) {
      // A node whose ledger info has failed is not proven by an error: it may fail at everything.
      const isOfNode = !isUnrouted && (failure === undefined || upstream.health !== 'down');
      this.#recordAnswer(answer.status, isOfNode, failure !== undefined, nowMs);
    } else this.#recordFailure(failure, nowMs);
    this.#endSpan(kind, failure?.kind, answer.status);
    const isShed = shedding !== undefined;
    const sign = isShed ? undefined : signOf(kind, answer, need);
    if (shedding !== undefined) this.#recordShedding(shedding, nowMs);
    else if (sign === undefined) this.#recordTime(nowMs);
    if (kind === 'pruned' && need.kind === 'version') {
      const { version } = need;
      fleet.recordRefusal(upstream, version, nowMs);
      log.debug({ upstream: upstream.name, version }, 'version pruned at upstream');
    }
    if (kind === 'behind' && 'body' in answer && isContradiction(answer, need)) {
      fleet.ledger.contradict(upstream, need.version, nowMs);
    }
    // A node's answer to a submission is final: no other node may get the submission.
    if (kind === 'final' || (!isIdempotent && isOurs)) return { kind: 'final', answer };
    if ('stream' in answer) answer.stream.destroy();
    const isShown = isValid && !isUnrouted;
    return {
      kind,
      answer: 'body' in answer && isShown ? answer : undefined,
      mayHaveArrived: true,
      sign,
      symptom: failure?.cause ?? `status ${answer.status}`,
      isShed,
      isUnrouted,
    };
  }

  /** Whether an answer is of the fleet's chain. While the chain is in doubt, waits for the look that decides. */
  #isOurs(info: LedgerInfo): boolean | Promise<boolean> {
    const { upstream } = this;
    const { fleet, onDoubt } = this.#parts;
    const isOurs = fleet.observe(upstream, info, performance.now());
    if (isOurs || upstream.chain.doubted === undefined) return isOurs;
    return doneOrStopped(onDoubt(upstream), this.signal).then(
      () => fleet.isOurs(upstream, info) && fleet.observe(upstream, info, performance.now()),
    );
  }

  #classify(answer: A): AnswerClass {
    const { need, isHealthCheck, isOfClient } = this.#request;
    if (isOfClient !== true && isUnknownRoute(answer)) return 'refused';
    if (isBehind(answer, need, this.#parts.fleet.head?.version)) return 'behind';
    return 'stream' in answer ? 'final' : classifyAnswer(answer, need, isHealthCheck);
  }

  #recordHeaders({ status, headers }: A, info: LedgerInfo): void {
    const { upstream } = this;
    const { fleet } = this.#parts;
    if (this.#request.isLook === true && status === 200) fleet.recordLook({ upstream, info, headers });
    else fleet.headersOfLedger.onReport(upstream, info, headers);
  }

  /**
   * `isOfNode`: it proves that a node of a ledger answers at the address. `isFailure`: it is of no use to the client,
   * though a client may have provoked it.
   */
  #recordAnswer(status: number, isOfNode: boolean, isFailure: boolean, nowMs: number): void {
    const { upstream } = this;
    const { metrics } = this.#parts;
    const elapsedMs = nowMs - this.startedMs;
    if (isOfNode) upstream.recordAnswer(elapsedMs, nowMs);
    metrics.observeAnswer(upstream.name, status, elapsedMs / 1000);
    if (isFailure) metrics.answerFailed(upstream.name);
    this.#parts.fleet.noteHealth(upstream);
  }

  #recordFailure({ kind, cause, blame, fault }: FailedAttempt, nowMs: number): void {
    const { upstream } = this;
    const { fleet, metrics, log, onDoubt } = this.#parts;
    const elapsedMs = nowMs - this.startedMs;
    metrics.observeFailure(upstream.name, kind, elapsedMs / 1000);
    log.debug({ upstream: upstream.name, kind, cause }, 'attempt failed');
    if (blame === 'node') upstream.recordFailure(elapsedMs, nowMs, fault);
    if (blame === 'doubt') {
      upstream.recordDoubt(elapsedMs, nowMs);
      onDoubt(upstream);
    }
    fleet.noteHealth(upstream, { kind, cause });
  }

  /** Records the time of an answer, which delays hedges, bounds requests in flight, and ends deferral and ejection. */
  #recordTime(nowMs: number): void {
    const { name, latencies, deferral, places, ejections } = this.upstream;
    const timed = this.#request.isLook === true ? 'look' : this.#readClass;
    const elapsedMs = nowMs - this.startedMs;
    if (timed !== 'look') deferral.answered(this.startedMs, nowMs);
    if (timed === undefined) return;
    latencies[timed].record(elapsedMs, nowMs);
    if (timed === 'look') return;
    places.observe(timed, elapsedMs, nowMs);
    if (!ejections[timed].answered(nowMs)) return;
    const fields = { upstream: name, readClass: timed };
    this.#parts.log.record('back', fields, 'upstream answers reads of the class again');
  }

  /** Its concurrency limit falls, and the others are asked first for a moment. */
  #recordShedding(shedding: Shedding, nowMs: number): void {
    const { name, places, deferral } = this.upstream;
    const { metrics, log } = this.#parts;
    places.pushBack(nowMs);
    const isFirst = deferral.isForgiven(nowMs);
    const pauseMs = deferral.refused(this.startedMs, shedding, nowMs);
    if (pauseMs === undefined) return;
    metrics.deferred(name);
    const fields = { upstream: name, pauseMs: Math.round(pauseMs) };
    const message = 'upstream limits or sheds requests: others are asked first';
    if (isFirst) log.record('deferred', fields, message);
    else log.debug(fields, message);
  }

  /** The span of the attempt: from the wait for a connection to the answer's end, or to the head of a streamed one. */
  #beginSpan(reason: AttemptReason, attemptsBefore: number): Span | undefined {
    const { span, wire } = this.#request;
    return span?.begin('attempt', {
      kind: 'client',
      attributes: {
        'http.request.method': wire.method,
        'ledgergate.upstream': this.upstream.name,
        'ledgergate.attempt.reason': reason,
        ...(attemptsBefore === 0 ? {} : { 'http.request.resend_count': attemptsBefore }),
      },
    });
  }

  /**
   * Ends the span (docs/tracing.md). `cancelled`: another node has answered, or the client left. A node that has pruned or
   * not yet reached a version has not failed.
   */
  #endSpan(kind: AnswerClass | 'cancelled', failure?: FailureKind | 'unsendable', status?: number): void {
    const span = this.#span;
    if (span === undefined) return;
    span.note({ 'ledgergate.attempt.verdict': kind, 'http.response.status_code': status });
    if (failure !== undefined) span.fail(failure);
    span.end();
  }
}

/** Failures without an answer. A node is not at fault for a wait here, or for a full byte budget. */
const blameFor: Partial<Record<FailureKind, FailedAttempt['blame']>> = { connection: 'node', timeout: 'doubt' };

function kindOf(error: unknown, { isOver }: Deadline, hasWaited: boolean): FailureKind {
  if (isOver && hasWaited) return 'queue';
  if (error instanceof OverBudgetError) return 'size';
  return isOver ? 'timeout' : 'connection';
}

function failureOf(
  { status }: NodeAnswer | StreamedAnswer,
  isOurs: boolean,
  reason: InvalidAnswerReason | undefined,
  shedding: Shedding | undefined,
): FailedAttempt {
  const cause = `status ${status}`;
  if (!isOurs) return { kind: 'chain', cause, blame: 'node', fault: 'other chain' };
  if (reason === undefined) {
    return { kind: 'status', cause, blame: shedding?.isOfNode === true ? 'none' : 'doubt', fault: 'error status' };
  }
  const fault = ofHeaders.has(reason) ? (reason as NodeFault) : 'bad answer';
  // An error may be of a proxy before the node that refuses this client's request alone.
  return status < 300
    ? { kind: 'bad answer', cause: reason, blame: 'node', fault }
    : { kind: 'bad answer', cause: `${cause}: ${reason}`, blame: 'doubt', fault };
}

/** Reasons that are faults of the node by the same name. */
const ofHeaders: ReadonlySet<string> = new Set<NodeFault & InvalidAnswerReason>([
  'no ledger headers',
  'absurd ledger headers',
  'head below oldest',
]);

const provokable = new Set([408, 429, 500]);

/** A client could provoke these statuses at every node in turn, so they prove nothing about a node's health. */
function requestMayBeAtFault({ kind }: FailedAttempt, { status }: NodeAnswer | StreamedAnswer): boolean {
  return kind === 'status' && provokable.has(status);
}

/** The failure of the node that the answer is, should another node answer the same read. */
function signOf(kind: AnswerClass, { info }: NodeAnswer | StreamedAnswer, need: Need): FailureSign | undefined {
  if (kind === 'failed') return 'error';
  if (kind === 'refused') return 'refused';
  if (kind !== 'pruned' || need.kind !== 'version' || info === undefined) return undefined;
  // The node's own headers contradict its 410: they are of the ledger info that it decides by (protocol 3).
  return need.version >= info.oldestVersion && need.version <= info.version ? 'error' : undefined;
}

function isContradiction(answer: NodeAnswer, need: Need): need is Extract<Need, { readonly kind: 'version' }> {
  if (need.kind !== 'version' || answer.info === undefined || answer.info.version < need.version) return false;
  return errorCodeOf(answer) === 'version_not_found';
}

/** Whether the request reads state. A broken node still answers looks and fixed answers, and long polls take long. */
export function isStateRead({ need, isIdempotent, isLook, atOnce }: FleetRequest): boolean {
  return isIdempotent && isLook !== true && atOnce === undefined && (need.kind !== 'head' || need.min !== undefined);
}

/** Whether an answer is of an older state than the request needs; up to `head` another node can answer. */
function isBehind({ status, info }: NodeAnswer | StreamedAnswer, need: Need, head: bigint | undefined): boolean {
  if (status >= 500) return false;
  if (need.kind === 'head' && need.min !== undefined) {
    return info === undefined ? status < 300 : info.version < need.min;
  }
  if (need.kind !== 'version' || status < 400 || info === undefined) return false;
  return info.version < need.version && head !== undefined && need.version <= head;
}
