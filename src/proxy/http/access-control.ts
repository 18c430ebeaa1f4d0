/** Ahead of its route, a request is authenticated, its rights are checked, and the limits of its plan admit it. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  type AccessMetrics,
  type AccessOperation,
  holdsKey,
  isBearer,
  type KeyRejection,
  type KnownKey,
  type Limits,
  type Principal,
  type Principals,
  type RefusalReason,
  type Ticket,
} from '../../access/index.ts';
import { CancelToken, GatewayError } from '../../ledger/index.ts';
import { AdmittedRequest } from './admitted-request.ts';
import type { Incoming, Outgoing } from './message.ts';

interface AccessControlParts {
  readonly principals: Principals;
  readonly limits: Limits;
  readonly metrics: AccessMetrics;
}

/** The two ends of an admission: exactly one is called, or neither when the client hangs up first. */
interface Admission {
  /** `admitted`: undefined for a preflight, which has no key. */
  readonly serve: (admitted: AdmittedRequest | undefined) => void;
  readonly refuse: (error: unknown) => void;
}

/** Ends an admission that needs a response: the request waits for its limits, or is refused. */
type LateAdmission = (response: Outgoing, ends: Admission) => void;

/** A request whose limits are decided elsewhere or later. */
interface AwaitedTicket {
  readonly principal: Principal;
  readonly operation: AccessOperation;
  readonly ticket: Promise<Ticket>;
  /** Ends the wait. */
  readonly stop: CancelToken;
}

/** Admits requests by key, rights and limits. */
export class AccessControl {
  readonly #parts: AccessControlParts;

  constructor(parts: AccessControlParts) {
    this.#parts = parts;
  }

  /** Lower-case name of the header that carries keys; `Vary` lists it. */
  get header(): string {
    return this.#parts.principals.header;
  }

  /** Calls `serve` or `refuse`, now or when the limits allow it. `match.operation`: as in `decide`. */
  admit(
    request: IncomingMessage,
    response: ServerResponse,
    match: { readonly operation: AccessOperation },
    ends: Admission,
  ): void {
    // Browsers send no key with a preflight. Other OPTIONS requests are refused by the route.
    if (request.method === 'OPTIONS') return ends.serve(undefined);
    const decision = this.decide(request, match);
    if (decision instanceof AdmittedRequest) ends.serve(decision);
    else decision(response, ends);
  }

  /**
   * Decides on a request by its key or address, its rights and its limits. `match.operation` is computed for
   * authenticated requests only. `known`: for headers that come again. Never throws.
   */
  decide(
    request: Incoming,
    match: { readonly operation: AccessOperation },
    known?: KnownKey,
  ): AdmittedRequest | LateAdmission {
    try {
      const entered = this.#admit(this.#identify(request, known), request, match.operation);
      if (entered instanceof AdmittedRequest) return entered;
      return (response, ends) => this.#await(entered, response, ends);
    } catch (error) {
      return (_response, { refuse }) => refuse(error);
    }
  }

  /** The request's principal. `known`: for headers that come again. Throws `GatewayError` 400, 401 or 503. */
  #identify(request: Incoming, known?: KnownKey): Principal {
    if (holdsKey(request.url ?? '')) {
      this.#parts.metrics.refused('misplaced key', undefined);
      // Proxies log targets, and a node would receive this one.
      throw new GatewayError('malformed', `a key belongs into the header ${this.header}, never into the target`);
    }
    const found = this.#find(request, known);
    if (typeof found !== 'string') return found;
    this.#parts.metrics.refused(found, undefined);
    throw this.#unauthorized(found, request.headers[this.header]);
  }

  /** The tenant ahead of `decide`, which counts refusals; `undefined`: it will refuse the request. */
  tenantOf(request: Incoming, known: KnownKey): string | undefined {
    const found = this.#find(request, known);
    return typeof found === 'string' || holdsKey(request.url ?? '') ? undefined : found.tenant;
  }

  #find({ headers, socket }: Incoming, known?: KnownKey): Principal | KeyRejection {
    return this.#parts.principals.find(headers, socket, Date.now(), known);
  }

  /** Admits a request by rights and limits, now or after a wait. Throws `GatewayError` 403, 429 or 503. */
  #admit(principal: Principal, { headers }: Incoming, operation: AccessOperation): AdmittedRequest | AwaitedTicket {
    this.#requireRights(principal, operation, headers.origin);
    const stop = new CancelToken();
    const ticket = this.#parts.limits.admit(principal, operation, stop);
    if (ticket instanceof Promise) return { principal, operation, ticket, stop };
    if (ticket.kind === 'left') throw new Error('a client that waits for nothing has not left');
    return this.#enter(principal, operation, ticket);
  }

  /** Calls `serve` or `refuse` once the limits decide; neither when the client hangs up first. */
  #await(
    { principal, operation, ticket, stop }: AwaitedTicket,
    response: Outgoing,
    { serve, refuse }: Admission,
  ): void {
    let isDecided = false;
    response.once('close', () => {
      if (!isDecided) stop.abort(new Error('the client hung up'));
    });
    void ticket.then((late) => {
      isDecided = true;
      if (late.kind === 'left') return;
      try {
        const admitted = this.#enter(principal, operation, late);
        if (response.destroyed) admitted.settle(response);
        else serve(admitted);
      } catch (error) {
        refuse(error);
      }
    });
  }

  #unauthorized(why: KeyRejection, given: string | readonly string[] | undefined): GatewayError {
    if (why === 'unread')
      return new GatewayError('unavailable', 'the keys are not loaded yet; try again', { reason: 'keys unread' });
    const { header } = this;
    const form = header === 'authorization' ? 'Authorization: Bearer KEY' : `${header}: KEY`;
    const message = why === 'no key' ? `a key is needed: ${form}` : 'the key is not valid, or has expired';
    return new GatewayError('unauthorized', message, { headers: challengeOf(header, given) });
  }

  #requireRights(
    { operations, origins, plan }: Principal,
    operation: AccessOperation,
    origin: string | undefined,
  ): void {
    const { metrics } = this.#parts;
    if (!operations.has(operation)) {
      metrics.refused('operation', plan.name);
      throw new GatewayError('disabled', `this key or plan does not allow the operation "${operation}"`);
    }
    // Programs other than browsers can send any origin, but must send one.
    if (origins === undefined || (origin !== undefined && origins.has(origin))) return;
    metrics.refused('origin', plan.name);
    throw new GatewayError('disabled', 'this key or plan may be used by pages of certain origins only');
  }

  /** `ticket`: of a client that still waits for the answer. */
  #enter(principal: Principal, operation: AccessOperation, ticket: Exclude<Ticket, { kind: 'left' }>): AdmittedRequest {
    if (ticket.kind === 'admitted') return new AdmittedRequest(principal, operation, ticket);
    const { because, retryAfterMs } = ticket;
    const reason: RefusalReason = because === 'limit' ? 'limit' : 'not counted';
    this.#parts.metrics.refused(reason, principal.plan.name);
    const headers = [...ticket.headers, 'Retry-After', String(Math.max(1, Math.ceil(retryAfterMs / 1000)))];
    if (because === 'limit')
      throw new GatewayError('rateLimited', `over the limits of the plan; try again`, { headers });
    throw new GatewayError('unavailable', 'requests cannot be counted at the moment; try again', {
      headers,
      reason: 'not counted',
    });
  }
}

/** Without credentials, or with another scheme, the challenge has no error code (RFC 6750 3.1). */
function challengeOf(header: string, given: string | readonly string[] | undefined): readonly string[] {
  const isToken = given !== undefined && (header !== 'authorization' || isBearer(String(given)));
  return ['WWW-Authenticate', `Bearer realm="ledgergate"${isToken ? ', error="invalid_token"' : ''}`];
}
