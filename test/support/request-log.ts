/** Log of a sample node: counts of all requests, and the last of them as they came. */
import type { SampleRouteName } from '../../src/sample/routes.ts';
import type { ReceivedRequest } from '../../src/sample/sample-node.ts';

const maxKeptBodyBytes = 64 * 1024;
const probes: ReadonlySet<string> = new Set<SampleRouteName>(['ledgerInfo', 'healthy']);

/** Counts for ever, remembers `keep` requests. */
export class RequestLog {
  readonly #keep: number;
  readonly #counts = new Map<SampleRouteName | 'none', number>();
  #received: ReceivedRequest[] = [];
  #waiting: ((request: ReceivedRequest) => boolean)[] = [];

  constructor(keep: number) {
    this.#keep = keep;
  }

  add(request: ReceivedRequest): void {
    const kept = { ...request, body: request.body.subarray(0, maxKeptBodyBytes) };
    this.#counts.set(request.route, this.countOf(request.route) + 1);
    this.#received.push(kept);
    if (this.#received.length > this.#keep) this.#received.shift();
    this.#waiting = this.#waiting.filter((take) => !take(kept));
  }

  /** All requests. */
  get count(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  /** All but the probes. */
  get readCount(): number {
    return this.count - this.countOf('ledgerInfo') - this.countOf('healthy');
  }

  countOf(route: SampleRouteName | 'none'): number {
    return this.#counts.get(route) ?? 0;
  }

  /** Oldest first. */
  get received(): readonly ReceivedRequest[] {
    return this.#received;
  }

  /** The next request that `when` takes, by default the next that is no probe. */
  next(when: (request: ReceivedRequest) => boolean = isRead): Promise<ReceivedRequest> {
    return new Promise((resolve) => {
      this.#waiting.push((request) => {
        const taken = when(request);
        if (taken) resolve(request);
        return taken;
      });
    });
  }

  /** Resets the log to its first state; waits for a request go on. */
  clear(): void {
    this.#counts.clear();
    this.#received = [];
  }
}

function isRead(request: ReceivedRequest): boolean {
  return !probes.has(request.route);
}
