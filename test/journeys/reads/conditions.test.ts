// If-None-Match: 304 to GET and HEAD, over every way that a request takes; a POST gets its answer.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, testGateway } from '../../support/gateway.ts';
import { askH1, askH2, authority, h2Session, type Asked, type Told } from '../../support/tls.ts';

const probe = '/v1/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=900';
const body = JSON.stringify({ function: '0x1::ledgergate_sample::version', type_arguments: [], arguments: [] });
const view = { method: 'POST', path: '/v1/view?ledger_version=900', body } as const;
const json = { 'content-type': 'application/json' };

type Ask = (asked: Asked) => Promise<Told>;

/** Plain HTTP with and without the fast path, and HTTP/2. */
const ways: Readonly<Record<string, (t: TestContext, node: FakeNode) => Promise<Ask>>> = {
  'the front': (t, node) => plain(t, node, true),
  'HTTP/1.1 without the front': (t, node) => plain(t, node, false),
  async 'HTTP/2'(t, node) {
    const certificates = authority(t);
    const tls = certificates.certify('gateway');
    const gateway = await testGateway(t, { full: [node], config: { listen: { tls } } });
    const session = await h2Session(t, new URL(gateway.url).origin, certificates.ca);
    return (asked) => askH2(session, asked);
  },
};

async function plain(t: TestContext, node: FakeNode, fastPath: boolean): Promise<Ask> {
  const gateway = await testGateway(t, { full: [node], config: { listen: { fastPath } } });
  return (asked) => askH1(new URL(gateway.url).origin, asked);
}

function headerOf({ headers }: Told, wanted: string): string | undefined {
  return headers.find(([name]) => name === wanted)?.[1];
}

for (const [name, begin] of Object.entries(ways)) {
  test(`a condition over ${name}: 304 to GET and HEAD, 200 to the POST of a view`, async (t) => {
    const ask = await begin(t, await fakeNode(t));
    const tag = headerOf(await ask({ path: probe }), 'etag') ?? assert.fail('no tag');
    for (const method of ['GET', 'HEAD']) {
      const known = await ask({ method, path: probe, headers: { 'if-none-match': tag } });
      assert.deepEqual([known.status, known.body.length, headerOf(known, 'etag')], [304, 0, tag], method);
    }

    const first = await ask({ ...view, headers: json });
    for (const condition of [headerOf(first, 'etag') ?? '*', '*']) {
      const again = await ask({ ...view, headers: { ...json, 'if-none-match': condition } });
      assert.deepEqual([again.status, again.body.toString()], [200, '["900"]'], condition);
    }
  });

  test(`the answer to the POST of a view over ${name} is not cacheable`, async (t) => {
    const ask = await begin(t, await fakeNode(t));
    for (const source of [/fwd=miss/, /hit; detail=memory/]) {
      const viewed = await ask({ ...view, headers: json });
      assert.equal(headerOf(viewed, 'cache-control'), 'no-store');
      assert.match(headerOf(viewed, 'cache-status') ?? '', source);
    }
    assert.equal(headerOf(await ask({ path: probe }), 'cache-control'), 'public, max-age=31536000, immutable');
  });
}

test('a node\u2019s 304 without a condition in the request is an invalid answer', async (t) => {
  const broken = await fakeNode(t, { oldest: 400n });
  const whole = await fakeNode(t);
  const gateway = await testGateway(t, { full: [broken], archival: [whole] });
  broken.faults.add({ kind: 'answer', status: 304, body: '' }, { when: ({ route }) => route !== 'ledgerInfo' });
  const latest = { 'if-none-match': '"of another version"' };

  const replies = [
    await gateway.get('/accounts/0x1?x=1', latest),
    await gateway.get('/transactions/by_version/500?x=1'),
  ];
  const asked = await gateway.get('/transactions/by_version/500?x=1', latest);

  assert.deepEqual(
    [...replies, asked].map(({ status }) => status),
    [200, 200, 304],
  );
  assert.equal(whole.reads, 2);
});

test('conditions of a POST that reads reach no node; those of other requests do', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { head: 1_000n });
  const conditions = { 'if-none-match': '*', 'if-match': '"x"' };
  const sent = async (method: 'GET' | 'POST' | 'PUT', path: string): Promise<unknown> => {
    await gateway.send(method, path, { headers: { ...json, ...conditions }, ...(method === 'GET' ? {} : { body }) });
    return node.log.received.at(-1)?.headers['if-none-match'];
  };
  for (const path of ['/tables/0x1/item?ledger_version=900&x=1', '/transactions/simulate']) {
    assert.equal(await sent('POST', path), undefined, path);
  }
  assert.equal(await sent('GET', '/blocks/by_height/3?x=1'), '*');
  assert.equal(await sent('PUT', '/later/route'), '*');
});
