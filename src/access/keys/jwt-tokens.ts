/**
 * Tokens of an issuer (JWT, RFC 7519): verified once, then remembered by their SHA-256 until they expire, or their key is
 * gone. No message and no log line quotes a token or its claims.
 */
import { LRUCache } from 'lru-cache';
import type { CryptoKey, JWTPayload, JWTVerifyOptions } from 'jose';
import { type IssuerContext, IssuerKeys, type JwtConfig, type KeySet } from './jwt-keys.ts';

/** A verified token: claims alone. */
export interface VerifiedToken {
  readonly tenant: string;
  /** A plan's name, which the config may lack. */
  readonly plan: string;
  readonly kid: string | undefined;
  /** Unix time in ms, with the allowed difference of clocks. */
  readonly expiresAtMs: number;
}

/** `busy`: too many are being verified; `unread`: no keys of the issuer are known yet. */
export type TokenRejection = 'bad token' | 'busy' | 'unread';

/** Characters. Longer texts are no tokens. */
const longestToken = 8 * 1024;
const form = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/** Whether a text has the form of a signed token. The five parts of an encrypted one (JWE) have not. */
export function isToken(text: string): boolean {
  return text.length <= longestToken && form.test(text);
}

/** Whether a text contains a token: `eyJ` is `{"`, the beginning of every set of claims. */
export function holdsToken(text: string): boolean {
  return text.includes('.eyJ') && heldForm.test(text);
}

const heldForm = /[\w-]{8}\.eyJ[\w-]{8,}\.[\w-]{8}/;

/** Remembered tokens of a process, of each kind; one takes some 300 bytes. */
const mostTokens = 20_000;
/** A refused token is refused again without a verification for this long, in ms. */
const refusedMs = 10_000;
/** Verifications in flight, in all and of one network: a signature takes some 0.1 ms of a core. */
const [mostVerified, mostOfNetwork] = [256, 64];
/** Tokens that wait for keys of the issuer, apart: they must not keep others from being verified. */
const mostWaiting = 32;
/** Keys that a token without `kid` is tried with. */
const mostCandidates = 8;

type Result = VerifiedToken | TokenRejection;

interface TokensContext extends IssuerContext {
  readonly metrics: IssuerContext['metrics'] & { tokenVerified(result: 'ok' | TokenRejection): void };
}

/** The tokens of one issuer, in one process. */
export class Tokens {
  readonly keys: IssuerKeys;
  readonly #config: JwtConfig;
  readonly #metrics: TokensContext['metrics'];
  /** Both by SHA-256. An attacker cannot choose digests, so a comparison whose time varies reveals nothing. */
  readonly #verified = new LRUCache<string, VerifiedToken>({ max: mostTokens });
  readonly #refused = new LRUCache<string, true>({ max: mostTokens, ttl: refusedMs });
  readonly #inFlight = new Map<string, Promise<Result>>();
  readonly #ofNetwork = new Map<string, number>();
  #waiting = 0;

  /** `onForgotten`: called when tokens have to be verified again, because their key is gone. */
  constructor(config: JwtConfig, context: TokensContext, onForgotten: () => void) {
    this.#config = config;
    this.#metrics = context.metrics;
    this.keys = new IssuerKeys(config, context, (next, before) => {
      if (this.#forget(next, before)) onForgotten();
    });
  }

  /** The result of a token's verification; `undefined`: it has to be verified. `sha256`: of the token. `nowMs`: Unix time. */
  find(sha256: string, nowMs: number): VerifiedToken | 'bad token' | undefined {
    const verified = this.#verified.get(sha256);
    if (verified !== undefined) return nowMs < verified.expiresAtMs ? verified : 'bad token';
    return this.#refused.has(sha256) ? 'bad token' : undefined;
  }

  /** Verifies a token, joining its verification in flight. Never rejects. `network`: of the client. */
  verify(token: string, sha256: string, network: string): Promise<Result> {
    const known = this.#inFlight.get(sha256);
    if (known !== undefined) return known;
    const ofNetwork = this.#ofNetwork.get(network) ?? 0;
    if (this.#inFlight.size - this.#waiting >= mostVerified || ofNetwork >= mostOfNetwork) {
      this.#metrics.tokenVerified('busy');
      return Promise.resolve('busy');
    }
    this.#ofNetwork.set(network, ofNetwork + 1);
    const verifying = this.#verify(token).then((result) => {
      this.#inFlight.delete(sha256);
      const left = (this.#ofNetwork.get(network) ?? 1) - 1;
      if (left === 0) this.#ofNetwork.delete(network);
      else this.#ofNetwork.set(network, left);
      this.#remember(sha256, result);
      return result;
    });
    this.#inFlight.set(sha256, verifying);
    return verifying;
  }

  close(): void {
    this.keys.close();
  }

  #remember(sha256: string, result: Result): void {
    if (typeof result === 'object') this.#verified.set(sha256, result);
    else if (result === 'bad token') this.#refused.set(sha256, true);
    this.#metrics.tokenVerified(typeof result === 'object' ? 'ok' : result);
  }

  /** A refused token may be valid under new keys; a valid one is so under the key that verified it alone. Returns whether any is gone. */
  #forget({ byKid }: KeySet, before: KeySet | undefined): boolean {
    this.#refused.clear();
    const gone = [...this.#verified.entries()].filter(([, { kid }]) => {
      return kid === undefined || byKid.get(kid) !== before?.byKid.get(kid);
    });
    for (const [sha256] of gone) this.#verified.delete(sha256);
    return gone.length > 0;
  }

  async #verify(token: string): Promise<Result> {
    const first = await this.#check(token);
    if (first !== 'unknown key' && first !== 'unread') return first;
    const renewed = this.keys.renewForToken();
    if (renewed === undefined) return first === 'unread' ? 'unread' : 'bad token';
    if (this.#waiting >= mostWaiting) return 'busy';
    this.#waiting += 1;
    await renewed;
    this.#waiting -= 1;
    const second = await this.#check(token);
    return second === 'unknown key' ? 'bad token' : second;
  }

  /** Under the keys in force at its end: a result of earlier ones would be remembered too long. */
  async #check(token: string): Promise<Result | 'unknown key'> {
    const { set } = this.keys;
    if (set === undefined) return 'unread';
    const result = await this.#checkWith(set, token);
    return this.keys.set === set ? result : this.#check(token);
  }

  async #checkWith({ find }: KeySet, token: string): Promise<Result | 'unknown key'> {
    const { algorithms, issuer, audience, clockSkewMs } = this.#config;
    const options: JWTVerifyOptions = {
      // The one name of RFC 8037 and its successor of RFC 9864 are the same algorithm.
      algorithms: algorithms.includes('EdDSA') ? [...algorithms, 'Ed25519'] : [...algorithms],
      issuer,
      audience,
      clockTolerance: clockSkewMs / 1_000,
      requiredClaims: ['exp'],
    };
    try {
      const { protectedHeader, payload } = await verifyWith(token, find, options);
      return this.#claimsOf(payload, protectedHeader.kid);
    } catch (error) {
      return codeOf(error) === 'ERR_JWKS_NO_MATCHING_KEY' ? 'unknown key' : 'bad token';
    }
  }

  #claimsOf(payload: JWTPayload, kid: string | undefined): Result {
    const { claims, plan: usualPlan, clockSkewMs } = this.#config;
    const claimOf = (name: string): unknown => (Object.hasOwn(payload, name) ? payload[name] : undefined);
    const tenant = claimOf(claims.tenant);
    const plan = claimOf(claims.plan) ?? usualPlan;
    if (typeof tenant !== 'string' || !tenantForm.test(tenant) || typeof plan !== 'string') return 'bad token';
    return { tenant, plan, kid, expiresAtMs: Number(payload.exp) * 1_000 + clockSkewMs };
  }
}

/** Visible ASCII without space: it is part of names in Redis, of usage and of logs. */
const tenantForm = /^[!-~]{1,128}$/;

/** Rejects with errors of `jose`. A token without `kid` is tried with the keys that fit its algorithm. */
async function verifyWith(token: string, find: KeySet['find'], options: JWTVerifyOptions) {
  const { jwtVerify } = await import('jose/jwt/verify');
  try {
    return await jwtVerify(token, find, options);
  } catch (error) {
    if (codeOf(error) !== 'ERR_JWKS_MULTIPLE_MATCHING_KEYS') throw error;
    let tried = 0;
    for await (const key of error as AsyncIterable<CryptoKey>) {
      try {
        return await jwtVerify(token, key, options);
      } catch (fault) {
        if (codeOf(fault) !== 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED') throw fault;
      }
      tried += 1;
      if (tried === mostCandidates) break;
    }
    throw error;
  }
}

function codeOf(error: unknown): unknown {
  return (Object(error) as { readonly code?: unknown }).code;
}
