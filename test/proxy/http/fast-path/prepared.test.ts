// Variants of hits are prepared hits, and none of them answers for another.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeAndGateway, type TestGateway } from '../../../support/gateway.ts';

const path = '/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded2000?ledger_version=800';
const known = 'ledgergate_fast_path_requests_total{kind="known"}';
const options = { config: { listen: { fastPath: true }, latest: { maxStalenessMs: 10_000 } } };

type Headers = Record<string, string>;

async function isPrepared(gateway: TestGateway, method: 'GET' | 'HEAD', headers: Headers): Promise<boolean> {
  // The first request may have to code the body, or to prepare the head.
  await gateway.send(method, path, { headers });
  const before = await gateway.metric(known);
  await gateway.send(method, path, { headers });
  return (await gateway.metric(known)) === before + 1;
}

test('HEAD, 304, CORS and coded bodies are prepared hits', async (t) => {
  const { gateway } = await nodeAndGateway(t, options);
  const { headers } = await gateway.get(path);
  const rows: readonly (readonly ['GET' | 'HEAD', Headers])[] = [
    ['GET', {}],
    ['HEAD', {}],
    ['GET', { 'if-none-match': headers['etag'] ?? '' }],
    ['HEAD', { 'if-none-match': '*' }],
    ['GET', { 'if-none-match': '"old"' }],
    ['GET', { origin: 'https://page.example' }],
    ['GET', { 'accept-encoding': 'gzip' }],
    ['HEAD', { 'accept-encoding': 'gzip', origin: 'https://page.example' }],
  ];
  for (const [method, given] of rows) {
    assert.ok(await isPrepared(gateway, method, given), `${method} ${JSON.stringify(given)}`);
  }
});

test('answers of one target that alternate keep their own status, coding and origin', async (t) => {
  const { gateway } = await nodeAndGateway(t, options);
  const { text, headers } = await gateway.get(path);
  const tag = headers['etag'] ?? '';
  const coded = (await gateway.get(path, { 'accept-encoding': 'gzip' })).headers['etag'] ?? '';

  for (let round = 0; round < 3; round += 1) {
    const plain = await gateway.get(path);
    assert.deepEqual([plain.status, plain.text, plain.headers['access-control-allow-origin']], [200, text, undefined]);
    for (const origin of ['https://one.example', 'https://two.example']) {
      assert.equal((await gateway.get(path, { origin })).headers['access-control-allow-origin'], origin);
    }
    const status = async (given: Headers): Promise<number> => (await gateway.get(path, given)).status;
    assert.equal(await status({ 'if-none-match': tag }), 304);
    assert.equal(await status({ 'if-none-match': coded }), 200);
    assert.equal(await status({ 'if-none-match': coded, 'accept-encoding': 'gzip' }), 304);
    assert.equal(await status({ 'if-none-match': tag, 'accept-encoding': 'gzip' }), 200);
    const head = await gateway.send('HEAD', path);
    assert.deepEqual([head.headers['content-length'], head.text], [String(text.length), '']);
  }
});

test('the ledger info is a prepared answer, but not for a client that demands a version', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, options);
  const first = await gateway.get('');
  const before = await gateway.metric(known);

  const second = await gateway.get('', { origin: 'https://page.example' });
  const head = await gateway.send('HEAD', '');
  const prepared = (await gateway.metric(known)) - before;
  node.clock.advance(1n);
  const newer = await gateway.get('', { 'ledgergate-min-version': '901' });
  const shared = await gateway.get('');

  assert.deepEqual([second.text, head.text, prepared], [first.text, '', 2]);
  assert.equal(second.headers['access-control-allow-origin'], 'https://page.example');
  assert.equal(head.headers['content-length'], String(first.text.length));
  assert.equal(newer.headers['ledgergate-served-version'], '901');
  // The shared version never goes backward.
  assert.equal(shared.headers['ledgergate-served-version'], '901');
  assert.match(shared.text, /"ledger_version": ?"901"/);
});
