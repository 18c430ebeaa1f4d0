/** The course of one request through the fleet: what each attempt came to, and what was heard so far. */
import type { Sign } from './ejection.ts';
import type { NodeAnswer } from './exchange.ts';
import type { Upstream } from './upstream.ts';
import type { Verdict } from './verdict.ts';

/** What one attempt came to. */
export type Outcome<A> = { readonly verdict: 'final'; readonly answer: A } | Setback;

/** An attempt that did not end the search; `answer` is kept where it is worth passing on. */
export interface Setback {
  readonly verdict: Exclude<Verdict, 'final'>;
  readonly answer: NodeAnswer | undefined;
  readonly mayHaveArrived: boolean;
  /** How the node failed, where it may be its own doing. */
  readonly sign?: Sign | undefined;
  /** The node refused the request as one too many, and did not work on it. */
  readonly isNotNow?: boolean;
}

/** What a node did worse than the one that answered. */
export interface Failure {
  readonly upstream: Upstream;
  readonly sign: Sign;
  /** In ms of `performance.now()`. */
  readonly sentAtMs: number;
}

/** What has been asked and heard so far for one request. */
export class Course {
  /** Nodes that need not be asked any more. */
  readonly asked = new Set<Upstream>();
  /** Questions so far. */
  attempts = 0;
  /** Nodes that had not got to the version, and their heads as known then. */
  readonly behind = new Map<Upstream, bigint>();
  /** Nodes that gave no usable answer. */
  readonly failed = new Set<Upstream>();
  /** Until when the version is waited for, all waits together, in ms of `performance.now()`. Absent: none has begun. */
  waitUntilMs: number | undefined;
  /** A node is asked again, or was waited for: one more attempt is left, even after the last one. */
  isRepeating = false;
  /** A node that failed was asked again at once: once is enough. */
  hasRepeated = false;
  /** Nodes that said, of themselves, that they do not hold what was asked for. */
  readonly refusers = new Set<Upstream>();
  sawPruned = false;
  /** The last attempt failed: another one is a retry. */
  hasFailed = false;
  /** The last attempt was refused as one too many: a first one elsewhere adds no work. */
  isNotNow = false;
  /** What the last attempt came to. */
  last: Setback['verdict'] | undefined;
  readonly failures: Failure[] = [];
  /** The client for whom no place at a node was to be had. */
  crowded: string | undefined;
  /** In ms of `performance.now()`. */
  readonly deadlineAtMs: number;
  kept: { readonly verdict: Verdict; readonly answer: NodeAnswer } | undefined;

  constructor(deadlineAtMs: number) {
    this.deadlineAtMs = deadlineAtMs;
  }

  /** A node has said that it does not hold what is asked for. */
  get isMissed(): boolean {
    return this.sawPruned || this.refusers.size > 0;
  }

  ask(upstream: Upstream): void {
    this.asked.add(upstream);
    this.attempts += 1;
    this.isRepeating = false;
  }

  /** The node may be asked once more. */
  repeat(upstream: Upstream): void {
    this.asked.delete(upstream);
    this.isRepeating = true;
  }

  take({ verdict, answer, sign, isNotNow = false }: Setback, upstream: Upstream, sentAtMs: number): void {
    this.last = verdict;
    this.hasFailed = verdict === 'failed';
    this.isNotNow = isNotNow;
    if (sign !== undefined) this.failures.push({ upstream, sign, sentAtMs });
    if (verdict === 'failed') this.failed.add(upstream);
    if (verdict === 'behind') this.behind.set(upstream, upstream.window.info?.version ?? -1n);
    if (verdict === 'pruned') this.sawPruned = true;
    if (answer === undefined) return;
    if (verdict === 'pruned' || verdict === 'absent') this.refusers.add(answer.upstream);
    // A statement about the ledger tells more than a broken node's error; of equals the later, deeper node's.
    if (verdict !== 'failed' || this.kept === undefined) this.kept = { verdict, answer };
  }
}
