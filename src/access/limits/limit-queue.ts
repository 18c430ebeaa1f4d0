import type { CancelSignal } from '../../ledger/index.ts';
import type { Charge, Counted } from './counter.ts';

interface LimitedRequest {
  readonly waitMs: number;
  readonly signal: CancelSignal;
  /** Counts the request, if there is room now. */
  readonly attempt: () => Counted | Promise<Counted>;
}

/** The account that a request is of. */
type Account = Pick<Charge, 'subject' | 'hasKey' | 'address'>;

interface QueuedRequest extends Pick<LimitedRequest, 'attempt'>, Pick<Account, 'address'> {
  readonly untilMs: number;
  hasLeft: boolean;
  leave(taken: Counted): void;
}

interface TenantQueue {
  readonly kind: 'key' | 'address';
  /** First in, first out. */
  readonly waiters: QueuedRequest[];
  /** The first request's last count. */
  last: Counted;
  tryAtMs: number;
  wake: () => void;
}

/** Pause where that time is unknown: requests in flight may end at another replica. */
const pollMs = 25;

/** Longest queue of one tenant, requests of one address in it, and requests in all queues of keys, or of addresses. */
const maxOfTenant = 256;
const maxOfAddress = 32;
const maxWaiting = 4_096;

/** Requests over a limit wait in a FIFO queue per tenant. One whose wait cannot succeed is refused at once. */
export class LimitQueue {
  readonly #queues = new Map<string, TenantQueue>();
  /** Apart: waiting addresses leave room for keys. */
  readonly #waiting = { key: 0, address: 0 };

  get waiting(): number {
    return this.#waiting.key + this.#waiting.address;
  }

  /** Attempts `request`, behind waiting requests of its account; queues it while its wait may succeed. */
  take(account: Account, request: LimitedRequest): Counted | Promise<Counted> {
    const queue = this.#queues.get(account.subject);
    if (queue !== undefined) return this.#wait(queue, account, request);
    const taken = request.attempt();
    if (taken instanceof Promise) return taken.then((late) => this.#orWait(account, request, late));
    return this.#orWait(account, request, taken);
  }

  wake(subject: string): void {
    const queue = this.#queues.get(subject);
    // Once the counter has recorded the end.
    if (queue !== undefined && freeInMsOf(queue.last) === 0) setImmediate(() => queue.wake());
  }

  close(): void {
    for (const queue of this.#queues.values()) refuse(queue, queue.waiters);
  }

  #orWait(account: Account, request: LimitedRequest, taken: Counted): Counted | Promise<Counted> {
    if (!isOver(taken)) return taken;
    const { subject, hasKey } = account;
    const known = this.#queues.get(subject);
    if (known !== undefined) return this.#wait(known, account, request);
    if (isHopeless(taken, request.waitMs)) return taken;
    const kind = hasKey ? 'key' : 'address';
    const queue: TenantQueue = { kind, waiters: [], last: taken, tryAtMs: tryAtMsOf(taken), wake: () => undefined };
    const waiting = this.#wait(queue, account, request);
    if (queue.waiters.length > 0) {
      this.#queues.set(subject, queue);
      void this.#serve(subject, queue);
    }
    return waiting;
  }

  #wait(
    queue: TenantQueue,
    { address }: Account,
    { waitMs, signal, attempt }: LimitedRequest,
  ): Counted | Promise<Counted> {
    const isFull = queue.waiters.length >= maxOfTenant || this.#waiting[queue.kind] >= maxWaiting;
    if (isFull || signal.aborted || isFullOf(address, queue)) return queue.last;
    return new Promise<Counted>((resolve) => {
      const onAbort = (): void => waiter.leave(queue.last);
      const waiter: QueuedRequest = {
        attempt,
        address,
        untilMs: performance.now() + waitMs,
        hasLeft: false,
        leave: (taken) => {
          if (waiter.hasLeft) return;
          waiter.hasLeft = true;
          this.#waiting[queue.kind] -= 1;
          signal.removeEventListener('abort', onAbort);
          const index = queue.waiters.indexOf(waiter);
          queue.waiters.splice(index, 1);
          if (index === 0) queue.wake();
          resolve(taken);
        },
      };
      signal.addEventListener('abort', onAbort, { once: true });
      queue.waiters.push(waiter);
      this.#waiting[queue.kind] += 1;
    });
  }

  /** Attempts the first request repeatedly until the queue is empty; then removes the queue in the same step. */
  async #serve(subject: string, queue: TenantQueue): Promise<void> {
    for (let first = queue.waiters[0]; first !== undefined; first = queue.waiters[0]) {
      await pause(queue, first.untilMs);
      if (!first.hasLeft) await attemptFirst(queue, first);
    }
    this.#queues.delete(subject);
  }
}

async function attemptFirst(queue: TenantQueue, first: QueuedRequest): Promise<void> {
  const taken = await first.attempt();
  if (!isOver(taken) || isOfAddress(taken)) {
    // The request left during its attempt: its count is returned.
    if (first.hasLeft) taken.settle(0);
    first.leave(taken);
    // There may be room for more than one.
    queue.tryAtMs = 0;
    return;
  }
  queue.last = taken;
  queue.tryAtMs = tryAtMsOf(taken);
  const nowMs = performance.now();
  refuse(
    queue,
    queue.waiters.filter(({ untilMs }) => isHopeless(taken, untilMs - nowMs)),
  );
}

/** Whether one address has its part of the queue: it must not keep the others of its key from waiting. */
function isFullOf(address: string | undefined, { waiters }: TenantQueue): boolean {
  if (address === undefined || waiters.length < maxOfAddress) return false;
  return waiters.filter((waiter) => waiter.address === address).length >= maxOfAddress;
}

function refuse(queue: TenantQueue, waiters: readonly QueuedRequest[]): void {
  for (const waiter of waiters.slice()) waiter.leave(queue.last);
}

/** Resolves at the time of the next attempt, at `untilMs`, or by `wake`. */
function pause(queue: TenantQueue, untilMs: number): Promise<void> {
  const pauseMs = Math.ceil(Math.min(queue.tryAtMs, untilMs) - performance.now());
  if (pauseMs <= 0) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(() => queue.wake(), pauseMs);
    queue.wake = () => {
      clearTimeout(timer);
      queue.wake = () => undefined;
      resolve();
    };
  });
}

/** Over a bound that may have room later. */
function isOver({ count }: Counted): boolean {
  return !count.isAdmitted && count.over !== 'unavailable';
}

/** Ms, 0: unknown. */
function freeInMsOf({ count }: Counted): number {
  return count.isAdmitted ? 0 : count.freeInMs;
}

function tryAtMsOf(taken: Counted): number {
  return performance.now() + (freeInMsOf(taken) || pollMs);
}

/** Whether the bound has no room before `leftMs` have passed, or is one address's. */
function isHopeless(taken: Counted, leftMs: number): boolean {
  return leftMs <= 0 || freeInMsOf(taken) > leftMs || isOfAddress(taken);
}

/** One address over its own bound does not wait: the others of its key would wait behind it. */
function isOfAddress({ count }: Counted): boolean {
  return !count.isAdmitted && count.over === 'address';
}
