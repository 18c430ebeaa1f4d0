// Tokens and keys of an issuer where journeys cannot see: bounds, renewals, and which keys count.
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Registry } from 'prom-client';
import { createAccessMetrics } from '../../../src/access/access-metrics.ts';
import { inspectIssuer, IssuerKeys, type KeySet, parseKeySet } from '../../../src/access/keys/jwt-keys.ts';
import { Tokens } from '../../../src/access/keys/jwt-tokens.ts';
import { type FileTexts, Journal, SharedFiles } from '../../../src/metrics/index.ts';
import { until } from '../../support/eventually.ts';
import { fc } from '../../support/fast-check.ts';
import { claimsOf, jwtConfig, signed, signingKey, testIssuer, tokenOf } from '../../support/issuer.ts';

const [first, second] = [signingKey('first'), signingKey('second', 'RS256')];
const digestOf = (token: string): string => hash('sha256', token);

const nothing = (): void => undefined;

/** `files`: absent in a single process. */
function context(files?: SharedFiles) {
  return {
    files,
    metrics: createAccessMetrics(new Registry(), false, { keys: () => 0, plans: () => [], waiting: () => 0 }),
    journal: new Journal({ debug: nothing, info: nothing, warn: nothing, error: nothing }),
  };
}

async function tokensOf(t: TestContext, url: string) {
  let forgotten = 0;
  const tokens = new Tokens(jwtConfig(url), context(), () => {
    forgotten += 1;
  });
  t.after(() => tokens.close());
  await tokens.keys.started;
  const verify = (token: string, network = '192.0.2.1') => tokens.verify(token, digestOf(token), network);
  const find = (token: string, nowMs = Date.now()) => tokens.find(digestOf(token), nowMs);
  return { tokens, verify, find, forgotten: () => forgotten };
}

test('256 tokens are verified at once, 64 of one network, and one more is refused until there is room', async (t) => {
  const issuer = await testIssuer(t, [first]);
  const { verify } = await tokensOf(t, issuer.url);
  const fresh = (index: number) => tokenOf(first, `tenant-${index}`);
  const ofOne = Array.from({ length: 65 }, (_, index) => verify(fresh(index), 'one'));
  const ofOthers = Array.from({ length: 193 }, (_, index) => verify(fresh(1_000 + index), `other-${index % 6}`));

  const results = await Promise.all([...ofOne, ...ofOthers]);
  assert.equal(results[64], 'busy');
  assert.equal(results.at(-1), 'busy');
  assert.equal(results.filter((result) => typeof result === 'object').length, 256);
  assert.equal(typeof (await verify(fresh(64), 'one')), 'object');
});

test('tokens that wait for the issuer take no place from others, and are bounded themselves', async (t) => {
  const issuer = await testIssuer(t, [first]);
  const { verify } = await tokensOf(t, issuer.url);
  const held = Promise.withResolvers<void>();
  issuer.answer = (_request, response) =>
    void held.promise.then(() => response.end(JSON.stringify({ keys: issuer.keys })));
  const unknown = { ...first, kid: 'unknown' };
  const waiting = Array.from({ length: 40 }, (_, index) => verify(tokenOf(unknown, `tenant-${index}`)));
  await until(() => issuer.count === 2);

  assert.equal(typeof (await verify(tokenOf(first, 'acme'))), 'object');
  held.resolve();
  const results = await Promise.all(waiting);
  assert.equal(results.filter((result) => result === 'busy').length, 8);
  assert.equal(results.filter((result) => result === 'bad token').length, 32);
  assert.equal(issuer.count, 2);
});

test('renewed keys forget the tokens of those that are gone, and what was refused', async (t) => {
  const issuer = await testIssuer(t, [first]);
  const { tokens, verify, find, forgotten } = await tokensOf(t, issuer.url);
  const [stays, goes, comes] = [tokenOf(second, 'stays'), tokenOf(first, 'goes'), tokenOf(second, 'comes')];
  const bad = tokenOf({ ...second, kid: 'first' }, 'bad');
  await verify(goes);
  await verify(bad);
  assert.equal(find(bad), 'bad token');

  issuer.keys = [first.jwk, second.jwk];
  await tokens.keys.renew();
  assert.equal(find(bad), undefined);
  assert.equal(typeof find(goes), 'object');
  assert.equal(forgotten(), 0);
  await verify(stays);
  issuer.keys = [second.jwk];
  await tokens.keys.renew();
  assert.equal(find(goes), undefined);
  assert.equal(typeof find(stays), 'object');
  assert.equal(forgotten(), 1);
  assert.equal(await verify(goes), 'bad token');
  assert.equal(typeof (await verify(comes)), 'object');
});

test('a token that is verified while its key goes is not remembered', async (t) => {
  const issuer = await testIssuer(t, [first]);
  const { tokens, verify, find } = await tokensOf(t, issuer.url);
  const ready = Array.from({ length: 400 }, (_, index) => tokenOf(first, `tenant-${index}`));
  issuer.keys = [second.jwk];
  const before = tokens.keys.set;
  const renewed = tokens.keys.renew();
  const verifying: Promise<unknown>[] = [];
  // Some end behind the change, in every turn of the event loop.
  for (const token of ready) {
    if (tokens.keys.set !== before) break;
    verifying.push(verify(token));
    await setImmediate();
  }
  await Promise.all([renewed, ...verifying]);
  assert.notEqual(tokens.keys.set, before);
  assert.deepEqual(
    ready.filter((token) => typeof find(token) === 'object'),
    [],
  );
});

test('keys are renewed at an interval, and soon again after a failure', async (t) => {
  const issuer = await testIssuer(t, [first]);
  const sets: KeySet[] = [];
  const keys = new IssuerKeys(jwtConfig(issuer.url), context(), (next) => void sets.push(next), 20);
  t.after(() => keys.close());
  await keys.started;
  await until(() => issuer.count >= 4);
  assert.equal(sets.length, 1);

  issuer.keys = [second.jwk];
  await until(() => sets.length === 2);
  assert.deepEqual([...(keys.set?.byKid.keys() ?? [])], ['second']);
  issuer.answer = (_request, response) => response.writeHead(302, { location: issuer.url }).end();
  const { count } = issuer;
  await until(() => issuer.count >= count + 3);
  assert.deepEqual([...(keys.set?.byKid.keys() ?? [])], ['second']);
});

test('a worker that starts while the issuer is away has the keys of the others, and those of the issuer after it', async (t) => {
  const issuer = await testIssuer(t, [first]);
  const kept = new Map<string, FileTexts>();
  const published: string[] = [];
  const start = async (): Promise<IssuerKeys> => {
    const files = new SharedFiles(new Map(kept), (section, texts) => {
      kept.set(section, texts);
      published.push(texts.jwks ?? '');
    });
    const keys = new IssuerKeys(jwtConfig(issuer.url), context(files), nothing, 20);
    t.after(() => keys.close());
    await keys.started;
    return keys;
  };
  (await start()).close();
  const { answer } = issuer;
  issuer.answer = (_request, response) => response.writeHead(503).end();
  const { length } = published;

  const keys = await start();
  assert.deepEqual([...(keys.set?.byKid.keys() ?? [])], ['first']);
  assert.equal(published.length, length);
  issuer.keys = [second.jwk];
  issuer.answer = answer;
  await until(() => keys.set?.byKid.has('second') === true);
  assert.deepEqual([...(keys.set?.byKid.keys() ?? [])], ['second']);
  assert.equal(published.length, length + 1);
  assert.doesNotMatch(published.at(-1) ?? '', /first/);
});

test('a token without kid is tried with the keys that fit, and forgotten with any change of them', async (t) => {
  const [one, two, three] = [signingKey('one'), signingKey('two'), signingKey('three')];
  const issuer = await testIssuer(t, []);
  issuer.keys = [one, two].map(({ jwk: { kid: _, ...jwk } }) => jwk);
  const { tokens, verify, find } = await tokensOf(t, issuer.url);
  const token = signed(two, { alg: 'ES256' }, claimsOf('acme'));
  assert.equal(typeof (await verify(token)), 'object');
  assert.equal(await verify(signed(three, { alg: 'ES256' }, claimsOf('acme'))), 'bad token');

  issuer.keys = [...issuer.keys, three.jwk];
  await tokens.keys.renew();
  assert.equal(find(token), undefined);
  assert.equal(typeof (await verify(token)), 'object');
});

test('a token with one other character says the same, or is refused', async (t) => {
  const issuer = await testIssuer(t, [first, second]);
  const { verify } = await tokensOf(t, issuer.url);
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.';
  const change = fc.tuple(
    fc.nat(),
    fc.constantFrom(...alphabet.split('')),
    fc.constantFrom(first, second),
    fc.boolean(),
  );
  await fc.assert(
    fc.asyncProperty(change, async ([at, other, key, isInserted]) => {
      const token = tokenOf(key, 'acme', { jti: 'a' });
      const index = at % token.length;
      const changed = token.slice(0, index) + other + token.slice(index + (isInserted ? 0 : 1));
      const result = await verify(changed);
      // The last character of base64url has bits that mean nothing.
      if (result !== 'bad token') assert.equal(typeof result === 'object' && result.tenant, 'acme');
      if (result !== 'bad token' && changed !== token)
        assert.ok(token.split('.')[2]?.slice(0, -1) === changed.split('.')[2]?.slice(0, -1));
    }),
    { numRuns: 500 },
  );
});

test('a remembered token is refused from its expiry on', async (t) => {
  const issuer = await testIssuer(t, [first]);
  const { verify, find } = await tokensOf(t, issuer.url);
  const exp = Math.floor(Date.now() / 1_000) + 60;
  const token = tokenOf(first, 'acme', { exp });
  await verify(token);
  assert.equal(typeof find(token, exp * 1_000 - 1), 'object');
  assert.equal(find(token, exp * 1_000), 'bad token');
});

test('keys for other purposes are left out, and malformed or short ones are reported', () => {
  const algorithms = ['RS256', 'ES256', 'EdDSA'];
  const [rsa, ed] = [signingKey('rsa', 'RS256').jwk, signingKey('ed', 'EdDSA').jwk];
  const given = [
    rsa,
    ed,
    { ...first.jwk, key_ops: ['verify'] },
    { ...rsa, kid: 'encryption', use: 'enc' },
    { ...rsa, kid: 'signs', key_ops: ['sign'] },
    { ...rsa, kid: 'other', alg: 'RS512' },
    { kty: 'oct', kid: 'shared', k: 'AAAA' },
    { ...first.jwk, kid: 'no curve', crv: 'secp256k1' },
    'text',
    null,
  ];
  const wrong = [
    signingKey('short', 'RS256', 1_024).jwk,
    { ...first.jwk, x: first.jwk.y },
    { ...rsa, n: 7 },
    { ...ed, x: undefined },
  ];
  const { keys, wrong: count } = parseKeySet(JSON.stringify({ keys: [...given, ...wrong] }), algorithms);
  assert.deepEqual(
    keys.map(({ kid }) => kid),
    ['rsa', 'ed', 'first'],
  );
  assert.equal(count, wrong.length);
  // Published by mistake: the private part stays behind.
  const leaked = parseKeySet(JSON.stringify({ keys: [{ ...first.secret.export({ format: 'jwk' }) }] }), algorithms);
  assert.deepEqual(Object.keys(leaked.keys[0] ?? {}).sort(), ['crv', 'kty', 'x', 'y']);
  for (const text of ['', 'null', '[]', '{"keys":{}}', '{"keys":[]}', JSON.stringify({ keys: wrong })])
    assert.throws(() => parseKeySet(text, algorithms), /no key set|no usable key/);
  assert.throws(() => parseKeySet(JSON.stringify({ keys: Array(101).fill(rsa) }), algorithms), /more than 100 keys/);
});

test('a check reports why the keys of the issuer cannot be used, and never its answer', async (t) => {
  const issuer = await testIssuer(t, [first]);
  const messageOf = async (url = issuer.url) => (await inspectIssuer(jwtConfig(url))).findings[0]?.message;
  assert.equal(await messageOf(), undefined);
  const start = 'the keys of the issuer cannot be used: ';
  issuer.answer = (_request, response) => response.end('{"secret":"hush"}');
  assert.equal(await messageOf(), `${start}no key set`);
  issuer.answer = (_request, response) => response.writeHead(404).end('hush');
  assert.equal(await messageOf(), `${start}status 404`);
  issuer.answer = (_request, response) => response.end(Buffer.alloc(300 * 1024, 32));
  assert.equal(await messageOf(), `${start}UND_ERR_RES_EXCEEDED_MAX_SIZE`);
  issuer.answer = (request) => request.socket.destroy();
  assert.equal(await messageOf(), `${start}UND_ERR_SOCKET`);
  issuer.answer = (_request, response) => void response.writeHead(200).write('{');
  assert.equal(await messageOf(), `${start}no answer in time`);
  assert.equal(await messageOf('/nowhere/jwks.json'), `${start}ENOENT`);
  issuer.answer = undefined;
  issuer.keys = [first.jwk, signingKey('short', 'RS256', 1_024).jwk];
  const { findings, warnings } = await inspectIssuer(jwtConfig(issuer.url));
  assert.deepEqual(findings, []);
  assert.deepEqual(warnings, ['access.jwt.jwks: 1 keys of the issuer are unusable, and are left out']);
});
