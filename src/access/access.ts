/** Ahead of its route, a request is authenticated, its rights are checked, and the limits of its plan admit it. */
import type { IncomingMessage } from 'node:http';
import type { Registry } from 'prom-client';
import { type AccessConfig, ConfigError } from '../config/index.ts';
import { CancelToken, GatewayError } from '../ledger/index.ts';
import type { Journal, SharedFiles } from '../metrics/index.ts';
import { type AccessMetrics, createAccessMetrics, type Right } from './access-metrics.ts';
import { clientOf, countedNetwork } from './keys/client-address.ts';
import { holdsToken, Tokens } from './keys/jwt-tokens.ts';
import type { KeysChange } from './keys/key-source.ts';
import { KeyStore } from './keys/key-store.ts';
import {
  type AccessOperation,
  holdsKey,
  type KeyRejection,
  type KnownKey,
  parseBearer,
  type Plan,
  type Principal,
  Principals,
} from './keys/principals.ts';
import { AdmittedRequest, type Answer, PlanLimits } from './limits/limits.ts';
import type { PrimaryPeers } from './limits/primary-counter.ts';
import type { AccessRedis } from './redis.ts';
import type { Usage } from './usage/usage.ts';

interface AccessDependencies {
  readonly registry: Registry;
  readonly journal: Journal;
  readonly processes: number;
  /** Absent: keys come from the file, and this gateway counts alone. */
  readonly redis: AccessRedis | undefined;
  readonly peers: AccessPeers | undefined;
  /** Publishes a change of keys to the other workers; resolves once they have it in force, or after a bound. */
  readonly publishChange: (change: KeysChange) => Promise<void> | undefined;
}

/** The other workers, as access addresses them. */
export interface AccessPeers extends PrimaryPeers {
  readonly files: SharedFiles;
}

type Request = Pick<IncomingMessage, 'url' | 'headers' | 'socket'>;

/** The parts of a request's route that rights and limits depend on. */
interface Routed {
  /** See `Route.charge`. `holder`: the request is about the key itself, whatever operations and origins it has. */
  readonly route: { readonly charge?: 'none' | 'holder' };
  /** Computed for authenticated requests only. */
  readonly operation: AccessOperation;
  /** Absent until the body of a view is read. `functionId`: canonical, of a view; absent: it is not certain. */
  readonly read?: { readonly functionId?: string | undefined };
}

/** The sender of a request, or the reason why there is none. */
type Found = Principal | KeyRejection | 'misplaced key';

/** The two ends of an admission: exactly one is called, or neither when the client hangs up first. */
interface Admission {
  /** Never throws. */
  readonly serve: (admitted: AdmittedRequest) => void;
  readonly refuse: (error: unknown) => void;
}

/** Ends an admission that needs a response: the request waits for its limits, or is refused. */
type LateAdmission = (response: Answer, ends: Admission) => void;

/** Admits the requests of this process by key, rights and limits, and counts their usage. */
export class Access {
  readonly usage: Usage;
  readonly keys: KeyStore;
  /** Resolves when Redis is reachable, or known not to be, and keys have been read once, or not. */
  readonly started: Promise<unknown>;
  readonly #principals: Principals;
  readonly #metrics: AccessMetrics;
  readonly #limits: PlanLimits;
  readonly #tokens: Tokens | undefined;

  /** Reads the keys file at once. Throws ConfigError when it is invalid and no other worker has a valid one. */
  constructor(config: AccessConfig, dependencies: AccessDependencies) {
    const { registry, journal, redis, peers, publishChange } = dependencies;
    const { file } = config.keys;
    const keysRedis = config.keys.redis ? redis : undefined;
    const sources = { file: file !== undefined, redis: keysRedis !== undefined };
    const metrics = createAccessMetrics(registry, config.usage.metricsByKey, {
      keys: () => principals.size,
      plans: () => principals.plans,
      waiting: () => this.#limits.waiting,
      isShared: redis && (() => this.#limits.isShared),
    });
    const tokens =
      config.jwt && new Tokens(config.jwt, { metrics, journal, files: peers?.files }, () => principals.forget());
    const principals: Principals = new Principals(config, sources, tokens);
    this.#metrics = metrics;
    this.#tokens = tokens;
    this.#principals = principals;
    this.#limits = new PlanLimits(config, { ...dependencies, metrics, folder: config.usage.path });
    this.usage = this.#limits.usage;
    this.keys = new KeyStore(file, keysRedis, { principals, metrics, journal, files: peers?.files }, publishChange);
    this.started = Promise.all([this.#limits.started, this.keys.started, tokens?.keys.started]);
  }

  /** Lower-case name of the header that carries keys; `Vary` lists it. */
  get header(): string {
    return this.#principals.header;
  }

  /** Decides on a request; `undefined`: its route needs no key. `known`: for headers that come again. Never throws. */
  decide(request: Request, match: Routed, known?: KnownKey): AdmittedRequest | LateAdmission | undefined {
    const { charge } = match.route;
    if (charge === 'none' || (charge === 'holder' && this.#isAnonymous(request))) return undefined;
    const found = this.#holdsCredential(request) ? 'misplaced key' : this.#find(request, known);
    if (found !== 'unverified') return this.#decideOn(found, request, match, known);
    return (response, ends) => {
      void this.#principals.verify(request.headers, request.socket).then((verified) => {
        if (response.destroyed) return;
        const decision = this.#decideOn(verified, request, match);
        if (typeof decision === 'object') ends.serve(decision);
        else decision(response, ends);
      });
    };
  }

  /** Records the function of a view; `undefined`: not certain. Throws `GatewayError` 403 for one that is denied. */
  requireFunction(admitted: AdmittedRequest, functionId: string | undefined): void {
    admitted.functionId = functionId;
    const { plan } = admitted.principal;
    const fault = this.faultOfView(plan, functionId);
    if (fault === undefined) return;
    this.#metrics.refused('function', plan.name);
    throw fault;
  }

  /** 403 for a view that the plan does not admit. `functionId`: see `requireFunction`. */
  faultOfView({ views }: Plan, functionId: string | undefined): GatewayError | undefined {
    return views === undefined || views.admits(functionId) ? undefined : lacking('function', 'view');
  }

  /** 401 for a request without a key that `decide` left to its route. */
  challenge(): GatewayError {
    this.#metrics.refused('no key');
    return refusalOf('no key', this.header, undefined);
  }

  /** Whether requests of plans with a bound are refused because nothing counts them. */
  get isRefusing(): boolean {
    return this.#limits.isRefusing;
  }

  /** `clientOf` ahead of `decide`, which counts refusals; `undefined`: it will refuse the request. */
  tenantOf(request: Request, known: KnownKey): string | undefined {
    const found = this.#find(request, known);
    if (found === 'unverified') return clientOf(request.socket);
    if (typeof found === 'string' || this.#holdsCredential(request)) return undefined;
    // A key at a wrong address must not take the memory of its tenant.
    return this.#isAtAddress(found, request) ? clientOf(request.socket, { principal: found }) : undefined;
  }

  /**
   * Whether the sender of a request that was `admitted` may still do what it does: its key or token is in force, with the
   * right. Its further work is charged to its plan of now. A forgotten token is verified for the next call.
   */
  stillAdmits(request: Request, admitted: AdmittedRequest, known: KnownKey): boolean {
    const found = this.#find(request, known);
    if (found === 'unverified') {
      void this.#principals.verify(request.headers, request.socket);
      return true;
    }
    if (typeof found === 'string' || found.client !== admitted.principal.client) return false;
    admitted.principal = found;
    return (
      this.#findMissing(found, request, { route: {}, operation: admitted.operation, read: admitted }) === undefined
    );
  }

  /** The plan of this name; without a name, that of requests without a key. `undefined`: there is none. */
  planOf(name: string | undefined): Plan | undefined {
    return this.#principals.planOf(name);
  }

  get plans(): ReadonlySet<string> {
    return this.#principals.plans;
  }

  /** Throws ConfigError when keys of the file, or the config of tokens in force, name plans that `next` lacks. */
  check(next: AccessConfig): void {
    const plans = new Set(Object.keys(next.plans));
    this.keys.check(plans);
    const { plan } = next.jwt ?? {};
    if (plan === undefined || plans.has(plan)) return;
    const message = 'there is no such plan in access.plans any more, and access.jwt changes at a restart alone';
    throw new ConfigError([{ where: { kind: 'nowhere' }, path: ['access', 'jwt', 'plan'], message }]);
  }

  /** Applies plans, costs, addresses and the header; sources of keys need a restart. Throws like `check`. */
  update(next: AccessConfig): void {
    this.check(next);
    this.#principals.setRules(next);
    this.keys.reapplyPlans();
    this.#limits.update(next);
  }

  /** Flushes usage and settlements to Redis within its timeouts, and frees everything. */
  async close(): Promise<void> {
    this.keys.close();
    this.#tokens?.close();
    await this.#limits.close();
  }

  /** Never throws. */
  #decideOn(found: Found, request: Request, match: Routed, known?: KnownKey): AdmittedRequest | LateAdmission {
    try {
      const fault = this.#faultOf(found, request, match);
      if (fault !== undefined || typeof found === 'string') return refusedBy(fault);
      const { operation } = match;
      const address = this.#boundedAddress(found, request);
      if (match.route.charge === 'holder') return this.#limits.admitUncounted(found, operation, address);
      const stop = new CancelToken();
      const decision = this.#limits.admit(found, operation, stop, address);
      if (decision instanceof AdmittedRequest) return decision;
      if (decision instanceof GatewayError) return refusedBy(decision);
      return (response, ends) => {
        let isDecided = false;
        response.once('close', () => {
          if (!isDecided) stop.abort(new Error('the client hung up'));
        });
        void decision.then((late) => {
          isDecided = true;
          if (late === undefined) return;
          if (late instanceof GatewayError) return ends.refuse(late);
          if (response.destroyed) return late.settle(response);
          const fault = found.plan.waitMs > 0 ? this.#faultSince(request, match, known) : undefined;
          if (fault === undefined) return ends.serve(late);
          late.settleAtClose(response);
          ends.refuse(fault);
        });
      };
    } catch (error) {
      return refusedBy(error);
    }
  }

  /** The refusal of a request that has waited for its plan, because its key or a right of it was taken meanwhile. */
  #faultSince(request: Request, match: Routed, known: KnownKey | undefined): GatewayError | undefined {
    const found = this.#find(request, known);
    return found === 'unverified' ? undefined : this.#faultOf(found, request, match);
  }

  /** 400, 401, 403 or 503, which is counted; `undefined`: the principal has the rights. */
  #faultOf(found: Found, request: Request, match: Routed): GatewayError | undefined {
    if (typeof found === 'string') {
      this.#metrics.refused(found);
      return refusalOf(found, this.header, request.headers[this.header]);
    }
    const missing = this.#findMissing(found, request, match);
    if (missing === undefined) return undefined;
    this.#metrics.refused(missing, found.plan.name);
    return lacking(missing, match.operation);
  }

  #findMissing(principal: Principal, request: Request, { route, operation, read }: Routed): Right | undefined {
    const { operations, origins, plan } = principal;
    if (!this.#isAtAddress(principal, request)) return 'address';
    if (route.charge === 'holder') return undefined;
    if (!operations.has(operation)) return 'operation';
    const { origin } = request.headers;
    // Programs other than browsers can send any origin, but must send one.
    if (origins !== undefined && (origin === undefined || !origins.has(origin))) return 'origin';
    if (operation !== 'view' || plan.views === undefined || read === undefined) return undefined;
    return plan.views.admits(read.functionId) ? undefined : 'function';
  }

  /** Whether the key may be used at the client's address, which is computed for keys with a list alone. */
  #isAtAddress({ addresses }: Principal, { headers, socket }: Request): boolean {
    return addresses === undefined || addresses.holds(this.#principals.addressOf(headers, socket));
  }

  #isAnonymous(request: Request): boolean {
    return request.headers[this.header] === undefined && !this.#holdsCredential(request);
  }

  #find({ headers, socket }: Request, known?: KnownKey): Principal | KeyRejection | 'unverified' {
    return this.#principals.find(headers, socket, Date.now(), known);
  }

  /** The network of a client with a key, for plans that bound it. */
  #boundedAddress({ name, plan }: Principal, { headers, socket }: Request): string | undefined {
    if (plan.bounds?.perAddress === undefined || name === undefined) return undefined;
    return countedNetwork(this.#principals.addressOf(headers, socket));
  }

  /** Whether the target has a key or a token: proxies log targets, and a node would receive this one. */
  #holdsCredential({ url = '' }: Request): boolean {
    return holdsKey(url) || (this.#tokens !== undefined && holdsToken(url));
  }
}

function refusedBy(error: unknown): LateAdmission {
  return (_response, { refuse }) => refuse(error);
}

/** 403. `operation`: the request's. */
function lacking(right: Right, operation: AccessOperation): GatewayError {
  const messages: Readonly<Record<Right, string>> = {
    address: 'this key may be used from certain addresses only',
    operation: `this key or plan does not allow the operation "${operation}"`,
    origin: 'this key or plan may be used by pages of certain origins only',
    function: 'this plan allows views of certain functions only, in a form that leaves no doubt of the function',
  };
  return new GatewayError('disabled', messages[right]);
}

function refusalOf(
  why: Exclude<Found, Principal>,
  header: string,
  given: string | readonly string[] | undefined,
): GatewayError {
  if (why === 'misplaced key')
    return new GatewayError('malformed', `a key belongs into the header ${header}, never into the target`);
  if (why === 'unread')
    return new GatewayError('unavailable', 'the keys are not loaded yet; try again', { reason: 'keys unread' });
  if (why === 'busy')
    return new GatewayError('unavailable', 'too many tokens are being verified; try again', { reason: 'tokens' });
  const isStandard = header === 'authorization';
  // Without credentials, or with another scheme, the challenge has no error code (RFC 6750 3.1).
  const isToken = given !== undefined && (!isStandard || parseBearer(String(given)) !== undefined);
  const challenge = `Bearer realm="ledgergate"${isToken ? ', error="invalid_token"' : ''}`;
  const form = isStandard ? 'Authorization: Bearer KEY' : `${header}: KEY`;
  const message = why === 'no key' ? `a key is needed: ${form}` : `the ${nounOf[why]} is not valid, or has expired`;
  return new GatewayError('unauthorized', message, { headers: ['WWW-Authenticate', challenge] });
}

const nounOf = { 'bad key': 'key', 'bad token': 'token' } as const;
