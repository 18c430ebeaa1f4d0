/** The attempts of one call to the fleet. */
import type { AnswerClass } from './classify.ts';
import type { FailureSign } from '../node/ejection.ts';
import type { NodeAnswer } from './exchange.ts';
import type { Upstream } from '../node/upstream.ts';

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
  /** The node shed the request: it refused it as one too many, without work on it. */
  readonly isShed?: boolean;
  /** The answer is larger than any that is read whole. */
  readonly isTooLarge?: boolean;
}

/** The failure of one node at a request; counts against the node once another has answered it. */
export interface NodeFailure {
  readonly upstream: Upstream;
  readonly sign: FailureSign;
  /** In ms of `performance.now()`. */
  readonly sentAtMs: number;
}

/** The attempts of one call so far. */
export class AttemptHistory {
  /** Nodes that the call does not ask again. */
  readonly asked = new Set<Upstream>();
  attempts = 0;
  /** Nodes that had not reached the version, with the heads that they reported then. */
  readonly behind = new Map<Upstream, bigint>();
  /** Nodes that gave no usable answer. */
  readonly failed = new Set<Upstream>();
  /** End of all waits for the version together, in ms of `performance.now()`; absent before the first. */
  waitUntilMs: number | undefined;
  /** The next attempt repeats a node, or follows a wait: it is allowed even after the last one. */
  isRepeating = false;
  /** The call has repeated a node at once after a failure; it does so once. */
  hasRepeated = false;
  /** Nodes that answered that they do not hold the version, block or transaction. */
  readonly prunedAt = new Set<Upstream>();
  anyPruned = false;
  last: NonFinalOutcome | undefined;
  readonly failures: NodeFailure[] = [];
  /** The best answer so far; none was final. */
  bestAnswer: { readonly kind: NonFinalOutcome['kind']; readonly answer: NodeAnswer } | undefined;
  /** The client whose request found no place at a node. */
  queueFullFor: string | undefined;

  /** Records that an attempt at `upstream` begins. */
  ask(upstream: Upstream): void {
    this.asked.add(upstream);
    this.attempts += 1;
    this.isRepeating = false;
  }

  /** Lets the call ask the node once more. */
  repeat(upstream: Upstream): void {
    this.asked.delete(upstream);
    this.isRepeating = true;
  }

  /** Records the end of an attempt. `sentAtMs`: in ms of `performance.now()`. */
  record(outcome: NonFinalOutcome, upstream: Upstream, sentAtMs: number): void {
    const { kind, answer, sign } = outcome;
    this.last = outcome;
    if (sign !== undefined) this.failures.push({ upstream, sign, sentAtMs });
    if (kind === 'failed') this.failed.add(upstream);
    if (kind === 'behind') this.behind.set(upstream, upstream.head);
    if (kind === 'pruned') this.anyPruned = true;
    if (answer === undefined) return;
    if (kind === 'pruned' || kind === 'absent') this.prunedAt.add(answer.upstream);
    // An answer about the ledger outranks a broken node's error; among equals the later, deeper node's wins.
    if (kind !== 'failed' || this.bestAnswer === undefined) this.bestAnswer = { kind, answer };
  }
}

/** Why a node is asked, an attribute of its span. `... elsewhere`: the answer of the node before it. */
export type AttemptReason =
  | 'first choice'
  | 'hedge'
  | 'retry'
  | 'again after waiting'
  | `${'pruned' | 'behind' | 'absent' | 'refused'} elsewhere`;

/** The reason of the next attempt, unless it is a hedge. */
export function reasonOf({ isRepeating, last }: AttemptHistory): AttemptReason {
  if (last === undefined) return 'first choice';
  if (isRepeating && last.kind === 'behind') return 'again after waiting';
  return last.kind === 'failed' ? 'retry' : `${last.kind} elsewhere`;
}
