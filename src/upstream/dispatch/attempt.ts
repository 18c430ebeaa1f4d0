/** One request to one node: the exchange, the class of the answer, and the record of both in the node's state. */
import { performance } from 'node:perf_hooks';
import { type CancelSignal, doneOrStopped, GatewayError, type LedgerInfo } from '../../ledger/index.ts';
import type { Deadline } from '../deadline.ts';
import type { NodeFault } from '../node/node-fault.ts';
import type { FailureKind } from '../upstream-metrics.ts';
import type { Span } from '../../metrics/index.ts';
import {
  type AttemptOutcome,
  endSpan,
  recordAnswer,
  recordFailure,
  recordShedding,
  recordTime,
  type FailedAttempt,
} from './attempt-history.ts';
import { createAnswerBudget, OverBudgetError, TooLargeError, type ByteBudget } from '../byte-budget.ts';
import {
  classifyAnswer,
  errorCodeOf,
  findShedding,
  isUnknownRoute,
  type AnswerClass,
  validateAnswer,
  type InvalidAnswerReason,
} from './classify.ts';
import type { Shedding } from '../node/deferral.ts';
import type { FailureSign } from '../node/ejection.ts';
import {
  isUnsendable,
  type AnswerHead,
  type ExchangeContext,
  type NodeAnswer,
  type Progress,
  type StreamedAnswer,
} from './exchange.ts';
import type { FleetRequest, SenderParts } from './fleet-request.ts';
import { faultOfError } from '../node/node-fault.ts';
import { overLiveConnection } from '../node/live-connection.ts';
import type { Need, ReadClass } from '../select/ranking.ts';
import { onceClosed } from './node-stream.ts';
import type { Permit } from './queue.ts';
import type { Upstream } from '../node/upstream.ts';

/** Sends a request to one node. `A`: a whole or a streamed answer. */
export type Fetch<A> = (upstream: Upstream, context: ExchangeContext) => Promise<A>;

/** Options of one attempt, which closes `permit` and ends `deadline` and `span`. */
export interface AttemptOptions {
  readonly permit: Permit;
  /** Bounds the time to the answer's head (streamed) or end (whole), and until the chain of the answer is settled. */
  readonly deadline: Deadline;
  /** Class of the read in the node's statistics; `undefined`: a request without state, or a long poll. */
  readonly readClass: ReadClass | undefined;
  readonly span?: Span | undefined;
  /** See `ExchangeContext.isElsewhere`. */
  readonly isElsewhere?: boolean;
}

/** Sends requests to single nodes, and records the outcomes. */
export class Attempts {
  readonly #parts: SenderParts;
  readonly #mayRepeat: () => boolean;
  readonly #budget: ByteBudget;

  /** `mayRepeat`: whether a request that was lost with its connection may be sent once more. */
  constructor(parts: SenderParts, mayRepeat: () => boolean) {
    this.#parts = parts;
    this.#mayRepeat = mayRepeat;
    this.#budget = parts.budget ?? createAnswerBudget();
  }

  /** Sends `request` to the permit's node. Throws `GatewayError` 400 for a request that HTTP forbids. */
  async make<A extends NodeAnswer | StreamedAnswer>(
    request: FleetRequest,
    fetch: Fetch<A>,
    options: AttemptOptions,
  ): Promise<AttemptOutcome<A>> {
    const { permit, deadline, span, isElsewhere } = options;
    const { upstream } = permit;
    const startedMs = performance.now();
    const isQueued = permit.kind !== 'look' && upstream.isBusy;
    const progress: Progress = { sentAtMs: undefined, isAnswered: false };
    const { dialect } = this.#parts.fleet;
    const traceHeaders = span?.headers();
    const { client } = request;
    const context = { dialect, signal: deadline, progress, budget: this.#budget, client, traceHeaders, isElsewhere };
    const exchange = (): Promise<A> => fetch(upstream, context);
    const mayRepeat = (): boolean => this.#mayRepeat() && permit.mayRepeat();
    let answer: A;
    try {
      answer = await (request.isIdempotent ? overLiveConnection(exchange, progress, deadline, mayRepeat) : exchange());
    } catch (error) {
      deadline.end();
      if (progress.sentAtMs === undefined) permit.cancel();
      else permit.close();
      if (isUnsendable(error)) {
        endSpan(span, 'failed', 'unsendable');
        throw new GatewayError('malformed', 'the request cannot be sent on', { cause: error });
      }
      const hasWaited = isQueued && progress.sentAtMs === undefined;
      return this.#failed(error, hasWaited, progress.sentAtMs !== undefined, startedMs, options);
    }
    permit.answered();
    upstream.endSilence();
    if ('stream' in answer) {
      onceClosed(answer.stream, () => {
        deadline.end();
        permit.close();
      });
    } else permit.close();
    if (answer.info !== undefined) this.#parts.addresses?.observe(upstream, answer.info, startedMs, performance.now());
    const isSettled = this.#isOurs(answer, deadline);
    const isOurs = typeof isSettled === 'boolean' ? isSettled : await isSettled;
    if ('stream' in answer) deadline.release();
    else deadline.end();
    return this.#answered(request, answer, isOurs, startedMs, options);
  }

  #failed<A>(
    error: unknown,
    hasWaited: boolean,
    mayHaveArrived: boolean,
    startedMs: number,
    { permit: { upstream }, deadline, readClass, span }: AttemptOptions,
  ): AttemptOutcome<A> {
    const kind = kindOf(error, deadline, hasWaited);
    if (deadline.isAbandoned) endSpan(span, 'cancelled');
    else {
      const nowMs = performance.now();
      recordFailure(this.#parts, upstream, nowMs - startedMs, {
        kind,
        cause: String(error),
        blame: blameFor[kind] ?? 'none',
        fault: faultOfError(error),
      });
      // A client chooses the duration of its view.
      if (kind === 'timeout' && readClass !== 'view') upstream.places.pushBack(nowMs);
      endSpan(span, 'failed', kind);
    }
    // An attempt that was never sent, or whose answer is too large, is no sign against the node.
    const sign = kind === 'connection' ? 'error' : kind === 'timeout' && mayHaveArrived ? 'timeout' : undefined;
    const symptom = sign === 'error' ? faultOfError(error) : undefined;
    const isTooLarge = error instanceof TooLargeError;
    return { kind: 'failed', answer: undefined, mayHaveArrived, sign, symptom, isTooLarge };
  }

  #answered<A extends NodeAnswer | StreamedAnswer>(
    request: FleetRequest,
    answer: A,
    isOurs: boolean,
    startedMs: number,
    { readClass, span }: AttemptOptions,
  ): AttemptOutcome<A> {
    const { upstream, info } = answer;
    const nowMs = performance.now();
    const elapsedMs = nowMs - startedMs;
    const reason = validateAnswer(answer, request, this.#parts.fleet.dialect);
    const isValid = isOurs && reason === undefined;
    if (isValid && info !== undefined) this.#recordHeaders(answer, info, request);
    const kind = isValid ? this.#classify(answer, request) : 'failed';
    const shedding = isValid && kind === 'failed' ? findShedding(answer, Date.now()) : undefined;
    const failure = kind === 'failed' ? failureOf(answer, isOurs, reason, shedding) : undefined;
    const isUnrouted = isUnknownRoute(answer);
    if (failure === undefined || requestMayBeAtFault(failure, answer)) {
      // A node whose ledger info has failed is not proven by an error: it may fail at everything.
      const isOfNode = !isUnrouted && (failure === undefined || upstream.health !== 'down');
      recordAnswer(this.#parts, upstream, answer.status, elapsedMs, { isOfNode, isFailure: failure !== undefined });
    } else recordFailure(this.#parts, upstream, elapsedMs, failure);
    endSpan(span, kind, failure?.kind, answer.status);
    const isShed = shedding !== undefined;
    const sign = isShed ? undefined : signOf(kind, answer, request.need);
    if (shedding !== undefined) recordShedding(this.#parts, upstream, startedMs, shedding);
    else if (sign === undefined)
      recordTime(this.#parts, upstream, startedMs, elapsedMs, request.isLook === true ? 'look' : readClass);
    if (kind === 'pruned' && request.need.kind === 'version') {
      const { version } = request.need;
      this.#parts.fleet.recordRefusal(upstream, version, nowMs);
      this.#parts.log.debug({ upstream: upstream.name, version }, 'version pruned at upstream');
    }
    if (kind === 'behind' && 'body' in answer && isContradiction(answer, request.need)) {
      this.#parts.fleet.ledger.contradict(upstream, request.need.version, nowMs);
    }
    // A node's answer to a submission is final: no other node may get the submission.
    if (kind === 'final' || (!request.isIdempotent && isOurs)) return { kind: 'final', answer };
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

  /** Whether the answer is of the fleet's chain. While the chain is in doubt, waits for the look that decides. */
  #isOurs({ upstream, info }: NodeAnswer | StreamedAnswer, signal: CancelSignal): boolean | Promise<boolean> {
    const { fleet, onDoubt } = this.#parts;
    if (info === undefined) return true;
    const isOurs = fleet.observe(upstream, info, performance.now());
    if (isOurs || upstream.chain.doubted === undefined) return isOurs;
    return doneOrStopped(onDoubt(upstream), signal).then(
      () => fleet.isOurs(upstream, info) && fleet.observe(upstream, info, performance.now()),
    );
  }

  #recordHeaders({ upstream, status, headers }: AnswerHead, info: LedgerInfo, { isLook }: FleetRequest): void {
    const { headersOfLedger } = this.#parts.fleet;
    if (isLook === true && status === 200) headersOfLedger.onLook({ upstream, info, headers });
    else headersOfLedger.onReport(upstream, info, headers);
  }

  #classify(answer: NodeAnswer | StreamedAnswer, { need, isHealthCheck, isOfClient }: FleetRequest): AnswerClass {
    if (isOfClient !== true && isUnknownRoute(answer)) return 'refused';
    if (isBehind(answer, need, this.#parts.fleet.head?.version)) return 'behind';
    return 'stream' in answer ? 'final' : classifyAnswer(answer, need, isHealthCheck);
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

/** Whether the node calls a version not found that its own headers report. */
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
