/** A request that access control admitted: principal, limits, result. */
import type { Outcome } from '../metrics/index.ts';
import type { AccessOperation, Principal } from './keys/principal.ts';
import type { Settled, Ticket } from './limits/ticket.ts';
import { usageSubjectOf } from './usage/usage-tally.ts';

/** Ticket of a request within its limits. */
type AdmittedTicket = Extract<Ticket, { kind: 'admitted' }>;

/** The parts of a response that access follows, common to every transport. */
export interface Answer {
  readonly statusCode: number;
  readonly headersSent: boolean;
  /** The client is gone, or the answer broke off. */
  readonly destroyed: boolean;
  /** 'close': the answer is out or abandoned. */
  once(event: 'close', listener: () => void): unknown;
}

/** Result of a request so far. */
interface RequestResult {
  readonly outcome: Outcome;
  /** Milliseconds that a node spent on this request alone; 0 without a node. */
  readonly upstreamMs: number;
  readonly gasUsed: bigint | undefined;
  /** Bytes of the answer's body. */
  readonly bytes: number;
  /** Bytes of the request's body. */
  readonly bodyBytes: number;
}

const nothingYet: RequestResult = { outcome: 'local', upstreamMs: 0, gasUsed: undefined, bytes: 0, bodyBytes: 0 };

/** Charges one request to its principal, once, when its answer is out and no work for it is in flight. */
export class AdmittedRequest {
  readonly principal: Principal;
  readonly operation: AccessOperation;
  readonly #ticket: AdmittedTicket;
  #isSettled = false;
  #isWorkedOn = false;
  /** Whether the head was sent at the end; undefined before the end. */
  #isAnswered: boolean | undefined;
  #result = nothingYet;
  #waitsSinceMs: number | undefined;

  constructor(principal: Principal, operation: AccessOperation, ticket: AdmittedTicket) {
    this.principal = principal;
    this.operation = operation;
    this.#ticket = ticket;
  }

  /** Flat headers that every answer to it carries. */
  get headers(): readonly string[] {
    return this.#ticket.headers;
  }

  /** Whether the answer is private to a key's holder: shared caches must not store it. */
  get isPrivate(): boolean {
    return this.principal.name !== undefined;
  }

  /** The fields of a log line: no tenant without a key, since lines contain no client address. */
  get logged(): { readonly tenant: string | undefined; readonly plan: string } {
    const [, tenant, plan] = usageSubjectOf(this.principal);
    return { tenant: tenant ?? undefined, plan };
  }

  /** Replaces the source of the final result. */
  follow(result: RequestResult): void {
    this.#result = result;
  }

  /** Starts the clock of the wait for a node. */
  noteWait(): void {
    this.#waitsSinceMs ??= performance.now();
  }

  /** Keeps the concurrency permit until `work` ends, even after a hang-up. `work` never rejects. */
  holdFor(work: Promise<void>, response: Answer): void {
    this.#isWorkedOn = true;
    void work.then(() => {
      this.#isWorkedOn = false;
      if (this.#isAnswered !== undefined) this.settle(response);
    });
  }

  /** Reports the result once, when the answer is out or abandoned and no work is in flight. */
  settle({ headersSent, statusCode }: Pick<Answer, 'headersSent' | 'statusCode'>): void {
    this.#isAnswered ??= headersSent;
    if (this.#isSettled || this.#isWorkedOn) return;
    this.#isSettled = true;
    const { operation } = this;
    const { upstreamMs, gasUsed, bytes, bodyBytes } = this.#result;
    // No spread: it would copy property by property, for each hit.
    if (this.#isAnswered) {
      const outcome = charged[this.#result.outcome];
      this.#ticket.settle({ operation, outcome, status: statusCode, upstreamMs, gasUsed, bytes, bodyBytes });
    } else this.#ticket.settle({ operation, ...this.#givenUp(), gasUsed, bytes, bodyBytes });
  }

  /**
   * Result of a request whose client hung up before the head. The wait is charged as node time, and a view as executed
   * (access/limits/cost.ts), because nodes finish it. Its gas is charged to the next leader of the flight; without one,
   * the gas is unrecorded.
   */
  #givenUp() {
    const waitedMs = this.#waitsSinceMs === undefined ? 0 : performance.now() - this.#waitsSinceMs;
    const upstreamMs = Math.max(this.#result.upstreamMs, waitedMs);
    return { outcome: 'error', status: hungUp, upstreamMs } as const;
  }

  /** Settles at the latest when `response` closes: for waits without an `Exchange`. */
  settleAtClose(response: Answer): void {
    response.once('close', () => this.settle(response));
  }
}

/** Outcomes as plans charge them. */
const charged: Readonly<Record<Outcome, Settled['outcome']>> = {
  memory: 'hit',
  store: 'hit',
  redis: 'hit',
  collapsed: 'collapsed',
  miss: 'miss',
  passed: 'miss',
  local: 'local',
  refused: 'error',
  failed: 'error',
};

/** Status of a hang-up in the access logs of common proxies; HTTP defines none. */
const hungUp = 499;
