/** One request that access control admitted: its principal, its limits, its result. */
import { countedNetwork } from '../../access/keys/client-address.ts';
import type { Operation, Principal } from '../../access/keys/principal.ts';
import type { Settled, Ticket } from '../../access/limits/ticket.ts';
import type { Outcome } from '../../metrics/http-metrics.ts';
import type { Incoming, Outgoing } from './message.ts';

/** A ticket of a request within its limits. */
export type AdmittedTicket = Extract<Ticket, { kind: 'admitted' }>;

/** RequestResult of a request so far. */
export interface RequestResult {
  readonly outcome: Outcome;
  /** Milliseconds that a node took over it, 0 where none was asked for this request alone. */
  readonly upstreamMs: number;
  readonly gasUsed: bigint | undefined;
  /** Length of the answer's body. */
  readonly bytes: number;
  /** Length of the request's body. */
  readonly bodyBytes: number;
}

/** Before an answer exists. */
const nothingYet: RequestResult = { outcome: 'local', upstreamMs: 0, gasUsed: undefined, bytes: 0, bodyBytes: 0 };

/** Charges one request to its principal, once, when its answer is out and no work for it is in flight. */
export class AdmittedRequest {
  readonly principal: Principal;
  readonly operation: Operation;
  readonly #ticket: AdmittedTicket;
  #isSettled = false;
  #isWorkedOn = false;
  /** Whether the head of an answer was out at the end; undefined before the end. */
  #isAnswered: boolean | undefined;
  #result = nothingYet;
  #waitsSinceMs: number | undefined;

  constructor(principal: Principal, operation: Operation, ticket: AdmittedTicket) {
    this.principal = principal;
    this.operation = operation;
    this.#ticket = ticket;
  }

  /** Headers of its answer, flat, whatever the answer is. */
  get headers(): readonly string[] {
    return this.#ticket.headers;
  }

  /** Whether the answer is for the holder of a key: a cache in between must not hand it to others. */
  get isPrivate(): boolean {
    return this.principal.name !== undefined;
  }

  /** Reads the result from `result` from now on. */
  follow(result: RequestResult): void {
    this.#result = result;
  }

  /** The request begins to wait for work. */
  noteWait(): void {
    this.#waitsSinceMs ??= performance.now();
  }

  /**
   * The place stays taken until `work` has ended, even when its client has gone: a node may be working on it. `work`
   * never rejects.
   */
  holdFor(work: Promise<void>, response: Outgoing): void {
    this.#isWorkedOn = true;
    void work.then(() => {
      this.#isWorkedOn = false;
      if (this.#isAnswered !== undefined) this.settle(response);
    });
  }

  /** The answer is out, or will never be: reports the result once, as soon as no work is under way. */
  settle({ headersSent, statusCode }: Outgoing): void {
    this.#isAnswered ??= headersSent;
    if (this.#isSettled || this.#isWorkedOn) return;
    this.#isSettled = true;
    const { operation } = this;
    const { upstreamMs, gasUsed, bytes, bodyBytes } = this.#result;
    const outcome = charged[this.#result.outcome];
    const answer = this.#isAnswered ? { outcome, status: statusCode, upstreamMs } : this.#givenUp();
    this.#ticket.settle({ operation, ...answer, gasUsed, bytes, bodyBytes });
  }

  /**
   * The client hung up before the head of an answer. The wait counts as the time of a node, and a view is charged as one
   * that was run (access/limits/cost.ts), because nodes go on with it. Its gas is charged to the client that leads the flight
   * from then on; without one, the gas stays unknown.
   */
  #givenUp() {
    const waitedMs = this.#waitsSinceMs === undefined ? 0 : performance.now() - this.#waitsSinceMs;
    const upstreamMs = Math.max(this.#result.upstreamMs, waitedMs);
    return { outcome: 'error', status: hungUp, upstreamMs } as const;
  }

  /** Settles it at the latest when the connection is done with its answer: for waits in which nobody works on it. */
  settleAtClose(response: Outgoing): void {
    response.once('close', () => this.settle(response));
  }
}

/** Outcomes as plans charge them. */
const charged: Readonly<Record<Outcome, Settled['outcome']>> = {
  memory: 'hit',
  redis: 'hit',
  collapsed: 'collapsed',
  miss: 'miss',
  passed: 'miss',
  local: 'local',
  refused: 'error',
  failed: 'error',
};

/** No status says so; this one is what access logs of proxies have for it. */
const hungUp = 499;

/** Fair-queueing key of a request: the tenant where there are keys, else the client's IPv4 address or /64. */
export function clientOf({ socket }: Pick<Incoming, 'socket'>, admitted: AdmittedRequest | undefined): string {
  return admitted?.principal.tenant ?? countedNetwork(socket.remoteAddress ?? '');
}
