/** One request that was let in: for whom it is, and what it comes to. */
import type { ServerResponse } from 'node:http';
import type { Operation, Principal } from '../access/principal.ts';
import type { Settled, Ticket } from '../access/ticket.ts';

export type Admitted = Extract<Ticket, { kind: 'admitted' }>;

/** On the response itself, because a member costs a hit a tenth of what a map would. */
const visit = Symbol('visit');

export class Visit {
  readonly principal: Principal;
  readonly operation: Operation;
  readonly #ticket: Admitted;
  #isSettled = false;
  #waitsSinceMs: number | undefined;
  /** Until something else is known it was answered here. */
  outcome: Settled['outcome'] = 'local';
  upstreamMs = 0;
  gasUsed: bigint | undefined;
  bytes = 0;
  bodyBytes = 0;

  constructor(principal: Principal, operation: Operation, ticket: Admitted) {
    this.principal = principal;
    this.operation = operation;
    this.#ticket = ticket;
  }

  /** Headers that go on its answer, whatever that is. */
  get headers(): readonly string[] {
    return this.#ticket.headers;
  }

  /** Whether the answer is for whoever has a key, so that nobody in between may hand it to others. */
  get isPrivate(): boolean {
    return this.principal.name !== undefined;
  }

  /** A node was asked for it alone. `gasUsed`: what its header says, text. */
  noteMiss(upstreamMs: number, gasUsed: unknown): void {
    this.outcome = 'miss';
    this.upstreamMs = upstreamMs;
    if (typeof gasUsed === 'string' && /^\d{1,20}$/.test(gasUsed)) this.gasUsed = BigInt(gasUsed);
  }

  /** From now on somebody works on it. */
  noteWait(): void {
    this.#waitsSinceMs ??= performance.now();
  }

  /** Tells what it came to, once: its place and its cost are free for others. */
  settle({ headersSent, statusCode }: ServerResponse): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    const { operation, outcome, upstreamMs, gasUsed, bytes, bodyBytes } = this;
    const told = headersSent ? { outcome, status: statusCode, upstreamMs } : this.#givenUp();
    this.#ticket.settle({ operation, ...told, gasUsed, bytes, bodyBytes });
  }

  /**
   * Who hangs up before the head of an answer has got none. What was done meanwhile counts as the time of a node: nodes
   * go on with a view that nobody waits for any more, and it must not be cheaper to ask for one in that way.
   */
  #givenUp() {
    const upstreamMs = this.#waitsSinceMs === undefined ? 0 : performance.now() - this.#waitsSinceMs;
    return { outcome: 'error', status: hungUp, upstreamMs } as const;
  }

  /** Settles it at the latest when the connection is done with its answer: for waits in which nobody works on it. */
  settleAtClose(response: ServerResponse): void {
    response.once('close', () => this.settle(response));
  }
}

/** No status says so; this one is what access logs of proxies have for it. */
const hungUp = 499;

/** Undefined where everybody may ask. */
export function visitOf(response: ServerResponse): Visit | undefined {
  return (response as { [visit]?: Visit })[visit];
}

export function setVisit(response: ServerResponse, of: Visit): void {
  (response as { [visit]?: Visit })[visit] = of;
}
