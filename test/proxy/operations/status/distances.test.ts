import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { readFamilies } from '../../../../src/metrics/family.ts';
import { createLatestMetrics } from '../../../../src/proxy/reads/freshness.ts';
import { countedFamilies, countsOf, distancesOf } from '../../../../src/proxy/operations/status/counts.ts';
import { statusPage } from '../../../../src/proxy/operations/status/page/page.ts';
import { factsFrom, windowsOf } from '../../../support/process-status.ts';

function countsAfter(distances: readonly number[]) {
  const registry = new Registry();
  const metrics = createLatestMetrics(registry);
  for (const distance of distances) metrics.observeLag(distance);
  return countsOf(readFamilies(registry, countedFamilies));
}

test('reads of the latest state fall into bins of whole versions behind the head', () => {
  assert.deepEqual(distancesOf(countsAfter([0, 0, 1, 10, 11, 1_000, 2_000_000])), [
    { from: 0, to: 1, reads: 2 },
    { from: 1, to: 11, reads: 2 },
    { from: 11, to: 26, reads: 1 },
    { from: 501, to: 1_001, reads: 1 },
    { from: 100_001, to: undefined, reads: 1 },
  ]);
  assert.deepEqual(distancesOf(new Map()), []);
});

test('the axis joins the reads of the first thousand versions', () => {
  const page = statusPage(factsFrom({ windows: windowsOf(countsAfter([0, 700, 1_000, 3_000, 200_000]), 100) }));

  const bars = [...page.matchAll(/<title>Reads ([^<]* versions back: \d+)<\/title>/g)].map(([, words]) => words);
  assert.deepEqual(bars, [
    '0 to 1000 versions back: 3',
    '2501 to 5000 versions back: 1',
    '100001 and more versions back: 1',
  ]);
  assert.match(page, /3 of 5 reads of the latest state were within a thousand versions of the head\./);
});
