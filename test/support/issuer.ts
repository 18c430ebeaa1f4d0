/** An issuer of tokens (JWT): its keys over HTTP, and tokens signed by `node:crypto` alone. */
import {
  createHmac,
  generateKeyPairSync,
  type JsonWebKey,
  type KeyObject,
  sign as signBytes,
  type SignKeyObjectInput,
} from 'node:crypto';
import { createServer, type RequestListener } from 'node:http';
import type { TestContext } from 'node:test';
import type { AccessConfig } from '../../src/config/config.ts';
import { listen } from './listen.ts';

type Json = Readonly<Record<string, unknown>>;
type JwtConfig = NonNullable<AccessConfig['jwt']>;

export interface SigningKey {
  readonly kid: string;
  readonly alg: 'RS256' | 'PS256' | 'ES256' | 'EdDSA';
  readonly secret: KeyObject;
  /** As the issuer publishes it. */
  readonly jwk: JsonWebKey & Json;
}

/** A new key; `bits`: of RSA. */
export function signingKey(kid: string, alg: SigningKey['alg'] = 'ES256', bits = 2_048): SigningKey {
  const { privateKey, publicKey } =
    alg === 'ES256'
      ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
      : alg === 'EdDSA'
        ? generateKeyPairSync('ed25519')
        : generateKeyPairSync('rsa', { modulusLength: bits });
  return { kid, alg, secret: privateKey, jwk: { ...publicKey.export({ format: 'jwk' }), kid, use: 'sig' } };
}

export function encoded(content: unknown): string {
  return Buffer.from(typeof content === 'string' ? content : JSON.stringify(content)).toString('base64url');
}

/** Signs header and claims as they are, with the algorithm of the key. */
export function signed({ alg, secret }: SigningKey, header: Json, claims: unknown): string {
  const text = `${encoded(header)}.${encoded(claims)}`;
  const key: SignKeyObjectInput = { key: secret, dsaEncoding: 'ieee-p1363' };
  if (alg === 'PS256') Object.assign(key, { padding: 6, saltLength: 32 });
  return `${text}.${signBytes(alg === 'EdDSA' ? null : 'sha256', Buffer.from(text), key).toString('base64url')}`;
}

/** `HS256` with any bytes as the secret. */
export function hmacSigned(secret: string | Buffer, header: Json, claims: unknown): string {
  const text = `${encoded(header)}.${encoded(claims)}`;
  return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
}

export const issuerName = 'https://idp.example/';
export const audience = 'https://rpc.example';

/** Claims that a gateway with `jwtConfig` accepts for ten minutes; `more` overrides. */
export function claimsOf(tenant: string, more: Json = {}): Json {
  const exp = Math.floor(Date.now() / 1_000) + 600;
  return { iss: issuerName, aud: audience, exp, sub: tenant, plan: 'free', ...more };
}

/** A token of the tenant. */
export function tokenOf(key: SigningKey, tenant: string, more: Json = {}): string {
  return signed(key, { alg: key.alg, kid: key.kid, typ: 'JWT' }, claimsOf(tenant, more));
}

/** `jwks`: an address, or the name of a file. */
export function jwtConfig(jwks: string, more: Partial<JwtConfig> = {}): JwtConfig {
  return {
    issuer: issuerName,
    audience,
    jwks: jwks.startsWith('/') ? { file: jwks } : { url: jwks },
    algorithms: ['RS256', 'PS256', 'ES256', 'EdDSA'],
    clockSkewMs: 0,
    claims: { tenant: 'sub', plan: 'plan' },
    ...more,
  };
}

export interface Issuer {
  readonly url: string;
  /** Requests for its keys. */
  count: number;
  /** Published keys. */
  keys: readonly object[];
  /** In place of its keys. */
  answer: RequestListener | undefined;
}

/** Publishes `keys` until the test ends. */
export async function testIssuer(t: TestContext, keys: readonly SigningKey[]): Promise<Issuer> {
  const server = createServer((request, response) => {
    issuer.count += 1;
    if (issuer.answer !== undefined) issuer.answer(request, response);
    else response.setHeader('content-type', 'application/json').end(JSON.stringify({ keys: issuer.keys }));
  });
  const port = await listen(t, server);
  const issuer: Issuer = {
    url: `http://127.0.0.1:${port}/keys`,
    count: 0,
    keys: keys.map(({ jwk }) => jwk),
    answer: undefined,
  };
  return issuer;
}
