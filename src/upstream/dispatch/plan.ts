/**
 * The plan of a call: the attempts so far, the next step after them, and the answer when no node has more to add. It
 * sends no request: `FleetCall` carries it out.
 */
import { type CancelSignal, GatewayError, type LedgerVersion } from '../../ledger/index.ts';
import type { FleetState } from '../fleet-state.ts';
import type { FailureSign } from '../node/circuits.ts';
import { candidatesOf, type Upstream } from '../node/upstream.ts';
import { type Choice, deepest, deepestUnasked, pick } from '../select/pick.ts';
import {
  type Candidate,
  holdingOf,
  type Need,
  passedOver,
  positionOf,
  trustRank,
  versionOf,
} from '../select/ranking.ts';
import { type AnswerClass, errorCodeOf } from './classify.ts';
import type { NodeAnswer } from './exchange.ts';
import { type SendLimits, UnreachedError } from './fleet-request.ts';

/** Heads do not come this much nearer within a wait. */
const reachableVersions = 1_000_000n;

/** The result of one attempt. */
export type AttemptOutcome<A> = { readonly kind: 'final'; readonly answer: A } | NonFinalOutcome;

/** The result of an attempt that did not end the call. */
export interface NonFinalOutcome {
  readonly kind: Exclude<AnswerClass, 'final'>;
  /** A valid answer, which may go to the client in the end. */
  readonly answer: NodeAnswer | undefined;
  /** Bytes of the request may have reached the node. */
  readonly mayHaveArrived: boolean;
  /** How the node failed, when the failure may be its own. */
  readonly sign?: FailureSign | undefined;
  /** The failure in words of a closed set: `status 500`, `connection cut`. */
  readonly symptom?: string | undefined;
  /** The node shed the request: it refused it as one too many, without work on it. */
  readonly isShed?: boolean;
  /** See `isUnknownRoute`. */
  readonly isUnrouted?: boolean;
  /** The answer is larger than any that is read whole. */
  readonly isTooLarge?: boolean;
}

/** The failure of one node at a request; counts against the node once another has answered it. */
export interface NodeFailure {
  readonly upstream: Upstream;
  readonly sign: FailureSign;
  readonly symptom?: string | undefined;
  /** In ms of `performance.now()`. */
  readonly sentAtMs: number;
}

/** Further attempts at one address after one of several nodes behind it had pruned the data. */
const mostElsewhere = 16;

/**
 * Shared by all calls, which replace these tables and never change them: most calls end with the first answer, and tables
 * of their own would cost each 1 kB.
 */
const noNodes: ReadonlySet<Upstream> = new Set();
const noHeads: ReadonlyMap<Upstream, bigint> = new Map();

/** The attempts of one call so far. */
export class CallHistory {
  /** Nodes that the call does not ask again. */
  asked = noNodes;
  /** These, and those that were asked and may be once more. */
  tried = noNodes;
  attempts = 0;
  /** The node of the last attempt, which may be in flight. */
  lastTried: Upstream | undefined;
  /** Nodes that had not reached the version, with the heads that they reported then. */
  behind = noHeads;
  /** Nodes that gave no usable answer. */
  failed = noNodes;
  /** End of all waits for the version together, in ms of `performance.now()`; absent before the first. */
  waitUntilMs: number | undefined;
  /** The next attempt repeats a node, or follows a wait: it is allowed even after the last one. */
  isRepeating = false;
  /** The call has repeated a node at once after a failure; it does so once. */
  hasRepeated = false;
  /** Nodes that answered that they do not hold the version, block or transaction. */
  prunedAt = noNodes;
  anyPruned = false;
  /** Answers of one of several nodes behind an address that it has pruned the data. */
  #sharedMisses = 0;
  /** Number of answers that the node knows no such route. */
  unrouted = 0;
  /** Outcome of the last attempt that has ended. */
  last: NonFinalOutcome | undefined;
  lastAsked: Upstream | undefined;
  readonly failures: NodeFailure[] = [];
  bestAnswer: { readonly kind: NonFinalOutcome['kind']; readonly answer: NodeAnswer } | undefined;
  /** The gateway chose the version, and no other node had reached it: the gateway chooses another. */
  isLost = false;
  /** The client whose request found no place at a node. */
  queueFullFor: string | undefined;

  /** Whether one of several nodes behind an address has pruned the data: another of them may hold it. */
  get isMissedByShared(): boolean {
    return this.#sharedMisses > 0;
  }

  ask(upstream: Upstream): void {
    this.asked = withNode(this.asked, upstream);
    this.tried = withNode(this.tried, upstream);
    this.lastTried = upstream;
    this.attempts += 1;
    this.isRepeating = false;
  }

  /** Lets the call ask the node once more, which it does at once after one failure only. */
  repeatAtOnce(upstream: Upstream): void {
    this.hasRepeated = true;
    // The budget, a full queue or the deadline may still prevent the repeat: the attempt before it counts.
    this.asked = withoutNodes(this.asked, [upstream]);
    this.isRepeating = true;
  }

  /**
   * Records the end of a wait. The nodes that were asked too early may be asked again; after a wait in vain the node
   * with the highest head, which may have moved since its last report.
   */
  endWait(version: bigint, isReached: boolean, nodes: readonly Candidate<Upstream>[]): void {
    const early = [...this.asked].filter((upstream) => this.hasArrived(upstream, version));
    const last = isReached ? undefined : nearest(nodes);
    this.asked = withoutNodes(this.asked, last === undefined ? early : [last]);
    // The node that arrived may be one that was not asked.
    this.isRepeating = true;
    if (!isReached) this.waitUntilMs = -Infinity;
  }

  /** Whether the node has reached the version, by a report newer than the attempt there. */
  hasArrived(upstream: Upstream, version: bigint): boolean {
    const { head } = upstream;
    return head >= version && head > (this.behind.get(upstream) ?? -1n) && !this.failed.has(upstream);
  }

  record(outcome: NonFinalOutcome, upstream: Upstream, sentAtMs: number): void {
    const { kind, answer, sign, symptom } = outcome;
    this.last = outcome;
    this.lastAsked = upstream;
    if (sign !== undefined) this.failures.push({ upstream, sign, symptom, sentAtMs });
    if (kind === 'failed') this.failed = withNode(this.failed, upstream);
    if (kind === 'behind') this.behind = new Map(this.behind).set(upstream, upstream.head);
    if (kind === 'pruned') this.anyPruned = true;
    if (outcome.isUnrouted === true) this.unrouted += 1;
    // A 404 stays a miss, because another node may be deeper, and a version above a head is waited for.
    const isAskedAgain = kind === 'pruned' && upstream.address.isShared && this.#sharedMisses < mostElsewhere;
    if (isAskedAgain) this.#missAtShared(upstream);
    if (answer === undefined) return;
    if ((kind === 'pruned' || kind === 'absent') && !isAskedAgain)
      this.prunedAt = withNode(this.prunedAt, answer.upstream);
    // An answer about the ledger outranks a broken node's error; among equals the later, deeper node's wins.
    if (kind !== 'failed' || this.bestAnswer === undefined) this.bestAnswer = { kind, answer };
  }

  /** The node is one of several behind its address: the call asks there again. */
  forgetMiss(upstream: Upstream): void {
    this.prunedAt = withoutNodes(this.prunedAt, [upstream]);
    this.#missAtShared(upstream);
    this.isRepeating = true;
  }

  /** The attempt counts for none: another connection may lead to another node. */
  #missAtShared(upstream: Upstream): void {
    this.#sharedMisses += 1;
    this.asked = withoutNodes(this.asked, [upstream]);
    // An attempt there before, which failed or came too early, counts all the same.
    if (!this.failed.has(upstream) && !this.behind.has(upstream)) this.tried = withoutNodes(this.tried, [upstream]);
    this.attempts -= 1;
  }
}

function withNode(nodes: ReadonlySet<Upstream>, upstream: Upstream): ReadonlySet<Upstream> {
  return nodes.size === 0 ? upstream.alone : new Set(nodes).add(upstream);
}

function withoutNodes(nodes: ReadonlySet<Upstream>, gone: readonly Upstream[]): ReadonlySet<Upstream> {
  return new Set([...nodes].filter((upstream) => !gone.includes(upstream)));
}

/** Why a node is asked, an attribute of its span. `... elsewhere`: the answer of the node before it. */
export type AttemptReason =
  | 'first choice'
  | 'hedge'
  | 'retry'
  | 'again after waiting'
  | `${'pruned' | 'behind' | 'absent' | 'refused'} elsewhere`;

/** The reason of the next attempt, unless it is a hedge. */
export function reasonOf({ isRepeating, last }: CallHistory): AttemptReason {
  if (last === undefined) return 'first choice';
  if (isRepeating && last.kind === 'behind') return 'again after waiting';
  return last.kind === 'failed' ? 'retry' : `${last.kind} elsewhere`;
}

/** The state of a call between two attempts. */
export interface CallState {
  readonly fleet: FleetState;
  readonly limits: Pick<SendLimits, 'maxAttempts' | 'waitForVersionMs'>;
  readonly need: Need;
  readonly isIdempotent: boolean;
  readonly history: CallHistory;
  /** The nodes that may be asked, as of now. */
  nodes(): readonly Candidate<Upstream>[];
  readonly deadlineAtMs: number;
  readonly signal: CancelSignal;
}

/** The next step of a call. `isLost`: see `CallHistory`. */
export type Step =
  | {
      readonly kind: 'ask';
      readonly choice: Choice<Upstream>;
      /** A node that was asked, and is the one to ask once more. */
      readonly repeats?: Upstream | undefined;
      /** The attempt takes a token of the budget of retries. */
      readonly isRetry: boolean;
      readonly isLost: boolean;
    }
  /** A trusted node is about to have the version. */
  | { readonly kind: 'wait'; readonly version: LedgerVersion; readonly untilMs: number; readonly isLost: boolean }
  /** No node has more to add, or no time is left. */
  | { readonly kind: 'done'; readonly isLost: boolean };

/** Plans the next step, by the attempts so far and the nodes as of `nowMs`. */
export function plan(call: CallState, nodes: readonly Candidate<Upstream>[], nowMs: number): Step {
  const { history, limits, need, deadlineAtMs, signal } = call;
  const after = stepAfter(call, nodes, nowMs);
  // While a repeat at its only holder is under way, another node may reach the version.
  const isLost = after === undefined ? history.isLost : isChosen(need) && after !== 'ask';
  if (after === 'end' || nowMs >= deadlineAtMs || signal.aborted) return { kind: 'done', isLost };
  const version = versionOf(need);
  if (after === 'wait' && version !== undefined) {
    const untilMs = Math.min(history.waitUntilMs ?? nowMs + limits.waitForVersionMs, deadlineAtMs);
    return { kind: 'wait', version, untilMs, isLost };
  }
  if (after !== 'again') {
    // A repeat and the node that was waited for have an attempt of their own each.
    const most = limits.maxAttempts + (history.isRepeating ? 1 : 0) + (history.hasRepeated ? 1 : 0);
    const choice = history.attempts >= most ? undefined : choose(call, nodes);
    if (choice !== undefined) return { kind: 'ask', choice, isRetry: isRetry(choice, history), isLost };
  }
  const repeats = after === 'again' ? history.lastAsked : holderThatFailed(call, nodes);
  const choice = repeats && choose(call, nodes, repeats);
  return choice === undefined ? { kind: 'done', isLost } : { kind: 'ask', choice, repeats, isRetry: true, isLost };
}

/** The node to ask next; `repeated` may be asked once more. */
export function choose(
  { need, limits, history }: CallState,
  nodes: readonly Candidate<Upstream>[],
  repeated?: Upstream,
): Choice<Upstream> | undefined {
  const { asked, prunedAt, anyPruned, bestAnswer, attempts } = history;
  const isLast = attempts > 0 && attempts >= limits.maxAttempts - 1;
  if (repeated === undefined) return pick(nodes, need, history, { isLast });
  const others = new Set(asked);
  others.delete(repeated);
  return pick(nodes, need, { asked: others, prunedAt, anyPruned, bestAnswer }, { isLast });
}

/** When all nodes shed requests, all are deferred, and the next one's attempt is a retry as well. */
function isRetry({ node }: Choice<Upstream>, { last, hasRepeated }: CallHistory): boolean {
  return hasRepeated || (last?.kind === 'failed' && (last.isShed !== true || node.isDeferred === true));
}

/**
 * The step after the last outcome. `ask`: a node that was not asked may answer. `again`: the node that failed is the only
 * one that has reached the version. `undefined`: a wait or a repeat has settled it.
 */
function stepAfter(
  call: CallState,
  nodes: readonly Candidate<Upstream>[],
  nowMs: number,
): 'ask' | 'again' | 'wait' | 'end' | undefined {
  const { fleet, limits, need, history, isIdempotent } = call;
  const { last, lastAsked } = history;
  if (last === undefined || lastAsked === undefined || history.isRepeating) return undefined;
  if (!isIdempotent && last.mayHaveArrived) return 'end';
  if (last.kind !== 'behind' && last.kind !== 'failed') return undefined;
  const mayReach = ({ upstream, window }: Candidate<Upstream>, position: bigint): boolean =>
    !history.asked.has(upstream) && (window === undefined || position <= window.head);
  // No call waits for a block: after a node without it, only a node that has reported the block is asked.
  if (need.kind === 'block') {
    const isReported = nodes.some((node) => node.window !== undefined && mayReach(node, need.height));
    return last.kind === 'failed' || isReported ? undefined : 'end';
  }
  const version = versionOf(need);
  const head = fleet.head?.version;
  if (version === undefined || head === undefined) return undefined;
  if (version > head + reachableVersions) return last.kind === 'failed' ? undefined : 'end';
  const trusted = nodes.filter((node) => trustRank(node) < passedOver);
  if (trusted.some((node) => mayReach(node, version))) return 'ask';
  const isAwaited = trusted.some(({ upstream, health }) => health === 'usable' && !history.failed.has(upstream));
  // Without a trusted node to wait for, the answer of a node that is passed over is better than none.
  const isLeft = nodes.some((node) => mayReach(node, version));
  const otherwise = isAwaited && !isLeft ? 'end' : 'ask';
  if (!isAwaited) return otherwise;
  // A node that has just failed mostly answers a repeat at once; the others would have to be waited for. A node that is
  // passed over is asked ahead of a repeat: it may be the only one that answers.
  const hasErred = last.kind === 'failed' && last.sign === 'error';
  const mayRepeat = history.attempts < limits.maxAttempts - 1 && !history.hasRepeated;
  if (hasErred && lastAsked.head >= version && mayRepeat && !isLeft) return 'again';
  const mayWait = !isChosen(need) && nowMs < (history.waitUntilMs ?? Infinity);
  return mayWait ? 'wait' : otherwise;
}

/** Whether the gateway chose the version that the request needs. */
export function isChosen(need: Need): boolean {
  return (need.kind === 'version' || need.kind === 'head') && need.isChosen === true;
}

/** The node with the highest head among usable nodes whose heads are believed. */
function nearest(nodes: readonly Candidate<Upstream>[]): Upstream | undefined {
  const usable = nodes.filter(({ health, isSuspect }) => health === 'usable' && isSuspect !== true);
  return usable.reduce<Upstream | undefined>(
    (best, { upstream }) => (best === undefined || upstream.head > best.head ? upstream : best),
    undefined,
  );
}

/**
 * The node that failed by an error, and may hold what the others lack: it mostly answers a repeat at once. `undefined`:
 * there is none, or the call has repeated a node already.
 */
function holderThatFailed(call: CallState, nodes: readonly Candidate<Upstream>[]): Upstream | undefined {
  const { prunedAt, failures, hasRepeated } = call.history;
  if (hasRepeated || !mayStillBeHeld(call)) return undefined;
  const position = positionOf(call.need);
  const mayHold = ({ upstream, health, window }: Candidate<Upstream>): boolean =>
    health === 'usable' &&
    !prunedAt.has(upstream) &&
    (position === undefined || holdingOf(window, position) !== 'pruned') &&
    failures.some((failure) => failure.upstream === upstream && failure.sign === 'error');
  return nodes.find(mayHold)?.upstream;
}

/** The best answer, unless it would be a false claim about the ledger. Throws `GatewayError` 503 when there is none. */
export function chooseFinalAnswer(call: CallState): NodeAnswer {
  const { signal } = call;
  const attempted = callOf(call);
  if (signal.aborted) {
    const { reason: cause } = signal;
    const reason = (cause instanceof GatewayError ? cause.reason : undefined) ?? 'hung up';
    throw new GatewayError('unavailable', 'the request was abandoned', { cause, reason, ...attempted });
  }
  const { bestAnswer } = call.history;
  const version = versionOf(call.need);
  const isLost = version !== undefined && (call.history.isLost || areOthersBehind(call, version));
  if (isLost && isChosen(call.need)) throw new UnreachedError(version, failedHolders(call, version), attempted.call);
  // An answer from an older state does not count, nor does "not there yet" from a node behind the others.
  const isTooOld = bestAnswer?.kind === 'behind' && (call.need.kind === 'head' || isReached(call));
  if (bestAnswer !== undefined && !isTooOld && !mayStillBeHeld(call)) {
    if (bestAnswer.kind !== 'failed' || errorCodeOf(bestAnswer.answer) !== undefined) return bestAnswer.answer;
  }
  const { queueFullFor } = call.history;
  if (queueFullFor !== undefined) {
    const full = { reason: 'nodes full', client: queueFullFor, ...attempted } as const;
    throw new GatewayError('unavailable', 'the nodes are at capacity; try again', full);
  }
  const waitMs = withheldForMs(call, performance.now());
  if (isLost && waitMs === undefined) throw new UnreachedError(version, failedHolders(call, version), attempted.call);
  throw unavailable(call, waitMs);
}

function callOf({ history: { attempts, lastTried } }: CallState): {
  readonly call?: NonNullable<GatewayError['call']>;
} {
  return attempts === 0 ? {} : { call: { attempts, upstream: lastTried?.name } };
}

/** Whether the ledger has reached the version, and a believed node that has not failed here is behind it. */
function areOthersBehind(call: CallState, version: bigint): boolean {
  const { head } = call.fleet;
  const { failed } = call.history;
  if (head === undefined || version > head.version) return false;
  return call.nodes().some(({ upstream }) => upstream.isTrusted && upstream.head < version && !failed.has(upstream));
}

function failedHolders({ history: { tried } }: CallState, version: bigint): readonly Upstream[] {
  return [...tried].filter(({ head }) => head >= version);
}

/** Ms until one of the nodes that may answer takes requests again; `undefined`: one does now, or none is known. */
function withheldForMs(call: CallState, nowMs: number): number | undefined {
  const { prunedAt } = call.history;
  const position = positionOf(call.need);
  let leastMs: number | undefined;
  for (const { upstream, health, window } of call.nodes()) {
    const isFutile = position !== undefined && holdingOf(window, position) === 'pruned';
    if (health === 'down' || prunedAt.has(upstream) || isFutile) continue;
    const waitMs = upstream.withheldForMs(nowMs);
    if (waitMs === 0) return undefined;
    leastMs = Math.min(waitMs, leastMs ?? Infinity);
  }
  return leastMs;
}

/** Whether the ledger has reached the version or block that the request needs. */
function isReached({ fleet: { head }, need }: CallState): boolean {
  if (head === undefined) return false;
  return need.kind === 'block' ? need.height <= head.blockHeight : (positionOf(need) ?? head.version) <= head.version;
}

/**
 * Whether a node without an answer may hold the data that the others have pruned: a client must not get their 410 then.
 */
function mayStillBeHeld(call: CallState): boolean {
  const { fleet, need } = call;
  const { prunedAt, anyPruned } = call.history;
  if (prunedAt.size === 0 && !anyPruned) return false;
  // A drained node holds its data, though it is not asked.
  const drained = candidatesOf(fleet, performance.now(), need).filter(({ isDrained }) => isDrained === true);
  const nodes = [...call.nodes(), ...drained.filter(({ health }) => health !== 'foreign')];
  // The history of an archival node is unknown while it reports another chain, and it may be the deepest.
  if (fleet.upstreams.some(({ health, tier }) => health === 'foreign' && tier === 'archival')) return true;
  if (need.kind === 'transaction') {
    // Only the node of the submission surely has the transaction in its mempool.
    const submittedTo = nodes.find(({ name }) => name === need.submittedTo)?.upstream;
    const last = deepest(nodes)?.upstream;
    return [submittedTo, last].some((upstream) => upstream !== undefined && !prunedAt.has(upstream));
  }
  const position = positionOf(need);
  if (position === undefined) return deepestUnasked(nodes, prunedAt) !== undefined;
  return nodes.some(({ upstream, window }) => {
    const isOpen = !prunedAt.has(upstream) || upstream.address.isShared;
    return isOpen && holdingOf(window, position) !== 'pruned';
  });
}

/** The 503 of a call without an answer. `waitMs`: until a node that may answer takes requests again. */
function unavailable(call: CallState, waitMs: number | undefined): GatewayError {
  const { fleet, need } = call;
  const { prunedAt, tried, unrouted } = call.history;
  const headers = waitMs === undefined ? [] : ['Retry-After', String(Math.ceil(waitMs / 1000))];
  const facts = { headers, ...callOf(call) };
  if (fleet.upstreams.every(({ health }) => health === 'foreign'))
    return new GatewayError('unavailable', 'all nodes report another chain', { ...facts, reason: 'other chain' });
  const head = fleet.head?.version ?? 0n;
  if (need.kind === 'head' && need.min !== undefined && head < need.min)
    return new GatewayError(
      'unavailable',
      `the ledger is at version ${head} here, and version ${need.min} was asked for; try again`,
      { ...facts, reason: 'not reached' },
    );
  const position = positionOf(need);
  const subject =
    position === undefined ? 'this request' : `${need.kind === 'block' ? 'block' : 'ledger version'} ${position}`;
  const counts = [`${tried.size} asked`, ...(unrouted > 0 ? [`${unrouted} without this route`] : [])];
  const why = [...counts, ...faultsOf(fleet)].join(', ');
  let reason: GatewayError['reason'] = tried.size === 0 ? 'no node' : 'nodes failed';
  if (prunedAt.size > 0) reason = 'holders away';
  if (waitMs !== undefined) reason = 'nodes paused';
  if (prunedAt.size === 0)
    return new GatewayError('unavailable', `no node answered ${subject} (${why}); try again`, { ...facts, reason });
  return new GatewayError(
    'unavailable',
    `the nodes that may hold ${subject} cannot be reached or are drained (${why}); try again`,
    { ...facts, reason },
  );
}

/** Reasons why nodes are not usable, each with the number of its nodes; no names, because some contain addresses. */
function faultsOf({ upstreams }: FleetState): readonly string[] {
  const counts = new Map<string, number>();
  for (const { fault, isDrained } of upstreams)
    if (fault !== undefined && !isDrained) counts.set(fault, (counts.get(fault) ?? 0) + 1);
  const drained = upstreams.filter(({ isDrained }) => isDrained).length;
  return [
    ...[...counts].map(([fault, count]) => `${count} down: ${fault}`),
    ...(drained > 0 ? [`${drained} drained`] : []),
  ];
}
