import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LatencyHistogram } from '../../../src/upstream/node/latency.ts';
import { fc } from '../../support/fast-check.ts';

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
