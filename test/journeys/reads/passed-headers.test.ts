// Node headers on passed answers: caching, and addresses that clients must not receive.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { testGateway, type Reply, type TestGatewayOptions } from '../../support/gateway.ts';
import { accessConfig, keysFile, testKey } from '../../support/keys.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';

const ledger = ledgerHeaders({ version: 900n, chainId: 1 });
const path = '/blocks/by_height/3?x=1';
const own = 'Accept, Accept-Encoding, Origin';

function answering(node: FakeNode, headers: Readonly<Record<string, string>>): void {
  const fault = { kind: 'answer', status: 200, body: '{"block":3}', headers: { ...ledger, ...headers } } as const;
  node.faults.add(fault, { when: ({ url }) => url.includes(path) });
}

/** The gateway's answer, if its node answers with these headers. */
async function passed(
  t: TestContext,
  headers: Readonly<Record<string, string>>,
  options: TestGatewayOptions & { readonly asked?: Record<string, string> } = {},
): Promise<Reply['headers']> {
  const node = await fakeNode(t, { head: 900n });
  answering(node, headers);
  const gateway = await testGateway(t, { full: [node], ...options });
  const reply = await gateway.get(path, options.asked);
  assert.deepEqual([reply.status, reply.text], [200, '{"block":3}']);
  return reply.headers;
}

const kept = { 'cache-control': 'public, max-age=600' };

test('an answer with a node\u2019s max-age has the node\u2019s Vary', async (t) => {
  const headers = await passed(t, { ...kept, vary: 'x-node-client, origin' });
  assert.equal(headers['vary'], `${own}, x-node-client`);
  assert.equal(headers['cache-control'], 'public, max-age=600');
});

for (const vary of ['*', 'Origin, *', 'not a name']) {
  test(`an answer with Vary: ${vary} is not cacheable`, async (t) => {
    const fresh = { expires: 'Wed, 21 Oct 2099 07:28:00 GMT', 'cdn-cache-control': 'max-age=60', etag: '"x"' };
    const headers = await passed(t, { ...kept, ...fresh, vary });
    assert.equal(headers['vary'], '*');
    assert.equal(headers['cache-control'], 'no-store');
    for (const name of Object.keys(fresh)) assert.equal(headers[name], undefined, name);
  });
}

test('directions for other caches do not contradict Cache-Control', async (t) => {
  const others = { 'surrogate-control': 'max-age=60', 'cdn-cache-control': 'max-age=60', 'x-accel-expires': '60' };
  const headers = await passed(t, others);
  assert.equal(headers['cache-control'], 'no-store');
  for (const name of Object.keys(others)) assert.equal(headers[name], undefined, name);
});

test('headers with an address of the node reach no client; those of the interface and its like do', async (t) => {
  const address = 'http://10.0.0.1:8080/v1';
  const names = ['link', 'content-location', 'refresh', 'alt-svc', 'server', 'via', 'x-powered-by', 'forwarded'];
  names.push('report-to', 'nel', 'x-served-by', 'location', 'www-authenticate', 'x-accel-redirect', 'x-anything');
  const told = { 'x-node-gas-used': '7', 'x-node-new': 'y', traceparent: '00-1-2-01', 'retry-after': '1' };
  const headers = await passed(t, { ...Object.fromEntries(names.map((name) => [name, address])), ...told });
  for (const name of names) assert.equal(headers[name], undefined, name);
  for (const [name, value] of Object.entries(told)) assert.equal(headers[name], value);
  assert.doesNotMatch(JSON.stringify(headers), /10\.0\.0\.1/);
});

test('a client with a plan receives the limits of the gateway alone', async (t) => {
  const theirs = { ratelimit: '"node";r=1', 'ratelimit-policy': '"node";q=5', 'x-ratelimit-limit': '5' };
  const open = await passed(t, theirs);
  assert.equal(open['ratelimit'], '"node";r=1');

  const key = testKey('wallet');
  const { path: file } = keysFile(t, [key]);
  const access = accessConfig({ keys: { file, redis: false } });
  const keyed = await passed(t, { ...theirs, ...kept }, { access, asked: { authorization: `Bearer ${key.text}` } });
  assert.doesNotMatch(JSON.stringify(keyed), /"node/);
  assert.equal(keyed['x-ratelimit-limit'], undefined);
  assert.equal(keyed['cache-control'], 'private, max-age=600');
  assert.equal(keyed['vary'], `${own}, authorization`);
});
