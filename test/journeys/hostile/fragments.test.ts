// A request target has no fragment (RFC 9112 3.2): servers that drop it and servers that keep it read two paths.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { askExplain } from '../../support/admin.ts';
import { type FakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, type TestGateway } from '../../support/gateway.ts';
import { accessConfig, planConfig } from '../../support/keys.ts';
import { answersIn, exchangeRaw } from '../../support/raw-http.ts';
import { submission } from '../../support/submission.ts';
import { askH1, askH2, authority, h2Session, type Asked } from '../../support/tls.ts';

const json = { 'content-type': 'application/json' };
const read = '/v1/accounts/0x1/module/coin?ledger_version=5';
const hash = `0x${'ab'.repeat(32)}`;
const view = JSON.stringify({ function: '0x1::m::f', type_arguments: [], arguments: [] });

/** One request of each kind, with the fragment in each possible place. */
const requests: readonly Asked[] = [
  { path: `${read}#` },
  { path: `${read}#x` },
  { path: read.replace('?', '#?') },
  { path: `${read}#x`, headers: { accept: 'application/x-bcs' } },
  { method: 'HEAD', path: `${read}#x` },
  { path: '/v1/accounts/0x1/module/coin#x' },
  { path: '/v1/accounts/0x1/module#x/coin' },
  { path: `/v1/transactions/by_hash/${hash}#x` },
  { path: `/v1/transactions/wait_by_hash/${hash}#x` },
  { path: '/v1#' },
  { path: '/v1#/x' },
  { path: '/v1/#' },
  { path: '/v1/blocks/by_height/5#' },
  { path: '/v1/blocks/by_height/5?with_transactions=true#' },
  { method: 'POST', path: '/v1/view?ledger_version=5#x', headers: json, body: view },
  { method: 'POST', path: '/v1/transactions/encode_submission#x', headers: json, body: '{}' },
  { method: 'POST', path: '/v1/transactions#x', headers: json, body: submission() },
  { method: 'POST', path: '/v1/transactions/simulate#x', headers: json, body: submission() },
  { method: 'DELETE', path: '/v1/anything#x' },
  { method: 'OPTIONS', path: '/v1/view#x', headers: { origin: 'https://a', 'access-control-request-method': 'POST' } },
  { path: '/elsewhere#x' },
  { path: '/#' },
];

const line = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`;

async function servedBy(t: TestContext, options: object = {}): Promise<{ node: FakeNode; gateway: TestGateway }> {
  const { node, gateway } = await nodeAndGateway(t, { ...options });
  return { node, gateway };
}

test('a target with a fragment gets 400 over HTTP/1.1, and reaches no node', async (t) => {
  const { node, gateway } = await servedBy(t);
  // A cached answer is no exception.
  assert.equal((await gateway.get(read.slice(3))).status, 200);
  node.log.clear();
  for (const asked of requests) {
    const { status } = await askH1(gateway.url, asked);
    assert.equal(status, 400, `${asked.method ?? 'GET'} ${asked.path}`);
  }
  assert.equal(node.log.count, 0);
});

test('a fragment behind a request on the fast path gets 400, the absolute form included', async (t) => {
  const { gateway } = await servedBy(t);
  const statuses = async (...targets: readonly string[]): Promise<readonly number[]> => {
    const last = 'GET /end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';
    const answers = answersIn(await exchangeRaw(gateway.port, targets.map(line).join('') + last));
    return answers.map(({ status }) => status);
  };

  const plain = '/v1/accounts/0x1/module/coin';
  assert.deepEqual(await statuses(read, plain, `${plain}#`, `${read}#`), [200, 200, 400, 400, 404]);
  assert.deepEqual(await statuses(`http://a${plain}#`, 'http://a/v1#x'), [400, 400, 404]);
  // The parser refuses a fragment at the path's start, and the bytes behind it.
  assert.deepEqual(await statuses('http://a#/v1'), [400]);
});

test('a target with a fragment gets 400 over HTTP/2', async (t) => {
  const ca = authority(t);
  const { node, gateway } = await servedBy(t, { config: { listen: { tls: ca.certify('gateway') } } });
  const session = await h2Session(t, new URL(gateway.url).origin, ca.ca);
  node.log.clear();
  // Without a body: this client drops an answer that precedes the body's end.
  for (const { body: _body, ...asked } of requests) {
    const { status } = await askH2(session, asked);
    assert.equal(status, 400, `${asked.method ?? 'GET'} ${asked.path}`);
  }
  assert.equal(node.log.count, 0);
});

test('a target with a fragment gets 400 under access control', async (t) => {
  const access = accessConfig({ anonymous: 'free', plans: { free: planConfig({ operations: ['pass'] }) } });
  const { gateway } = await servedBy(t, { access });
  for (const asked of requests) assert.equal((await askH1(gateway.url, asked)).status, 400, asked.path);
});

test('explain reports 400 for a target with a fragment', async (t) => {
  const { gateway } = await servedBy(t);
  for (const { path, method = 'GET' } of requests) {
    const { text } = await askExplain(gateway, { target: path, method });
    const { answer } = JSON.parse(text) as { readonly answer?: { readonly status: number } };
    assert.equal(answer?.status, 400, `${method} ${path}`);
  }
});

test('a target with a fragment gets 400 on the operations port', async (t) => {
  const { gateway } = await servedBy(t);
  const paths = ['/livez', '/readyz', '/metrics', '/status', '/status.json', '/admin/explain?target=/v1', '/', '/x'];
  for (const path of paths) {
    for (const method of ['GET', 'HEAD', 'POST']) {
      const { status } = await askH1(gateway.operationsUrl, { method, path: `${path}#x` });
      assert.equal(status, 400, `${method} ${path}#x`);
    }
  }
});
