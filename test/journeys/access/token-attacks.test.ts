// Tokens that nobody may get in with: each is refused like a wrong key, and no node is asked.
import assert from 'node:assert/strict';
import { createPublicKey, publicEncrypt, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { deflateRawSync } from 'node:zlib';
import { type LogLine, nodeAndGateway } from '../../support/gateway.ts';
import {
  audience,
  claimsOf,
  encoded,
  hmacSigned,
  issuerName,
  jwtConfig,
  signed,
  signingKey,
  testIssuer,
  tokenOf,
} from '../../support/issuer.ts';
import { bearer, path } from '../../support/keyed-gateway.ts';
import { accessConfig } from '../../support/keys.ts';
import { listen } from '../../support/listen.ts';

const nowSeconds = () => Math.floor(Date.now() / 1_000);

const ec = signingKey('ec');
const rsa = signingKey('rsa', 'RS256');
const ed = signingKey('ed', 'EdDSA');
/** The issuer publishes it by mistake: RFC 7518 3.3 asks for 2,048 bits (GHSA-m523-xm42-q7ff). */
const short = signingKey('short', 'RS256', 1_024);
/** An attacker's own. */
const own = signingKey('ec');
const ownRsa = signingKey('rsa', 'RS256');

const header = { alg: 'ES256', kid: 'ec', typ: 'JWT' };
const good = claimsOf('acme');
const pem = createPublicKey(rsa.secret).export({ type: 'spki', format: 'pem' });
const der = createPublicKey(rsa.secret).export({ type: 'spki', format: 'der' });
const text = `${encoded(header)}.${encoded(good)}`;
const [, , validSignature = ''] = tokenOf(ec, 'acme').split('.');
/** Of P-256 (SEC 2, 2.4.2). */
const order = 'ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551';
const without = (name: string) => Object.fromEntries(Object.entries(good).filter(([one]) => one !== name));

/** A compact JWE (RFC 7516) for the issuer's own public key; `cek`: its content is of no consequence. */
function jwe(head: object, content: Buffer, cek = randomBytes(32)): string {
  const key = publicEncrypt({ key: pem, oaepHash: 'sha256' }, cek);
  const parts = [encoded(head), key, randomBytes(12), content, randomBytes(16)];
  return parts.map((part) => (typeof part === 'string' ? part : part.toString('base64url'))).join('.');
}

/** By attack; `url`: of a server that a header may name. */
function attacks(url: string): Readonly<Record<string, string>> {
  const bomb = deflateRawSync(Buffer.alloc(1_000_000));
  return {
    'alg none': `${encoded({ alg: 'none' })}.${encoded(good)}.`,
    'alg none with a signature': `${encoded({ alg: 'none', kid: 'ec' })}.${encoded(good)}.${validSignature}`,
    'alg nOnE': `${encoded({ alg: 'nOnE', kid: 'ec' })}.${encoded(good)}.AA`,
    'no alg': signed(ec, { kid: 'ec' }, good),
    'alg as a list': signed(ec, { ...header, alg: ['ES256'] }, good),
    'no signature': `${text}.`,
    'no signature, two parts': text,
    'another signature': `${text}.${randomBytes(64).toString('base64url')}`,
    'a psychic signature (CVE-2022-21449)': `${text}.${Buffer.alloc(64).toString('base64url')}`,
    'a psychic signature in DER': `${text}.${Buffer.from('3006020100020100', 'hex').toString('base64url')}`,
    'r and s of the order of the curve': `${text}.${Buffer.from(order.repeat(2), 'hex').toString('base64url')}`,
    'a zero signature of Ed25519': `${encoded({ alg: 'EdDSA', kid: 'ed' })}.${encoded(good)}.${Buffer.alloc(64).toString('base64url')}`,
    'a zero signature of RSA': `${encoded({ alg: 'RS256', kid: 'rsa' })}.${encoded(good)}.${Buffer.alloc(256).toString('base64url')}`,
    'other claims under a signature': `${encoded(header)}.${encoded(claimsOf('victim'))}.${validSignature}`,
    'HMAC with the public key as PEM': hmacSigned(pem, { alg: 'HS256', kid: 'rsa' }, good),
    'HMAC with the public key as DER': hmacSigned(der, { alg: 'HS256', kid: 'rsa' }, good),
    'HMAC with the public key as JWK': hmacSigned(JSON.stringify(rsa.jwk), { alg: 'HS256', kid: 'rsa' }, good),
    'HMAC with the modulus': hmacSigned(String(rsa.jwk.n), { alg: 'HS256', kid: 'rsa' }, good),
    'HMAC with nothing': hmacSigned('', { alg: 'HS256', kid: 'rsa' }, good),
    'HMAC with a shared key of the issuer': hmacSigned('shared', { alg: 'HS256', kid: 'shared' }, good),
    'a key in the header': signed(own, { ...header, jwk: own.jwk }, good),
    'a key in the header, without kid': signed(own, { alg: 'ES256', jwk: own.jwk }, good),
    'an address of keys in the header': signed(own, { ...header, jku: url }, good),
    'an address of keys, another kid': signed(own, { alg: 'ES256', kid: 'own', jku: url }, good),
    'an address of a certificate': signed(ownRsa, { alg: 'RS256', kid: 'rsa', x5u: url }, good),
    'a certificate in the header': signed(ownRsa, { alg: 'RS256', kid: 'rsa', x5c: [der.toString('base64')] }, good),
    'an unknown kid': signed(own, { alg: 'ES256', kid: 'unknown' }, good),
    'a kid that is a path': signed(own, { alg: 'ES256', kid: '../../../../dev/null' }, good),
    'a kid for a database': signed(own, { alg: 'ES256', kid: "' UNION SELECT 'key" }, good),
    'a kid of a prototype': signed(own, { alg: 'ES256', kid: '__proto__' }, good),
    'a kid that is an object': signed(own, { alg: 'ES256', kid: { toString: 'ec' } }, good),
    'a kid that is null': signed(own, { alg: 'ES256', kid: null }, good),
    'no kid, the key of another': signed(own, { alg: 'ES256' }, good),
    'the kid of a key of another kind': signed(ec, { alg: 'ES256', kid: 'rsa' }, good),
    'an algorithm of another kind of key': signed(ec, { alg: 'RS256', kid: 'ec' }, good),
    'an algorithm that the config lacks': signed(rsa, { alg: 'RS512', kid: 'rsa' }, good),
    'a short key of RSA (GHSA-m523-xm42-q7ff)': tokenOf(short, 'acme'),
    'an unknown critical header': signed(ec, { ...header, crit: ['exp'], exp: 1 }, good),
    'an unencoded payload (RFC 7797)': signed(ec, { ...header, crit: ['b64'], b64: false }, good),
    'an empty list of critical headers': signed(ec, { ...header, crit: [] }, good),
    'another issuer': tokenOf(ec, 'acme', { iss: 'https://evil.example/' }),
    'the issuer without its slash': tokenOf(ec, 'acme', { iss: issuerName.slice(0, -1) }),
    'issuers as a list': tokenOf(ec, 'acme', { iss: [issuerName] }),
    'no issuer': signed(ec, header, without('iss')),
    'another audience': tokenOf(ec, 'acme', { aud: 'https://other.example' }),
    'other audiences': tokenOf(ec, 'acme', { aud: [`${audience}/`, audience.toUpperCase()] }),
    'an audience as an object': tokenOf(ec, 'acme', { aud: { 0: audience } }),
    'no audience': signed(ec, header, without('aud')),
    expired: tokenOf(ec, 'acme', { exp: nowSeconds() - 1 }),
    'expired long ago': tokenOf(ec, 'acme', { exp: -1 }),
    'no expiry': signed(ec, header, without('exp')),
    'an expiry as a text': tokenOf(ec, 'acme', { exp: String(nowSeconds() + 600) }),
    'an expiry of null': tokenOf(ec, 'acme', { exp: null }),
    'not valid yet': tokenOf(ec, 'acme', { nbf: nowSeconds() + 60 }),
    'a beginning as a text': tokenOf(ec, 'acme', { nbf: '0' }),
    'no tenant': signed(ec, header, without('sub')),
    'an empty tenant': tokenOf(ec, ''),
    'a tenant with a space': tokenOf(ec, 'acme evil'),
    'a tenant with a line end': tokenOf(ec, 'acme\r\nx: y'),
    'a tenant beyond ASCII': tokenOf(ec, 'ácme'),
    'a tenant of 129 characters': tokenOf(ec, 'a'.repeat(129)),
    'a tenant that is a number': tokenOf(ec, 'acme', { sub: 7 }),
    'a tenant that is a list': tokenOf(ec, 'acme', { sub: ['acme'] }),
    'a plan that the config lacks': tokenOf(ec, 'acme', { plan: 'gold' }),
    'a plan of a prototype': tokenOf(ec, 'acme', { plan: '__proto__' }),
    'a plan that is a list': tokenOf(ec, 'acme', { plan: ['free'] }),
    'no plan': signed(ec, header, without('plan')),
    'claims that are a list': signed(ec, header, [good]),
    'claims that are no JSON': signed(ec, header, 'acme'),
    'a header that is no JSON': `${encoded('acme')}.${encoded(good)}.${validSignature}`,
    'too long': tokenOf(ec, 'acme', { note: 'x'.repeat(6_200) }),
    'encrypted with a padding oracle (GHSA-58f5-hfqc-jgch)': jwe(
      { alg: 'RSA-OAEP-256', enc: 'A128CBC-HS256', kid: 'rsa' },
      randomBytes(64),
    ),
    'encrypted by a password of many rounds (GHSA-jv3g-j58f-9mq9)': jwe(
      { alg: 'PBES2-HS512+A256KW', enc: 'A256GCM', p2c: 2_000_000_000, p2s: 'AAAA', kid: 'rsa' },
      randomBytes(64),
    ),
    'encrypted and deflated (GHSA-hhhv-q57g-882q)': jwe(
      { alg: 'RSA-OAEP-256', enc: 'A256GCM', zip: 'DEF', kid: 'rsa' },
      bomb,
    ),
    'signed and deflated': signed(ec, { ...header, zip: 'DEF' }, bomb.toString('latin1')),
    'JSON serialisation': encoded({ payload: encoded(good), signatures: [] }),
    'two tokens': `${tokenOf(ec, 'acme')},${tokenOf(ec, 'acme')}`,
    'padding of base64': `${tokenOf(ec, 'acme')}==`,
    'a line end behind it': `${tokenOf(ec, 'acme')}%0a`,
  };
}

test('no forged, foreign, expired or encrypted token gets in: each is 401, and none reaches a node', async (t) => {
  let asked = 0;
  const foreign = createServer((_request, response) => {
    asked += 1;
    response.end(JSON.stringify({ keys: [own.jwk, ownRsa.jwk] }));
  });
  const url = `http://127.0.0.1:${await listen(t, foreign)}/keys`;
  const issuer = await testIssuer(t, [ec, rsa, ed, short]);
  issuer.keys = [...issuer.keys, { kty: 'oct', kid: 'shared', alg: 'HS256', k: encoded('shared') }];
  const lines: LogLine[] = [];
  const access = accessConfig({ jwt: jwtConfig(issuer.url), anonymous: 'free' });
  const { node, gateway } = await nodeAndGateway(t, { access, onLog: (line) => lines.push(line) });
  const tokens = attacks(url);
  const before = node.log.count;

  const results: Record<string, unknown> = {};
  for (const [name, token] of Object.entries(tokens)) {
    // The second time it is remembered.
    for (const turn of ['first', 'again']) {
      const { status, headers, text } = await gateway.get(path, bearer(token));
      const isRefused =
        status === 401 && headers['www-authenticate'] === 'Bearer realm="ledgergate", error="invalid_token"';
      if (!isRefused || text.includes('acme')) results[`${name}, ${turn}`] = [status, text];
    }
  }

  assert.deepEqual(results, {});
  assert.equal(node.log.count, before);
  assert.equal(asked, 0);
  // At the start, and once for all tokens with an unknown key.
  assert.equal(issuer.count, 2);
  for (const key of [ec, rsa, ed]) {
    assert.equal((await gateway.get(path, { authorization: `bearer ${tokenOf(key, 'acme')}` })).status, 200, key.kid);
  }
  const logged = JSON.stringify(lines);
  for (const token of Object.values(tokens)) assert.ok(!logged.includes(token.slice(-40)), token);
});

test('clocks may differ by the configured time, and no second more', async (t) => {
  const issuer = await testIssuer(t, [ec]);
  const access = accessConfig({ jwt: jwtConfig(issuer.url, { clockSkewMs: 60_000 }) });
  const { gateway } = await nodeAndGateway(t, { access });
  const statusOf = async (claims: object) =>
    (await gateway.get(path, bearer(tokenOf(ec, 'acme', { ...claims })))).status;

  assert.equal(await statusOf({ exp: nowSeconds() - 30 }), 200);
  assert.equal(await statusOf({ exp: nowSeconds() - 61 }), 401);
  assert.equal(await statusOf({ nbf: nowSeconds() + 60 }), 200);
  assert.equal(await statusOf({ nbf: nowSeconds() + 120 }), 401);
});
