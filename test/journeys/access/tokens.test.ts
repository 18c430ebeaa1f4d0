// Tokens of an issuer (JWT) beside keys: verified once, limited by tenant, and out of force with their time and their key.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { until } from '../../support/eventually.ts';
import { EventReader, testStreams } from '../../support/event-reader.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { fetchReply, type LogLine, nodeAndGateway, testGateway } from '../../support/gateway.ts';
import {
  issuerName,
  audience,
  jwtConfig,
  type SigningKey,
  signingKey,
  testIssuer,
  tokenOf,
} from '../../support/issuer.ts';
import { bearer, keyedGateway, path, replan } from '../../support/keyed-gateway.ts';
import { accessConfig, planConfig, testKey, type TestKey } from '../../support/keys.ts';
import { listen } from '../../support/listen.ts';
import { rawClient } from '../../support/raw-http.ts';
import { submission } from '../../support/submission.ts';
import { putFile, temporaryFolder } from '../../support/temporary-folder.ts';
import { authority, askH1, askH2, h2Session } from '../../support/tls.ts';

const asked = (token: string) => ({ path: `/v1${path}`, headers: bearer(token) });
const key = signingKey('first');

type World = NonNullable<Parameters<typeof keyedGateway>[2]>;

/** A gateway before one node, with an issuer of `key`, and keys of a file. */
async function withIssuer(
  t: TestContext,
  { jwt, ...more }: Omit<World, 'jwt'> & { readonly jwt?: Partial<World['jwt']> } = {},
  keys: readonly TestKey[] = [],
) {
  const issuer = await testIssuer(t, [key]);
  const lines: LogLine[] = [];
  const world = await keyedGateway(t, keys, { jwt: { ...jwtConfig(issuer.url), ...jwt }, ...more }, lines);
  const verified = (result: string) => world.gateway.metric(`ledgergate_token_verifications_total{result="${result}"}`);
  return { ...world, issuer, lines, verified };
}

test('a token opens the endpoint beside keys, and is verified once, as is a refused one', async (t) => {
  const wallet = testKey('wallet');
  const { node, gateway, statusOf, verified } = await withIssuer(t, {}, [wallet]);
  const [token, bad] = [tokenOf(key, 'acme'), tokenOf(signingKey('first'), 'acme')];

  // Sent at once, they share one verification.
  const first = await Promise.all(Array.from({ length: 20 }, () => gateway.get(path, bearer(token))));
  assert.deepEqual(new Set(first.map(({ status }) => status)), new Set([200]));
  assert.match(first[0]?.headers['cache-control'] ?? '', /private/);
  assert.equal(await statusOf(token), 200);
  assert.equal(await statusOf(wallet.text), 200);
  assert.equal(await statusOf('lgk_none'), 401);
  assert.equal((await gateway.get(path)).status, 401);
  for (let turn = 0; turn < 5; turn += 1) assert.equal(await statusOf(bad), 401);
  assert.deepEqual([await verified('ok'), await verified('bad token')], [1, 1]);
  assert.equal(await gateway.metric('ledgergate_access_refusals_total{reason="bad token",plan=""}'), 5);
  for (const { headers } of node.log.received) assert.doesNotMatch(JSON.stringify(headers), /authorization|eyJ/);

  // In a target it is refused, as a key is.
  const before = node.log.count;
  for (const target of [`${path}&access_token=${token}`, `/accounts/${token}`]) {
    assert.equal((await gateway.get(target, bearer(token))).status, 400);
    assert.equal((await gateway.get(target)).status, 400);
  }
  assert.equal(node.log.count, before);
});

test('tokens of one tenant share its limits, with its keys, and others have their own', async (t) => {
  const wallet = testKey('wallet', { tenant: 'acme' });
  const plans = { free: planConfig({ requests: 3 }), paid: planConfig({ requests: 100 }) };
  const { gateway, statusOf } = await withIssuer(t, { plans }, [wallet]);
  const [one, other] = [tokenOf(key, 'acme', { jti: 1 }), tokenOf(key, 'acme', { jti: 2 })];

  const remaining = async (token: string) => (await gateway.get(path, bearer(token))).headers['ratelimit'];
  assert.match((await remaining(one)) ?? '', /^"requests";r=2/);
  assert.match((await remaining(other)) ?? '', /^"requests";r=1/);
  assert.match((await remaining(wallet.text)) ?? '', /^"requests";r=0/);
  assert.equal(await statusOf(one), 429);
  assert.equal(await statusOf(tokenOf(key, 'other')), 200);
  assert.match((await remaining(tokenOf(key, 'acme', { plan: 'paid' }))) ?? '', /^"requests";r=99/);

  const usage = await fetchReply(`${gateway.operationsUrl}/admin/usage?tenant=acme`, { method: 'GET' });
  const { rows } = JSON.parse(usage.text) as { readonly rows: readonly Record<string, unknown>[] };
  const sums = rows.map(({ key: name, plan, outcome, requests }) => [name, plan, outcome, requests].join(' ')).sort();
  assert.deepEqual(sums, [
    'jwt free hit 1',
    'jwt free miss 1',
    'jwt free refused 1',
    'jwt paid hit 1',
    'wallet free hit 1',
  ]);
});

test('claims have the names of the config, and a plan of the config stands in for a missing one', async (t) => {
  const claims = { tenant: 'https://rpc.example/tenant', plan: 'https://rpc.example/plan' };
  const plans = { free: planConfig({ operations: ['view'] }), paid: planConfig() };
  const { statusOf } = await withIssuer(t, { jwt: { claims, plan: 'paid' }, plans });

  assert.equal(await statusOf(tokenOf(key, 'ignored', { [claims.tenant]: 'acme' })), 200);
  assert.equal(await statusOf(tokenOf(key, 'ignored', { [claims.tenant]: 'acme', [claims.plan]: 'free' })), 403);
  assert.equal(await statusOf(tokenOf(key, 'ignored')), 401);
});

test('a reload changes the plans of tokens in force, unverified anew, and one without the default plan is refused', async (t) => {
  const plans = { paid: planConfig(), silver: planConfig() };
  const { gateway, verified } = await withIssuer(t, { jwt: { plan: 'paid' }, plans });
  const { jwt } = gateway.reloads.config.access ?? {};
  const [usual, silver] = [tokenOf(key, 'acme', { plan: undefined }), tokenOf(key, 'acme', { plan: 'silver' })];
  const limited = async (of: string) => (await gateway.get(path, bearer(of))).headers['ratelimit'];
  assert.deepEqual([await limited(usual), await limited(silver)], [undefined, undefined]);

  assert.equal(await replan(gateway, { paid: planConfig({ requests: 50 }), silver: planConfig() }), 'applied');
  assert.match((await limited(usual)) ?? '', /^"requests";r=49/);
  // The file names another plan, which waits for a restart.
  const other = jwt && { jwt: { ...jwt, plan: 'silver' } };
  assert.equal(await replan(gateway, { silver: planConfig() }, other), 'refused');
  assert.match((await limited(usual)) ?? '', /^"requests";r=48/);
  assert.equal(await replan(gateway, { paid: planConfig() }), 'applied');
  assert.equal((await gateway.get(path, bearer(silver))).status, 401);
  assert.equal(await verified('ok'), 2);
});

testStreams(
  'a tenant that is named like the account of the streams of another has limits of its own',
  async (t, track) => {
    const plans = { free: planConfig({ requests: 2, streams: 5 }) };
    const { gateway, statusOf } = await withIssuer(t, { plans });
    const tenant = tokenOf(key, 'acme:streams');
    assert.deepEqual([await statusOf(tenant), await statusOf(tenant), await statusOf(tenant)], [200, 200, 429]);

    const other = bearer(tokenOf(key, 'acme'));
    const stream = await track(EventReader.open(`${gateway.url}/transactions?start=890`, other));
    assert.equal(stream.status, 200);
    assert.equal(await statusOf(tenant), 429);
  },
);

test('a body that arrives with, before and after the decision belongs to its request', async (t) => {
  const { node, gateway, verified } = await withIssuer(t);
  const sent = submission();
  for (const [turn, length] of [0, 20_000, 50_000, 100_000].entries()) {
    const body = Buffer.concat([Buffer.from(sent), Buffer.alloc(length, 32)]);
    const token = tokenOf(key, `tenant-${turn}`);
    const head = `POST /v1/transactions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: Bearer ${token}\r\nContent-Length: ${body.length}\r\n\r\n`;
    const { socket, text } = rawClient(t, gateway.port);
    // In one piece, then in pieces, of which the head and half of the body are the first.
    if (turn % 2 === 0) socket.write(Buffer.concat([Buffer.from(head), body]));
    else {
      socket.write(Buffer.concat([Buffer.from(head), body.subarray(0, body.length / 2)]));
      if (length > 64_000) await until(async () => (await verified('ok')) === turn + 1);
      socket.write(body.subarray(body.length / 2));
    }
    await until(() => /^HTTP\/1\.1 \d+/.test(text()));
    assert.match(text(), /^HTTP\/1\.1 202 /);
    const received = node.log.received.findLast(({ method }) => method === 'POST');
    // The log of the node keeps 64 KiB.
    assert.ok(received?.body.equals(body.subarray(0, 64 * 1024)), `${received?.body.length} of ${body.length} bytes`);
    assert.equal(received?.headers['content-length'], String(body.length));
  }
  assert.equal(await verified('ok'), 4);
});

test('over TLS and HTTP/2, first requests and hits with a token are answered, and bad tokens refused', async (t) => {
  const root = authority(t);
  const tls = root.certify('gateway');
  const { gateway, verified } = await withIssuer(t, { config: { listen: { tls } } });
  const origin = `https://127.0.0.1:${gateway.port}`;
  const [token, other] = [tokenOf(key, 'acme'), tokenOf(key, 'other')];
  const bad = tokenOf(signingKey('first'), 'acme');
  const session = await h2Session(t, origin, root.ca);

  for (let turn = 0; turn < 3; turn += 1) {
    assert.equal((await askH2(session, asked(token))).status, 200);
    assert.equal((await askH2(session, asked(bad))).status, 401);
    assert.equal((await askH1(origin, asked(other), root.ca)).status, 200);
  }
  assert.equal(await verified('ok'), 2);
  assert.equal(await verified('bad token'), 1);
});

test('a new key of the issuer is in force with its first token; anyone may name a key, and the issuer is asked once', async (t) => {
  const { issuer, lines, statusOf } = await withIssuer(t);
  const next = signingKey('second');
  assert.equal(await statusOf(tokenOf(key, 'acme')), 200);
  assert.equal(issuer.count, 1);

  issuer.keys = [key.jwk, next.jwk];
  assert.equal(await statusOf(tokenOf(next, 'acme')), 200);
  assert.equal(issuer.count, 2);
  const names = Array.from({ length: 40 }, (_, index) => ({ ...signingKey('any'), kid: `any-${index}` }));
  for (const one of names) assert.equal(await statusOf(tokenOf(one, 'acme')), 401);
  assert.equal(issuer.count, 2);
  assert.equal(await statusOf(tokenOf(key, 'acme')), 200);
  assert.equal(lines.filter(({ msg }) => msg === 'keys of the issuer of tokens were read').length, 2);
});

test('while the issuer is away its keys stay in force, and a gateway that starts then answers 503 until it is back', async (t) => {
  const { issuer, node, gateway, lines, statusOf } = await withIssuer(t);
  const old = tokenOf(key, 'acme');
  assert.equal(await statusOf(old), 200);
  issuer.answer = (_request, response) => response.writeHead(503).end();
  assert.equal(await statusOf(tokenOf(signingKey('unknown'), 'acme')), 401);
  assert.equal(await gateway.metric('ledgergate_keys_reloads_total{source="issuer",result="failed"}'), 1);
  assert.equal(await statusOf(old), 200);
  assert.equal(await statusOf(tokenOf(key, 'other')), 200);
  const away = lines.find(({ msg }) => msg === 'keys of the issuer of tokens are unreadable: the keys in force stay');
  assert.equal(away?.['reason'], 'status 503');

  issuer.answer = (request) => request.socket.destroy();
  const access = accessConfig({ jwt: jwtConfig(issuer.url) });
  const late = await testGateway(t, { full: [node], access });
  const reply = await late.get(path, bearer(old));
  assert.equal(reply.status, 503);
  assert.match(reply.text, /the keys are not loaded yet; try again/);
  assert.ok(reply.headers['retry-after']);
  assert.equal(await late.metric('ledgergate_access_refusals_total{reason="unread",plan=""}'), 1);
  issuer.answer = undefined;
  await until(async () => (await late.get(path, bearer(old))).status === 200);
});

/** A file of the issuer's keys, and a gateway in front of one node that reads it. */
async function filed(t: TestContext, ...keys: readonly SigningKey[]) {
  const file = join(temporaryFolder(t), 'jwks.json');
  const writeText = (text: string): void => putFile(file, text);
  const write = (...published: readonly SigningKey[]): void =>
    writeText(JSON.stringify({ keys: published.map(({ jwk }) => jwk) }));
  write(...keys);
  const lines: LogLine[] = [];
  const access = accessConfig({ jwt: jwtConfig(file) });
  const { gateway } = await nodeAndGateway(t, { access, onLog: (line) => lines.push(line) });
  return { gateway, lines, write, writeText };
}

test('keys of a file: a key that is taken out of it verifies nothing more, and a broken file changes nothing', async (t) => {
  const next = signingKey('second', 'RS256');
  const { gateway, lines, write, writeText } = await filed(t, key);
  const tokens = [tokenOf(key, 'acme'), tokenOf(next, 'acme')];
  const statuses = async () => {
    const replies = await Promise.all(tokens.map((token) => gateway.get(path, bearer(token))));
    return replies.map(({ status }) => status).join();
  };
  assert.equal(await statuses(), '200,401');

  write(key, next);
  await until(async () => (await statuses()) === '200,200');
  write(next);
  await until(async () => (await statuses()) === '401,200');
  writeText('{"keys": [');
  await until(() => lines.some(({ reason }) => reason === 'no key set'));
  assert.equal(await statuses(), '401,200');
  // The same name for another key.
  write(signingKey('second', 'RS256'));
  await until(async () => (await statuses()) === '401,401');
});

testStreams('an event stream ends with its token, and with the key of the issuer', async (t, track) => {
  const next = signingKey('second');
  const { gateway, write } = await filed(t, key, next);
  const open = (token: string) => track(EventReader.open(`${gateway.url}/transactions?start=890`, bearer(token)));
  const exp = Math.floor(Date.now() / 1_000) + 3;
  const [stays, expires, loses] = [
    await open(tokenOf(key, 'stays')),
    await open(tokenOf(key, 'expires', { exp })),
    await open(tokenOf(next, 'loses')),
  ];
  assert.deepEqual([stays.status, expires.status, loses.status], [200, 200, 200]);

  assert.equal(await expires.ended, true);
  assert.ok(Date.now() >= exp * 1_000);
  write(key);
  assert.equal(await loses.ended, true);
  assert.equal(stays.hasEnded, false);
  const closed = 'ledgergate_streams_closed_total{kind="transactions",reason="revoked"}';
  assert.equal(await gateway.metric(closed), 2);
});

test('an issuer over TLS is read where its authority is trusted, and nowhere else', async (t) => {
  const root = authority(t);
  const { cert, key: file } = root.certify('issuer');
  let asked = 0;
  const server = createServer({ cert: readFileSync(cert), key: readFileSync(file) }, (_request, response) => {
    asked += 1;
    response.end(JSON.stringify({ keys: [key.jwk] }));
  });
  const jwks = `https://localhost:${await listen(t, server)}/keys`;
  const node = await fakeNode(t, { head: 900n });
  const config = { dialect: 'node', access: { jwt: { issuer: issuerName, audience, jwks }, plans: { free: {} } } };
  const trusting = await gatewayProcess(t, { full: [node], config, env: { NODE_EXTRA_CA_CERTS: root.file } });
  // This process has no such authority.
  const other = await testGateway(t, { full: [node], access: accessConfig({ jwt: jwtConfig(jwks) }) });
  const statuses = [trusting, other].map(
    async ({ url }) => (await fetchReply(url + path, { method: 'GET', headers: bearer(tokenOf(key, 'acme')) })).status,
  );
  assert.deepEqual(await Promise.all(statuses), [200, 503]);
  assert.equal(asked, 1);
});
