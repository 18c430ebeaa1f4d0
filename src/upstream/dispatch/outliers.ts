/** Ejects nodes that do worse than the others, and returns them by trials (see `Ejection`). */
import type { NodeFailure, AttemptOutcome } from './attempt-history.ts';
import type { Fetch } from './attempt.ts';
import { candidatesOf } from '../fleet-view.ts';
import { unitOf } from '../select/candidates.ts';
import type { NodeAnswer, StreamedAnswer } from './exchange.ts';
import type { FleetRequest, SenderParts } from './fleet-request.ts';
import { positionOf, readClasses, type Need, type ReadClass, holdingOf } from '../select/ranking.ts';
import type { Upstream } from '../node/upstream.ts';

/** Sends a copy of a read to `upstream` in the background; `undefined`: the end of the process cut it off. */
type SendTrial = <A extends NodeAnswer | StreamedAnswer>(
  request: FleetRequest,
  fetch: Fetch<A>,
  upstream: Upstream,
  readClass: ReadClass,
) => Promise<AttemptOutcome<A> | undefined>;

/** Compares nodes by reads that another node answered. */
export class Outliers {
  readonly #parts: SenderParts;
  readonly #send: SendTrial;
  /** Nodes that may be ejected for a class; `#dueForTrial` removes those that are not. */
  readonly #out = new Set<Upstream>();

  constructor(parts: SenderParts, send: SendTrial) {
    this.#parts = parts;
    this.#send = send;
  }

  /** Records failures at a read that another node answered, or one of these when the call repeated it. */
  blame(readClass: ReadClass, failures: readonly NodeFailure[]): void {
    for (const { upstream, sign, sentAtMs } of failures) {
      const nowMs = performance.now();
      const ejection = upstream.ejections[readClass];
      const pauseMs = ejection.failed(sign, sentAtMs, nowMs, this.#othersShare(upstream, readClass, nowMs));
      const { reason } = ejection;
      if (pauseMs === undefined || reason === undefined) continue;
      const { metrics, log } = this.#parts;
      this.#out.add(upstream);
      metrics.ejected(upstream.name, readClass, reason);
      const fields = { upstream: upstream.name, readClass, reason, pauseMs };
      log.record('ejected', fields, 'upstream is passed over: others answer reads that it does not');
    }
  }

  /** Sends an ejected node a copy of a read that `answering` has answered, when its trial is due. */
  tryOut<A extends NodeAnswer | StreamedAnswer>(
    request: FleetRequest,
    fetch: Fetch<A>,
    readClass: ReadClass,
    answering: Upstream,
  ): void {
    if (this.#out.size === 0) return;
    const upstream = this.#dueForTrial(readClass, request.need);
    if (upstream === undefined || upstream === answering) return;
    void this.#send(request, fetch, upstream, readClass).then((outcome) => {
      if (outcome === undefined) return;
      if (outcome.kind === 'final' && 'stream' in outcome.answer) outcome.answer.stream.destroy();
      // A node that has not reached a version, or has pruned it, has answered; a failure of its own has a sign.
      const isAnswered = outcome.kind === 'final' || (outcome.kind !== 'failed' && outcome.sign === undefined);
      this.#endTrial(readClass, upstream, isAnswered);
    });
  }

  /** Begins the trial of a node that is ejected for the class and holds the version, when one is due. */
  #dueForTrial(readClass: ReadClass, need: Need): Upstream | undefined {
    const nowMs = performance.now();
    const position = positionOf(need);
    for (const { upstream, window, health } of candidatesOf(this.#parts.fleet, nowMs, unitOf(need))) {
      if (health === 'foreign' || (position !== undefined && holdingOf(window, position) !== 'held')) continue;
      if (!upstream.mayBeAskedMore(nowMs)) continue;
      if (upstream.ejections[readClass].beginTrial(nowMs, this.#parts.limits.timeoutMs)) return upstream;
    }
    for (const upstream of this.#out) {
      const isOut = readClasses.some((each) => upstream.ejections[each].isOut);
      if (upstream.isRemoved || !isOut) this.#out.delete(upstream);
    }
    return undefined;
  }

  #endTrial(readClass: ReadClass, upstream: Upstream, isAnswered: boolean): void {
    const ended = upstream.ejections[readClass].endTrial(isAnswered, performance.now());
    const fields = { upstream: upstream.name, readClass };
    if (ended === true) this.#parts.log.record('back', fields, 'upstream is no longer passed over');
    else if (ended !== false) this.#parts.log.debug({ ...fields, pauseMs: ended }, 'upstream stays passed over');
  }

  #othersShare(upstream: Upstream, readClass: ReadClass, nowMs: number): number {
    const others = this.#parts.fleet.upstreams.filter(
      (other) => other !== upstream && !other.ejections[readClass].isOut,
    );
    return Math.max(0, ...others.map(({ ejections }) => ejections[readClass].errorShare(nowMs)));
  }
}
