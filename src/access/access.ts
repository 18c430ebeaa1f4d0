/** Ahead of its route, a request is authenticated, its rights are checked, and the limits of its plan admit it. */
import type { IncomingMessage } from 'node:http';
import type { Registry } from 'prom-client';
import type { AccessConfig } from '../config/index.ts';
import { CancelToken, GatewayError } from '../ledger/index.ts';
import type { Journal } from '../metrics/index.ts';
import { type AccessMetrics, createAccessMetrics, type RefusalReason } from './access-metrics.ts';
import { AdmittedRequest, type Answer } from './admitted-request.ts';
import { FileKeys, type KeysPeers } from './keys/file-keys.ts';
import { holdsKey } from './keys/key-set.ts';
import type { AccessOperation, Plan, Principal } from './keys/principal.ts';
import { isBearer, type KeyRejection, type KnownKey, type PrincipalRules, Principals } from './keys/principals.ts';
import { RedisKeys } from './keys/redis-keys.ts';
import type { LimitServiceClient } from './limits/limits-shared.ts';
import { PlanLimits } from './limits/limits.ts';
import type { Limits, Ticket } from './limits/ticket.ts';
import type { AccessRedis } from './redis.ts';
import type { Usage } from './usage/usage.ts';

/** The parts that access is built on. */
export interface AccessDependencies {
  readonly registry: Registry;
  readonly journal: Journal;
  /** Processes of this gateway. */
  readonly processes: number;
  /** Absent: keys come from the file, and this gateway counts alone. */
  readonly redis: AccessRedis | undefined;
  /** The other workers of this gateway; absent in a single process. */
  readonly peers: AccessPeers | undefined;
  /** Default: built from the config. */
  readonly limits: Limits | undefined;
}

/** The other workers, as access addresses them. */
interface AccessPeers extends KeysPeers {
  /** Counts requests for all workers, without Redis. */
  readonly limitService: LimitServiceClient;
}

/** The parts of a request that decide on it. */
type Request = Pick<IncomingMessage, 'url' | 'headers' | 'socket'>;

/** The operation of a request, computed for authenticated requests only. */
interface Match {
  readonly operation: AccessOperation;
}

/** The two ends of an admission: exactly one is called, or neither when the client hangs up first. */
interface Admission {
  /** `admitted`: undefined for a preflight, which has no key. */
  readonly serve: (admitted: AdmittedRequest | undefined) => void;
  readonly refuse: (error: unknown) => void;
}

/** Ends an admission that needs a response: the request waits for its limits, or is refused. */
type LateAdmission = (response: Answer, ends: Admission) => void;

/** A request whose limits are decided elsewhere or later. */
interface AwaitedTicket {
  readonly principal: Principal;
  readonly operation: AccessOperation;
  readonly ticket: Promise<Ticket>;
  /** Ends the wait. */
  readonly stop: CancelToken;
}

/** Reads the keys file at once. Throws ConfigError when it is invalid and no other worker has a valid one. */
export function createAccess(config: AccessConfig, dependencies: AccessDependencies) {
  return new AccessControl(config, dependencies);
}

/** Access control of this process. */
export type Access = ReturnType<typeof createAccess>;

/** Admits requests by key, rights and limits, and counts their usage. */
class AccessControl {
  /** Usage since the start, by key. */
  readonly usage: Usage;
  /** Resolves when Redis is reachable, or known not to be. */
  readonly started: Promise<unknown>;
  readonly #principals: Principals;
  readonly #metrics: AccessMetrics;
  readonly #limits: Limits;
  readonly #planLimits: PlanLimits;
  readonly #fileKeys: FileKeys | undefined;
  readonly #redisKeys: RedisKeys | undefined;

  constructor(config: AccessConfig, dependencies: AccessDependencies) {
    const { registry, journal, peers, redis, limits } = dependencies;
    const { file } = config.keys;
    const keysRedis = config.keys.redis ? redis : undefined;
    this.#planLimits = new PlanLimits(config, {
      ...dependencies,
      limitService: peers?.limitService,
      plans: () => principals.plans.keys(),
    });
    this.#limits = limits ?? this.#planLimits;
    this.usage = this.#planLimits.usage;
    const principals = new Principals(rulesOf(config), { file: file !== undefined, redis: keysRedis !== undefined });
    this.#principals = principals;
    this.#metrics = createAccessMetrics(registry, () => ({ keys: principals.size, plans: principals.plans.keys() }));
    const keys = { principals, metrics: this.#metrics, journal };
    this.#fileKeys = file === undefined ? undefined : new FileKeys(file, keys, peers);
    this.#redisKeys = keysRedis && new RedisKeys(keysRedis, keys);
    this.started = Promise.all([this.#planLimits.started, this.#redisKeys?.started]);
  }

  /** Lower-case name of the header that carries keys; `Vary` lists it. */
  get header(): string {
    return this.#principals.header;
  }

  /** Calls `serve` or `refuse`, now or when the limits allow it. */
  admit(request: Request & { readonly method?: string | undefined }, response: Answer, match: Match, ends: Admission) {
    // Browsers send no key with a preflight. Other OPTIONS requests are refused by the route.
    if (request.method === 'OPTIONS') return ends.serve(undefined);
    const decision = this.decide(request, match);
    if (typeof decision === 'function') decision(response, ends);
    else ends.serve(decision);
  }

  /**
   * Decides on a request by its key or address, its rights and its limits. `known`: for headers that come again. Never
   * throws.
   */
  decide(request: Request, match: Match, known?: KnownKey): AdmittedRequest | LateAdmission {
    try {
      const entered = this.#admit(this.#identify(request, known), request, match.operation);
      if (entered instanceof AdmittedRequest) return entered;
      return (response, ends) => this.#await(entered, response, ends);
    } catch (error) {
      return (_response, { refuse }) => refuse(error);
    }
  }

  /** The tenant ahead of `decide`, which counts refusals; `undefined`: it will refuse the request. */
  tenantOf(request: Request, known: KnownKey): string | undefined {
    const found = this.#find(request, known);
    return typeof found === 'string' || holdsKey(request.url ?? '') ? undefined : found.tenant;
  }

  /** Throws ConfigError when keys of the file name plans that `next` lacks. */
  check(next: AccessConfig): void {
    this.#fileKeys?.check(rulesOf(next).plans);
  }

  /** Applies plans, costs, addresses and the header; sources of keys need a restart. Throws like `check`. */
  update(next: AccessConfig): void {
    const rules = rulesOf(next);
    this.#fileKeys?.check(rules.plans);
    this.#principals.setRules(rules);
    this.#fileKeys?.reapplyPlans();
    this.#redisKeys?.reapplyPlans();
    this.#planLimits.update(next);
  }

  /** Flushes usage and settlements to Redis within its timeouts, and frees everything. */
  async close(): Promise<void> {
    this.#fileKeys?.close();
    this.#redisKeys?.close();
    if (this.#limits !== this.#planLimits) void this.#limits.close();
    await this.#planLimits.close();
  }

  /** The request's principal. `known`: for headers that come again. Throws `GatewayError` 400, 401 or 503. */
  #identify(request: Request, known?: KnownKey): Principal {
    if (holdsKey(request.url ?? '')) {
      this.#metrics.refused('misplaced key');
      // Proxies log targets, and a node would receive this one.
      throw new GatewayError('malformed', `a key belongs into the header ${this.header}, never into the target`);
    }
    const found = this.#find(request, known);
    if (typeof found !== 'string') return found;
    this.#metrics.refused(found);
    throw this.#unauthorized(found, request.headers[this.header]);
  }

  #find({ headers, socket }: Request, known?: KnownKey): Principal | KeyRejection {
    return this.#principals.find(headers, socket, Date.now(), known);
  }

  /** Admits a request by rights and limits, now or after a wait. Throws `GatewayError` 403, 429 or 503. */
  #admit(principal: Principal, { headers }: Request, operation: AccessOperation): AdmittedRequest | AwaitedTicket {
    this.#requireRights(principal, operation, headers.origin);
    const stop = new CancelToken();
    const ticket = this.#limits.admit(principal, operation, stop);
    if (ticket instanceof Promise) return { principal, operation, ticket, stop };
    if (ticket.kind === 'left') throw new Error('a client that waits for nothing has not left');
    return this.#enter(principal, operation, ticket);
  }

  /** Calls `serve` or `refuse` once the limits decide; neither when the client hangs up first. */
  #await({ principal, operation, ticket, stop }: AwaitedTicket, response: Answer, { serve, refuse }: Admission): void {
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
    if (!operations.has(operation)) {
      this.#metrics.refused('operation', plan.name);
      throw new GatewayError('disabled', `this key or plan does not allow the operation "${operation}"`);
    }
    // Programs other than browsers can send any origin, but must send one.
    if (origins === undefined || (origin !== undefined && origins.has(origin))) return;
    this.#metrics.refused('origin', plan.name);
    throw new GatewayError('disabled', 'this key or plan may be used by pages of certain origins only');
  }

  /** `ticket`: of a client that still waits for the answer. */
  #enter(principal: Principal, operation: AccessOperation, ticket: Exclude<Ticket, { kind: 'left' }>): AdmittedRequest {
    if (ticket.kind === 'admitted') return new AdmittedRequest(principal, operation, ticket);
    const { because, retryAfterMs } = ticket;
    const reason: RefusalReason = because === 'limit' ? 'limit' : 'not counted';
    this.#metrics.refused(reason, principal.plan.name);
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

function rulesOf({ header, plans: given, anonymous, trustedProxies }: AccessConfig): PrincipalRules {
  const plans = new Map(Object.entries(given).map(([name, plan]) => [name, planOf(name, plan)]));
  return { header, plans, anonymous: anonymous === undefined ? undefined : plans.get(anonymous), trustedProxies };
}

function planOf(name: string, { operations, origins, ...bounds }: AccessConfig['plans'][string]): Plan {
  return { name, ...bounds, operations: new Set(operations), origins: origins && new Set(origins) };
}
