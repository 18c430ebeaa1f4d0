/** The places that one call takes at nodes: at once where one is free, and by waiting where none is. */
import { performance } from 'node:perf_hooks';
import type { CancelSignal } from '../../ledger/index.ts';
import type { NodeCandidate } from '../select/candidates.ts';
import type { Upstream } from '../node/upstream.ts';
import type { FleetRequest, SenderParts } from './fleet-request.ts';
import type { CallState } from './next-step.ts';
import type { Permit, PermitKind, PlaceQueue } from './queue.ts';

type RankedNodes = readonly NodeCandidate<Upstream>[];

/** Parts and properties of a call that decide about its places. */
export interface CallPlacesParts extends Pick<SenderParts, 'metrics' | 'log'> {
  readonly queue: PlaceQueue;
  readonly request: FleetRequest;
  readonly isStreamed: boolean;
  readonly signal: CancelSignal;
  readonly state: CallState;
  /** The nodes that are best to ask now. */
  readonly nextNodes: () => RankedNodes;
}

/** Client of the gateway's own requests: no address and no tenant has this name. */
const ownName = '(gateway)';

/** Takes places for the attempts of one call. */
export class CallPlaces {
  readonly #parts: CallPlacesParts;
  readonly #kind: PermitKind;

  constructor(parts: CallPlacesParts) {
    const { request, isStreamed } = parts;
    this.#parts = parts;
    // Looks and long polls take no place: they cost a node little work.
    if (request.isLook === true) this.#kind = 'look';
    else if (request.atOnce !== undefined) this.#kind = 'poll';
    else this.#kind = isStreamed ? 'stream' : 'read';
  }

  /** A permit at one of `nodes`, best first, if one has a place now. */
  tryAcquire(nodes: RankedNodes): Permit | undefined {
    return this.#parts.queue.tryAcquire(nodes, this.#kind);
  }

  /** Waits for a permit at one of `nodes`; `undefined`: the queue was full, or the call's time is over. */
  async acquire(nodes: RankedNodes): Promise<Permit | undefined> {
    const { queue, metrics, request, signal, isStreamed, state } = this.#parts;
    const { client = ownName } = request;
    const withinMs = state.deadlineAtMs - performance.now();
    const permit = await queue.acquire(nodes, { client, signal, withinMs, kind: isStreamed ? 'stream' : 'read' });
    if (typeof permit === 'object') return permit;
    if (permit === 'withheld') return this.#acquireElsewhere(nodes);
    // Without a node that answers, the nodes are not busy: the call reports their faults.
    if (!state.fleet.upstreams.some(isAnswering)) return undefined;
    state.history.queueFullFor = client;
    if (!signal.aborted) metrics.refused(permit);
    return undefined;
  }

  /** None of `nodes` may be asked now. While the request waited for a place at them, another may have become better. */
  async #acquireElsewhere(nodes: RankedNodes): Promise<Permit | undefined> {
    const nowMs = performance.now();
    const others = this.#parts.nextNodes();
    if (others.some(({ upstream }) => upstream.mayBeAsked(nowMs))) {
      return this.tryAcquire(others) ?? this.acquire(others);
    }
    for (const { upstream } of nodes) this.#recordRefusal(upstream, nowMs);
    return undefined;
  }

  /** Records a request that was not sent because the node's allowance is used up. */
  #recordRefusal({ name, allowance }: Upstream, nowMs: number): void {
    if (!allowance.isSpent(nowMs)) return;
    const { metrics, log } = this.#parts;
    metrics.allowanceRefused(name);
    if (!allowance.refuse(nowMs)) return;
    log.record(
      'allowance used up',
      { upstream: name },
      'allowance used up: reads that only this upstream holds get 503',
    );
  }
}

function isAnswering({ health, isSilent, isDrained }: Upstream): boolean {
  return health === 'usable' && !isSilent && !isDrained;
}
