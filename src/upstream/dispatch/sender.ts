/** Sends requests to the fleet, and holds the state that they share: places, queue, budgets. */
import { Allowance, type CancelSignal } from '../../ledger/index.ts';
import { Deadline } from '../deadline.ts';
import { Attempts, type Fetch } from './attempt.ts';
import type { AttemptOutcome } from './attempt-history.ts';
import { FleetCall, type DispatchContext } from './call.ts';
import { isSureOf, nodesFor } from '../fleet-view.ts';
import { nextUpstreams } from '../select/candidates.ts';
import type { ExchangeContext, NodeAnswer, StreamedAnswer } from './exchange.ts';
import { fetchWhole } from './fetch-whole.ts';
import type { FleetRequest, SenderParts } from './fleet-request.ts';
import { Hedging } from './hedge.ts';
import { positionOf, type ReadClass } from '../select/ranking.ts';
import type { Purpose } from '../node/node-client.ts';
import { fetchStream, readWhole } from './node-stream.ts';
import { Outliers } from './outliers.ts';
import { PlaceQueue } from './queue.ts';
import type { Upstream } from '../node/upstream.ts';

/** Retries beside their share of the requests: a few a second, for a quiet gateway. */
const retriesPerSecond = 10;
/** The burst covers the death of a busy node. */
const mostRetries = 500;

/**
 * Longest wait of a long poll for a place among the polls, in ms: about the time of a commit, and with the node's own wait
 * of a second far from `upstream.timeout`.
 */
const pollPlaceMs = 500;

/** Smaller answers are read whole before they go to the client. */
const streamedBytes = 64 * 1024;

/** Sends requests of clients, looks, and requests in the background. */
export class Sender {
  readonly #context: DispatchContext;
  readonly #closing = new AbortController();

  constructor(parts: SenderParts) {
    const { fleet, limits, metrics } = parts;
    const { signal } = this.#closing;
    const retries = new Allowance(retriesPerSecond, mostRetries);
    this.#context = {
      ...parts,
      retries,
      queue: new PlaceQueue({ onWaited: (seconds) => metrics.waited(seconds) }),
      attempts: new Attempts(parts, () => retries.withdraw(performance.now())),
      hedging: new Hedging(limits.hedge, fleet),
      outliers: new Outliers(parts, {
        send: async (request, fetch, upstream, readClass) => {
          const outcome = await this.#inBackground(request, fetch, upstream, signal, readClass);
          return signal.aborted ? undefined : outcome;
        },
        isAnsweredBy: async (request, notOf) => typeof (await this.another(request, notOf, signal)) === 'object',
      }),
    };
  }

  get waiting(): number {
    return this.#context.queue.waiting;
  }

  /** Ends the requests in the background. */
  close(): void {
    this.#closing.abort(new Error('closing'));
  }

  /** Reads the best answer of the fleet, nodes' own errors included. Throws `GatewayError` when no node gave one. */
  whole(request: FleetRequest, signal: CancelSignal): Promise<NodeAnswer> {
    const { wire } = request;
    const fetch: Fetch<NodeAnswer> = (upstream, context) =>
      request.atOnce === undefined
        ? fetchWhole(upstream, wire, context, purposeOf(request, context))
        : this.#poll(request, upstream, context);
    return new FleetCall(this.#context, { request, fetch, isStreamed: false, signal }).run();
  }

  /** Sends as `whole` does, but a success goes to the client while it arrives. */
  stream(request: FleetRequest, signal: CancelSignal): Promise<NodeAnswer | StreamedAnswer> {
    const { deadlineMs: idleMs, stallMs } = this.#context.limits;
    const fetch: Fetch<NodeAnswer | StreamedAnswer> = async (upstream, context) => {
      const answer = await fetchStream(
        upstream,
        request.wire,
        { ...context, idleMs, stallMs },
        purposeOf(request, context),
      );
      const isSmall = Number(answer.headers['content-length'] ?? Infinity) < streamedBytes;
      // A small answer is read whole: it can be validated, and another node is asked when it breaks off.
      return answer.status < 300 && !isSmall ? answer : readWhole(answer, context);
    };
    return new FleetCall(this.#context, { request, fetch, isStreamed: true, signal }).run();
  }

  /**
   * Asks one node that is not in `notOf`, once, in the background: a trusted one that surely holds the version, with half
   * of its places free. `no answer`: it gave no final one.
   */
  async another(
    request: FleetRequest,
    notOf: readonly Upstream[],
    signal: CancelSignal,
  ): Promise<NodeAnswer | 'no node' | 'no answer'> {
    const { need, wire } = request;
    if (positionOf(need) === undefined) return 'no node';
    const able = nodesFor(this.#context.fleet, need).filter(
      (node) => !notOf.includes(node.upstream) && isSureOf(node, need) && mayBeAskedMore(node.upstream),
    );
    const [next] = nextUpstreams(able, need);
    if (next === undefined) return 'no node';
    const fetch: Fetch<NodeAnswer> = (upstream, context) => fetchWhole(upstream, wire, context);
    const outcome = await this.#inBackground(request, fetch, next.upstream, signal);
    return outcome.kind === 'final' ? outcome.answer : 'no answer';
  }

  #inBackground<A extends NodeAnswer | StreamedAnswer>(
    request: FleetRequest,
    fetch: Fetch<A>,
    upstream: Upstream,
    signal: CancelSignal,
    readClass?: ReadClass,
  ): Promise<AttemptOutcome<A>> {
    const { queue, limits, attempts } = this.#context;
    const permit = queue.acquireUnbounded(upstream, 'read');
    const deadline = new Deadline(signal, limits.timeoutMs);
    return attempts.make(request, fetch, { permit, deadline, readClass });
  }

  /**
   * Sends a long poll. While polls hold their share of connections it waits for one of them to end, because callers of
   * its hash join it meanwhile; then its replacement `atOnce` is sent (protocol 1, row 19).
   */
  async #poll(
    { wire, atOnce = wire }: FleetRequest,
    upstream: Upstream,
    context: ExchangeContext,
  ): Promise<NodeAnswer> {
    const untilMs = performance.now() + pollPlaceMs;
    while (!upstream.mayBeHeld || !upstream.polls.tryAcquire()) {
      const leftMs = untilMs - performance.now();
      if (leftMs <= 0 || context.signal.aborted) return fetchWhole(upstream, atOnce, context);
      await upstream.polls.released(leftMs, context.signal);
    }
    return fetchWhole(upstream, wire, context).finally(() => {
      upstream.polls.release();
      this.#context.queue.offer(upstream);
    });
  }
}

/** Whether the node has places and allowance to spare. */
function mayBeAskedMore(upstream: Upstream): boolean {
  return upstream.places.isHalfFree && upstream.mayBeAskedMore(performance.now());
}

function purposeOf({ isIdempotent, isLook }: FleetRequest, { isElsewhere }: ExchangeContext): Purpose {
  if (!isIdempotent || isElsewhere === true) return 'submission';
  return isLook === true ? 'probe' : 'read';
}
