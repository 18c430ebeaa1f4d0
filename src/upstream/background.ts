/** Questions that no client waits for: trials of nodes that are passed over, and second opinions. */
import type { StopSignal } from '../ledger/stop.ts';
import type { Admission } from './admission.ts';
import type { Attempts, Fetch } from './attempt.ts';
import { Bound } from './bound.ts';
import type { NodeAnswer, StreamedAnswer } from './exchange.ts';
import { fetchWhole } from './fetch-whole.ts';
import type { Fleet } from './fleet.ts';
import type { Outliers } from './outliers.ts';
import type { ReadClass } from './read-class.ts';
import { positionOf } from './need.ts';
import { holdingOf, trustRank } from './ranking.ts';
import { selectUpstreams } from './select.ts';
import type { FleetRequest } from './sender.ts';
import type { Upstream } from './upstream.ts';
import { knownNodes } from './useful.ts';

export interface BackgroundParts {
  readonly fleet: Fleet;
  readonly attempts: Attempts;
  readonly admission: Admission;
  readonly outliers: Outliers;
  /** The bound of one attempt. */
  readonly limits: { readonly timeoutMs: number };
}

/** What a second node had to say. `no answer`: it gave none, or not the fleet's. */
export type Another = NodeAnswer | 'no node' | 'no answer';

export class Background {
  readonly #parts: BackgroundParts;
  readonly #closing = new AbortController();

  constructor(parts: BackgroundParts) {
    this.#parts = parts;
  }

  close(): void {
    this.#closing.abort(new Error('closing'));
  }

  /**
   * Asks one node beside those in `notOf`, once: a usable one that surely holds what is asked for and has little to do.
   */
  async another(request: FleetRequest, notOf: readonly Upstream[], signal: StopSignal): Promise<Another> {
    const { need, wire } = request;
    const position = positionOf(need);
    if (position === undefined) return 'no node';
    const able = knownNodes(this.#parts.fleet, need, performance.now()).filter(
      (node) =>
        !notOf.includes(node.upstream) &&
        trustRank(node) === 0 &&
        holdingOf(node.window, position) === 'held' &&
        node.upstream.places.isHalfFree,
    );
    const [next] = selectUpstreams(able, need);
    if (next === undefined) return 'no node';
    const fetch: Fetch<NodeAnswer> = (upstream, context) => fetchWhole(upstream, wire, context);
    const outcome = await this.#make(request, fetch, next.upstream, signal);
    return outcome.verdict === 'final' ? outcome.answer : 'no answer';
  }

  /** Gives a node that is passed over a copy of a read that `answering` has answered, when a trial is due. */
  tryOut(
    request: FleetRequest,
    fetch: Fetch<NodeAnswer | StreamedAnswer>,
    readClass: ReadClass,
    answering: Upstream,
  ): void {
    const { fleet, outliers } = this.#parts;
    const { timeoutMs } = this.#parts.limits;
    if (!outliers.isAnyOut) return;
    const known = knownNodes(fleet, request.need, performance.now());
    const upstream = outliers.dueForTrial(readClass, known, { need: request.need, timeoutMs });
    if (upstream === undefined || upstream === answering) return;
    void this.#make(request, fetch, upstream, this.#closing.signal, readClass).then((outcome) => {
      if (outcome.verdict === 'final' && 'stream' in outcome.answer) outcome.answer.stream.destroy();
      // That a node has not got there, or no longer holds a version, is an answer; what ejects it is none.
      const isAnswered = outcome.verdict === 'final' || (outcome.verdict !== 'failed' && outcome.sign === undefined);
      if (!this.#closing.signal.aborted) outliers.endTrial(readClass, upstream, isAnswered);
    });
  }

  #make<A extends NodeAnswer | StreamedAnswer>(
    request: FleetRequest,
    fetch: Fetch<A>,
    upstream: Upstream,
    signal: StopSignal,
    readClass?: ReadClass,
  ) {
    const { leave: onWorked } = this.#parts.admission.enterAnyway(upstream);
    const bound = new Bound(signal, this.#parts.limits.timeoutMs);
    return this.#parts.attempts.make(request, fetch, upstream, { bound, readClass, onWorked });
  }
}
