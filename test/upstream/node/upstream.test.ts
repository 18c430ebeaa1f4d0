/** The state of one node without connections: health, latency, ledger info. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { LatencyHistogram } from '../../../src/upstream/node/upstream.ts';
import { fc } from '../../support/fast-check.ts';
import { nodeAt } from '../../support/node-client.ts';

test('a slow answer counts at once and fades; a fast one is believed little by little', (t) => {
  const upstream = nodeAt(t, 9);
  upstream.recordAnswer(500, 1000);
  assert.equal(upstream.latencyMs(1000), 500);
  const later = upstream.latencyMs(3000);
  assert.ok(later < 250 && later > 100, String(later));
  upstream.recordAnswer(10, 1000);
  assert.ok(upstream.latencyMs(1000) > 400);
  assert.equal(upstream.latencyMs(1_000_000), 1);
});

test('a node is unproven, then usable, down after two failures in a row, and usable with the next answer', (t) => {
  const upstream = nodeAt(t, 9);
  const seen = [upstream.health];
  const record = (isAnswer: boolean): number => {
    if (isAnswer) upstream.recordAnswer(5, 0);
    else upstream.recordFailure(5, 0, 'time-out');
    return seen.push(upstream.health);
  };
  for (const isAnswer of [false, true, false, true, false, false, true]) record(isAnswer);
  assert.deepEqual(seen, ['unproven', 'unproven', 'usable', 'usable', 'usable', 'usable', 'down', 'usable']);
  upstream.isForeign = true;
  assert.equal(upstream.health, 'foreign');
  upstream.isForeign = false;
  assert.equal(upstream.health, 'usable');
});

test('a time-out makes a node dear at once, and counts only together with a failure', (t) => {
  const upstream = nodeAt(t, 9);
  upstream.recordAnswer(5, 0);
  for (let index = 0; index < 10; index += 1) upstream.recordDoubt(900, 0);
  assert.deepEqual([upstream.health, upstream.latencyMs(0)], ['usable', 900]);
  upstream.recordFailure(5, 0, 'time-out');
  assert.equal(upstream.health, 'down');
  upstream.recordAnswer(5, 0);
  upstream.recordFailure(5, 0, 'time-out');
  assert.equal(upstream.health, 'usable');
});

test('a node’s base path is taken without its trailing slash', (t) => {
  assert.deepEqual(
    ['/v1', '/v1/', '/', '/a/b//'].map((path) => nodeAt(t, 9, { url: new URL(`http://127.0.0.1:9${path}`) }).basePath),
    ['/v1', '/v1', '', '/a/b'],
  );
});

test('a quantile is that of the answers, to a fifth', () => {
  const times = fc.array(fc.double({ min: 0.2, max: 60_000, noNaN: true }), { minLength: 20, maxLength: 500 });
  fc.assert(
    fc.property(times, fc.double({ min: 0.01, max: 1, noNaN: true }), (list, share) => {
      const histogram = new LatencyHistogram();
      for (const ms of list) histogram.record(ms, 0);
      const sorted = [...list].sort((a, b) => a - b);
      const exact = sorted[Math.ceil(share * sorted.length - 1e-9) - 1] ?? 0;
      const told = histogram.quantile(share, 0) ?? 0;
      assert.ok(told >= exact * 0.999 && told <= exact * 1.2, `${told} for ${exact}`);
    }),
  );
});

test('too few answers give no quantile, and old ones do not count', () => {
  const histogram = new LatencyHistogram();
  for (let count = 0; count < 19; count += 1) histogram.record(10, 0);
  assert.equal(histogram.quantile(0.95, 0), undefined);
  histogram.record(10, 0);
  assert.ok(Math.abs((histogram.quantile(0.95, 0) ?? 0) - 10) < 2);
  assert.notEqual(histogram.quantile(0.95, 19_999), undefined);
  assert.equal(histogram.quantile(0.95, 30_001), undefined);
});

test('times beyond either end are kept in the last bucket', () => {
  const histogram = new LatencyHistogram();
  for (const ms of [0, 1e-9, 1e12]) for (let count = 0; count < 10; count += 1) histogram.record(ms, 0);
  assert.equal(histogram.quantile(0.5, 0), 0.1);
  assert.ok((histogram.quantile(1, 0) ?? 0) > 3_600_000);
});

const dialect = new Dialect('node');
const headers: Readonly<Record<string, string>> = {
  'x-node-chain-id': '1',
  'x-node-ledger-version': '9000',
  'x-node-ledger-oldest-version': '100',
  'x-node-ledger-timestampusec': '1700000000000000',
  'x-node-epoch': '7',
  'x-node-block-height': '90',
  'x-node-oldest-block-height': '1',
};

test('the same headers give the same object, whatever other headers a node sends', (t) => {
  const node = nodeAt(t, 9);
  const info = node.findInfo({ ...headers, 'content-length': '1' }, dialect);
  assert.deepEqual(info, dialect.findInfo(headers));
  assert.equal(node.findInfo({ ...headers, 'content-length': '2' }, dialect), info);
});

for (const name of Object.keys(headers)) {
  test(`another ${name} is read anew, and none, or two, are no snapshot`, (t) => {
    const node = nodeAt(t, 9);
    node.findInfo(headers, dialect);
    const other = { ...headers, [name]: '8' };
    assert.deepEqual(node.findInfo(other, dialect), dialect.findInfo(other));
    assert.equal(node.findInfo({ ...headers, [name]: undefined }, dialect), undefined);
    assert.equal(node.findInfo({ ...headers, [name]: ['1', '1'] }, dialect), undefined);
    assert.deepEqual(node.findInfo(headers, dialect), dialect.findInfo(headers));
  });
}
