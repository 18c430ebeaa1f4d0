// Secrets of clients and operators are in no line of the log, at level `trace`, and reach no node.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { askPurge } from '../../support/admin.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { testGateway, type LogLine } from '../../support/gateway.ts';
import { accessConfig } from '../../support/keys.ts';
import { exchangeRaw } from '../../support/raw-http.ts';
import { redisAt } from '../../support/redis-server.ts';

const secret = 'hush-7f3a';
const token = `operator-${secret}-token`;
const password = `redis-${secret}-password`;
const headers = {
  authorization: `Bearer ${secret}`,
  cookie: `session=${secret}`,
  'x-api-key': secret,
  referer: `https://wallet.example/?key=${secret}`,
  'x-forwarded-for': secret,
};
const body = `{"function":"0x1::m::f","type_arguments":[],"arguments":["${secret}"]}`;

test('queries, bodies, credentials, and the secrets of the config are in no line of the log', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gone = await fakeNode(t, { head: 900n });
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, {
    full: [node, gone],
    config: {
      operations: { token },
      upstream: { timeoutMs: 200, deadlineMs: 500 },
      cache: {
        memory: { maxBytes: 1_000_000 },
        redis: redisAt(`redis://:${password}@127.0.0.1:1/0`, { timeoutMs: 50, ttlMs: 1_000 }),
      },
    },
    onLog: (line) => lines.push(line),
  });
  await gone.close();
  const ask = async (): Promise<void> => {
    await gateway.get(`/accounts/0x1/module/coin?ledger_version=5&api_key=${secret}`, headers);
    await gateway.get(`/accounts/0x1/module/coin?ledger_version=${secret}`, headers);
    await gateway.get(`/accounts/0x1/resource/0x1::a::B?key=${secret}`, headers);
    await gateway.get('/accounts/0x1?ledger_version=5&x=1', headers);
    await gateway.get(`/${secret}/..%2f?x`, headers);
    await gateway.post('/view?ledger_version=5', body, headers);
    await gateway.post('/view', body.slice(0, -1), headers);
    await gateway.post('/transactions/encode_submission', body, headers);
    await gateway.post('/transactions', body, headers);
    await askPurge(gateway, '{"everything":true}', { authorization: `Bearer ${secret}` });
    await askPurge(gateway, '{"everything":true}', { authorization: `Bearer ${token}` });
    await exchangeRaw(gateway.port, `GET /v1?${secret} HTTP/1.1\r\nHost: a\r\nCookie: ${secret}\r\n ${secret}\r\n\r\n`);
  };
  await ask();
  for (const kind of ['reset', 'truncated body'] as const) {
    node.fault = { kind };
    await ask().catch(() => undefined);
  }
  node.fault = { kind: 'answer', status: 500, body: `"${secret}"` };
  await ask();

  assert.ok(lines.length >= 30, `${lines.length} lines`);
  for (const line of lines) assert.doesNotMatch(JSON.stringify(line), new RegExp(secret));
  for (const { headers: sent } of node.log.received) assert.doesNotMatch(JSON.stringify(sent), new RegExp(secret));
  const { text } = await gateway.get('/accounts/0x1/module/coin?ledger_version=5');
  assert.doesNotMatch(text, new RegExp(`${token}|${password}`));
});

test('the address that limits a request without a key is in no line of the log', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const lines: LogLine[] = [];
  const access = accessConfig({ anonymous: 'free', trustedProxies: ['127.0.0.0/8'] });
  const gateway = await testGateway(t, { full: [node], access, onLog: (line) => lines.push(line) });

  await gateway.get('/accounts/0x1/module/coin?ledger_version=5', { 'x-forwarded-for': '203.0.113.77' });
  await gateway.get('/accounts/0x1/module/coin?ledger_version=6', { 'x-forwarded-for': '2001:db8:77::1' });

  const answered = lines.filter(({ msg }) => msg === 'answered');
  assert.deepEqual(
    answered.map(({ tenant, plan }) => [tenant, plan]),
    [
      [undefined, 'free'],
      [undefined, 'free'],
    ],
  );
  for (const line of lines) assert.doesNotMatch(JSON.stringify(line), /203\.0\.113|2001:db8/);
});

/** None of them can hold what a client wrote. */
const accessLineKeys = new Set(
  'level time pid hostname msg route method status outcome upstream version seconds upstreamMs bytes'.split(' '),
);

test('a line of a request has the template of its route, and no more of its target', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, { full: [node], onLog: (line) => lines.push(line) });

  await gateway.get('/accounts/0xabcdef/resource/0x1::a::B?ledger_version=5');
  await gateway.get('/accounts/0xabcdef/unknown/thing');
  await gateway.get(`/transactions/by_hash/0x${'ab'.repeat(32)}`);

  const access = lines.filter(({ msg }) => msg === 'answered');
  assert.deepEqual(
    access.map(({ route, method }) => [route, method]),
    [
      ['resource', 'GET'],
      ['pass_through', 'GET'],
      ['transaction_by_hash', 'GET'],
    ],
  );
  for (const line of access) {
    assert.deepEqual(
      Object.keys(line).filter((name) => !accessLineKeys.has(name)),
      [],
    );
  }
});
