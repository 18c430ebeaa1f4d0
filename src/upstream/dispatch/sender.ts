/** Sends requests to the fleet, and holds the state that they share: places, queue, budgets. */
import { Allowance, type CancelSignal } from '../../ledger/index.ts';
import { Deadline } from '../deadline.ts';
import type { Purpose } from '../node/node-client.ts';
import { nodesFor, type Upstream } from '../node/upstream.ts';
import { FirstChoices } from '../select/first-choice.ts';
import { noAnswers, pick } from '../select/pick.ts';
import { isSureOf, type Need, positionOf, type ReadClass } from '../select/ranking.ts';
import { Attempt, type Fetch } from './attempt.ts';
import { type DispatchContext, FleetCall, Hedging } from './call.ts';
import type { ExchangeContext, NodeAnswer, StreamedAnswer } from './exchange.ts';
import { fetchWhole } from './fetch-whole.ts';
import type { FleetRequest, SenderParts } from './fleet-request.ts';
import { fetchStream, readWhole } from './node-stream.ts';
import { Outliers } from './outliers.ts';
import type { AttemptOutcome } from './plan.ts';
import { PlaceQueue } from './queue.ts';

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
    this.#context = {
      ...parts,
      retries: new Allowance(retriesPerSecond, mostRetries),
      queue: new PlaceQueue((seconds) => metrics.waited(seconds)),
      hedging: new Hedging(limits.hedge, fleet),
      firstChoices: new FirstChoices(fleet),
      outliers: new Outliers(
        parts,
        async (request, fetch, upstream, readClass) => {
          const outcome = await this.#inBackground(request, fetch, upstream, signal, readClass);
          return signal.aborted ? undefined : outcome;
        },
        async (request, notOf) => typeof (await this.another(request, notOf, signal)) === 'object',
      ),
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
    const fetch = request.atOnce === undefined ? fetchByPurpose : this.#poll;
    return new FleetCall(this.#context, request, fetch, false, signal).run();
  }

  /** Sends as `whole` does, but a success goes to the client while it arrives. */
  stream(request: FleetRequest, signal: CancelSignal): Promise<NodeAnswer | StreamedAnswer> {
    return new FleetCall(this.#context, request, this.#fetchStreamed, true, signal).run();
  }

  readonly #fetchStreamed: Fetch<NodeAnswer | StreamedAnswer> = async (upstream, request, attempt) => {
    const { deadlineMs: idleMs, stallMs } = this.#context.limits;
    const answer = await fetchStream(upstream, request.wire, attempt, { idleMs, stallMs }, purposeOf(request, attempt));
    const isSmall = Number(answer.headers['content-length'] ?? Infinity) < streamedBytes;
    // A small answer is read whole: it can be validated, and another node is asked when it breaks off.
    return answer.status < 300 && !isSmall ? answer : readWhole(answer, attempt);
  };

  /** Whether a read in the background takes no place or allowance that clients need: each node that may get it has half. */
  hasToSpare(need: Need): boolean {
    if (this.waiting > 0) return false;
    const choice = pick(nodesFor(this.#context.fleet, need), need, noAnswers);
    if (choice === undefined || !isSureOf(choice.node, need)) return false;
    return choice.alike.every(({ upstream }) => mayBeAskedMore(upstream));
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
    const { need } = request;
    if (positionOf(need) === undefined) return 'no node';
    const able = nodesFor(this.#context.fleet, need).filter(
      (node) => !notOf.includes(node.upstream) && isSureOf(node, need) && mayBeAskedMore(node.upstream),
    );
    const chosen = pick(able, need, noAnswers);
    if (chosen === undefined) return 'no node';
    const outcome = await this.#inBackground(request, fetchByPurpose, chosen.node.upstream, signal);
    return outcome.kind === 'final' ? outcome.answer : 'no answer';
  }

  #inBackground<A extends NodeAnswer | StreamedAnswer>(
    request: FleetRequest,
    fetch: Fetch<A>,
    upstream: Upstream,
    signal: CancelSignal,
    readClass?: ReadClass,
  ): Promise<AttemptOutcome<A>> {
    const { queue, limits } = this.#context;
    const deadline = new Deadline(signal, limits.timeoutMs);
    return new Attempt<A>(this.#context, request, queue.take(upstream, 'read'), deadline, readClass).run(fetch);
  }

  /**
   * Sends a long poll. While polls hold their share of connections it waits for one of them to end, because callers of
   * its hash join it meanwhile; then its replacement `atOnce` is sent (protocol 1, row 19).
   */
  readonly #poll: Fetch<NodeAnswer> = async (upstream, { wire, atOnce = wire }, context) => {
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
  };
}

const fetchByPurpose: Fetch<NodeAnswer> = (upstream, request, context) =>
  fetchWhole(upstream, request.wire, context, purposeOf(request, context));

/** Whether the node has places and allowance to spare. */
function mayBeAskedMore(upstream: Upstream): boolean {
  return upstream.places.isHalfFree && upstream.mayBeAskedMore(performance.now());
}

function purposeOf({ isIdempotent, isLook }: FleetRequest, { isElsewhere }: ExchangeContext): Purpose {
  if (!isIdempotent || isElsewhere === true) return 'submission';
  return isLook === true ? 'probe' : 'read';
}
