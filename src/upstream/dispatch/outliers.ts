/** Ejects nodes that do worse than the others, and returns them by trials (see `Ejection`). */
import type { Fetch } from './attempt.ts';
import type { NodeAnswer, StreamedAnswer } from './exchange.ts';
import { fetchWhole } from './fetch-whole.ts';
import type { FleetRequest, SenderParts } from './fleet-request.ts';
import type { AttemptOutcome, NodeFailure, NonFinalOutcome } from './plan.ts';
import { Allowance, LedgerVersion, withVersion } from '../../ledger/index.ts';
import { longestPauseMs } from '../node/circuits.ts';
import { positionOf, readClasses, type Need, type ReadClass, holdingOf } from '../select/ranking.ts';
import { candidatesOf, type Upstream } from '../node/upstream.ts';

/** Sends a copy of a read in the background; `undefined`: the end of the process cut it off. */
type SendTrial = <A extends NodeAnswer | StreamedAnswer>(
  request: FleetRequest,
  fetch: Fetch<A>,
  upstream: Upstream,
  readClass: ReadClass,
) => Promise<AttemptOutcome<A> | undefined>;

/** Repeats of unanswered reads a second, and at once: enough to eject a node within a second. */
const repeatsPerSecond = 5;
/** A node that repeats have ejected is looked after this often, in ms. */
const trialsEveryMs = 1_000;

const fetchRead: Fetch<NodeAnswer> = (node, { wire }, context) => fetchWhole(node, wire, context);

/** Compares nodes by reads that another node answered. */
export class Outliers {
  /** Nodes that may be ejected for a class; `#dueForTrial` removes those that are not. */
  readonly out = new Set<Upstream>();
  readonly #parts: SenderParts;
  readonly #send: SendTrial;
  readonly #isAnsweredBy: (request: FleetRequest, notOf: readonly Upstream[]) => Promise<boolean>;
  readonly #repeats = new Allowance(repeatsPerSecond);

  /** `isAnsweredBy`: whether a node that is not in `notOf` gives a final answer. */
  constructor(
    parts: SenderParts,
    send: SendTrial,
    isAnsweredBy: (request: FleetRequest, notOf: readonly Upstream[]) => Promise<boolean>,
  ) {
    this.#parts = parts;
    this.#send = send;
    this.#isAnsweredBy = isAnsweredBy;
  }

  /**
   * Compares the nodes that failed a read with `answering`, and sends a copy to an ejected one when its trial is due.
   */
  compare<A extends NodeAnswer | StreamedAnswer>(
    request: FleetRequest,
    fetch: Fetch<A>,
    readClass: ReadClass,
    answering: Upstream,
    failures: readonly NodeFailure[],
  ): void {
    if (failures.length > 0) this.#blame(readClass, failures);
    if (this.out.size === 0) return;
    const upstream = this.#dueForTrial(readClass, request.need);
    if (upstream === undefined || upstream === answering) return;
    void this.#try(request, fetch, upstream, readClass);
  }

  /**
   * Repeats a read that no node answered at the newest version of the other nodes: a node that is far ahead of them,
   * and fails reads, could be compared with none of them otherwise. It is a client's read, and no probe: a node that
   * fails views alone answers that (test/journeys/faults/failing-leader).
   */
  repeat(request: FleetRequest, readClass: ReadClass, [failure]: readonly NodeFailure[]): void {
    if (failure === undefined) return;
    const { upstream } = failure;
    const others = this.#parts.fleet.upstreams.filter((other) => other !== upstream && other.isTrusted);
    const version = others.reduce((newest, { head }) => (head > newest ? head : newest), -1n);
    if (version < 0n || version >= (positionOf(request.need) ?? upstream.head)) return;
    const below = atVersion(request, LedgerVersion.of(version));
    if (below === undefined || !this.#repeats.withdraw(performance.now())) return;
    void this.#compareBy(below, readClass, upstream);
  }

  #blame(readClass: ReadClass, failures: readonly NodeFailure[]): void {
    for (const { upstream, sign, symptom, sentAtMs } of failures) {
      const nowMs = performance.now();
      const ejection = upstream.ejections[readClass];
      const pauseMs = ejection.failed(sign, sentAtMs, nowMs, this.#othersShare(upstream, readClass, nowMs));
      const { reason } = ejection;
      if (pauseMs === undefined || reason === undefined) continue;
      const { metrics, log } = this.#parts;
      ejection.symptom = symptom;
      this.out.add(upstream);
      metrics.ejected(upstream.name, readClass, reason);
      const fields = { upstream: upstream.name, readClass, reason, symptom, pauseMs };
      log.record('ejected', fields, 'upstream is passed over: others answer reads that it does not');
    }
  }

  async #compareBy(request: FleetRequest, readClass: ReadClass, upstream: Upstream): Promise<void> {
    const sentAtMs = performance.now();
    const outcome = await this.#send(request, fetchRead, upstream, readClass);
    const { sign, symptom } = (outcome === undefined ? undefined : unanswered(outcome)) ?? {};
    if (sign === undefined || !(await this.#isAnsweredBy(request, [upstream]))) return;
    const ejection = upstream.ejections[readClass];
    if (ejection.isOut) return;
    this.#blame(readClass, [{ upstream, sign, symptom, sentAtMs }]);
    if (ejection.isOut) this.#tryOften(request, readClass, upstream);
  }

  /** Holds trials with `request`: while the others are behind, they may answer no client's read to copy. */
  #tryOften(request: FleetRequest, readClass: ReadClass, upstream: Upstream): void {
    const next = async (): Promise<void> => {
      const ejection = upstream.ejections[readClass];
      if (upstream.isRemoved || !ejection.isOut) return;
      const isDue = ejection.beginTrial(performance.now(), this.#parts.limits.timeoutMs);
      if (isDue && !(await this.#try(request, fetchRead, upstream, readClass))) return;
      this.#tryOften(request, readClass, upstream);
    };
    setTimeout(() => void next(), trialsEveryMs).unref();
  }

  /** Carries out a trial that has begun. Returns false when the end of the process cut it off. */
  async #try<A extends NodeAnswer | StreamedAnswer>(
    request: FleetRequest,
    fetch: Fetch<A>,
    upstream: Upstream,
    readClass: ReadClass,
  ): Promise<boolean> {
    const outcome = await this.#send(request, fetch, upstream, readClass);
    if (outcome === undefined) return false;
    this.#endTrial(readClass, upstream, unanswered(outcome));
    return true;
  }

  /** Begins the trial of a node that is ejected for the class and holds the version, when one is due. */
  #dueForTrial(readClass: ReadClass, need: Need): Upstream | undefined {
    const nowMs = performance.now();
    const position = positionOf(need);
    for (const { upstream, window, health } of candidatesOf(this.#parts.fleet, nowMs, need)) {
      if (health === 'foreign' || (position !== undefined && holdingOf(window, position) !== 'held')) continue;
      if (!upstream.mayBeAskedMore(nowMs)) continue;
      if (upstream.ejections[readClass].beginTrial(nowMs, this.#parts.limits.timeoutMs)) return upstream;
    }
    for (const upstream of this.out) {
      const isOut = readClasses.some((each) => upstream.ejections[each].isOut);
      if (upstream.isRemoved || !isOut) this.out.delete(upstream);
    }
    return undefined;
  }

  #endTrial(readClass: ReadClass, upstream: Upstream, failure: NonFinalOutcome | undefined): void {
    const { log } = this.#parts;
    const pauseMs = upstream.ejections[readClass].endTrial(failure === undefined, performance.now());
    const fields = { upstream: upstream.name, readClass };
    if (pauseMs === undefined) return log.record('back', fields, 'upstream is no longer passed over');
    if (failure === undefined) return;
    const failed = { ...fields, symptom: failure.symptom, pauseMs };
    // Each longer pause has a line; the longest one repeats for as long as the node fails.
    if (pauseMs < longestPauseMs) log.record('trial failed', failed, 'upstream stays passed over: a trial failed');
    else log.debug(failed, 'upstream stays passed over');
  }

  #othersShare(upstream: Upstream, readClass: ReadClass, nowMs: number): number {
    const others = this.#parts.fleet.upstreams.filter(
      (other) => other !== upstream && !other.ejections[readClass].isOut,
    );
    return Math.max(0, ...others.map(({ ejections }) => ejections[readClass].errorShare(nowMs)));
  }
}

/** The outcome, unless it is an answer; a node that has not reached a version, or has pruned it, has answered. */
function unanswered<A extends NodeAnswer | StreamedAnswer>(outcome: AttemptOutcome<A>): NonFinalOutcome | undefined {
  if (outcome.kind !== 'final') return outcome.kind === 'failed' || outcome.sign !== undefined ? outcome : undefined;
  if ('stream' in outcome.answer) outcome.answer.stream.destroy();
  return undefined;
}

const pinned = /(?<=[?&]ledger_version=)\d+/;

/** The read of the same state at `version`, for the gateway itself; `undefined`: it reads no state. */
function atVersion(
  { wire, need: { kind }, isIdempotent, promised, isContent, isView = false }: FleetRequest,
  version: LedgerVersion,
): FleetRequest | undefined {
  if (kind !== 'head' && !pinned.test(wire.path)) return undefined;
  const path = kind === 'head' ? withVersion(wire.path, version) : wire.path.replace(pinned, String(version));
  const need = { kind: 'version', version } as const;
  return { wire: { ...wire, path }, need, isIdempotent, promised, isContent, isView };
}
