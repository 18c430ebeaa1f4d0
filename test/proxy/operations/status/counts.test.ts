import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { createAccessMetrics } from '../../../../src/access/access-metrics.ts';
import { createCacheMetrics } from '../../../../src/cache/cache.ts';
import { createEncodeMetrics, createProofMetrics } from '../../../../src/proxy/routes/encoder.ts';
import { readFamilies } from '../../../../src/metrics/family.ts';
import { lagVersions, outcomes, requestSeconds } from '../../../../src/metrics/request-labels.ts';
import { createHttpMetrics, createOverloadMetrics } from '../../../../src/proxy/http/http-metrics.ts';
import { routeNames } from '../../../../src/proxy/routes/route-table.ts';
import { createLatestMetrics } from '../../../../src/proxy/reads/freshness.ts';
import { createSenderMetrics, createUpstreamMetrics } from '../../../../src/upstream/upstream-metrics.ts';
import {
  attemptTimes,
  bucketsOf,
  countedFamilies,
  countsOf,
  encodings,
  quantile,
  refusals,
  repairs,
  totalOf,
} from '../../../../src/proxy/operations/status/counts.ts';
import { emptyFleet } from '../../../support/sender.ts';

const zero = (): number => 0;

/** Metrics of one process, every family that the page reads among them. */
function gatewayMetrics() {
  const registry = new Registry();
  return {
    registry,
    access: createAccessMetrics(registry, false, { keys: () => 0, plans: () => ['free'], waiting: () => 0 }),
    cache: createCacheMetrics(registry, () => ({ entries: 0, bytes: 0, maxBytes: 0 })),
    encode: createEncodeMetrics(registry),
    checked: createProofMetrics(registry, () => 0),
    http: createHttpMetrics(registry, routeNames),
    latest: createLatestMetrics(registry),
    overload: createOverloadMetrics(registry, { connections: zero, lagSeconds: zero, answerBytes: zero }),
    sender: createSenderMetrics(registry, emptyFleet),
    upstream: createUpstreamMetrics(registry, emptyFleet),
    counts: () => countsOf(readFamilies(registry, countedFamilies)),
  };
}

test('the registry has every family that the page reads', () => {
  const { registry } = gatewayMetrics();
  assert.deepEqual(
    readFamilies(registry, countedFamilies).map(({ name }) => name),
    countedFamilies,
  );
});

test('words and bounds of the page are those of the families, in their order', () => {
  const { registry } = gatewayMetrics();
  const family = (name: string) =>
    registry.getSingleMetric(`ledgergate_${name}`) as unknown as {
      readonly declared: Readonly<Record<string, readonly string[]>>;
      readonly buckets: readonly number[];
    };
  const valuesOf = (name: string, label: string) => family(name).declared[label] ?? [];
  assert.deepEqual(outcomes, valuesOf('http_request_duration_seconds', 'outcome'));
  assert.deepEqual(requestSeconds, family('http_request_duration_seconds').buckets);
  assert.deepEqual(requestSeconds.slice(1), family('upstream_request_duration_seconds').buckets);
  assert.deepEqual(lagVersions, family('served_version_lag_versions').buckets);
  assert.deepEqual(Object.keys(refusals), [
    ...valuesOf('access_refusals_total', 'reason'),
    ...valuesOf('shed_requests_total', 'reason'),
    ...valuesOf('upstream_queue_refusals_total', 'reason').map((reason) => `queue ${reason}`),
    'connections',
  ]);
  assert.deepEqual(encodings, [
    ...valuesOf('encode_requests_total', 'outcome'),
    ...valuesOf('encode_checks_total', 'result'),
  ]);
});

test('each refusal, encoding and repair of the page has a metric that counts it', () => {
  const { access, cache, checked, counts, encode, overload, sender, upstream } = gatewayMetrics();
  for (const reason of ['no key', 'bad key', 'misplaced key', 'bad token', 'unread', 'busy'] as const)
    access.refused(reason, undefined);
  for (const reason of ['address', 'operation', 'origin', 'function'] as const) access.refused(reason, 'free');
  for (const bound of ['cost', 'unavailable'] as const)
    access.limited({ plan: { name: 'free' }, name: undefined }, bound);
  overload.shed('event loop');
  overload.shed('answers on their way');
  overload.connectionRefused.inc();
  sender.refused('full');
  sender.refused('late');
  encode.local();
  encode.forwarded('bcs accept');
  encode.refused();
  for (const result of ['equal', 'mismatch', 'inconclusive', 'skipped'] as const) checked(result);
  upstream.prunedRepaired.inc();
  sender.retry('sent');
  sender.retry('refused');
  for (const outcome of ['won', 'lost', 'refused'] as const) sender.hedge(outcome);
  cache.evictions.inc(7);

  const seen = counts();

  for (const reason of Object.keys(refusals)) assert.equal(seen.get(`refusal ${reason}`), 1, reason);
  for (const name of encodings) assert.equal(seen.get(`encoding ${name}`), 1, name);
  assert.deepEqual(
    Object.keys(repairs).map((name) => seen.get(`repair ${name}`)),
    [1, 1, 2, 1],
  );
  assert.equal(seen.get('evicted'), 7);
});

test('requests and attempts are read by route, outcome and node', () => {
  const { counts, http, upstream } = gatewayMetrics();
  const request = { route: 'resource', status: 200, isHeadSent: true, bytes: 0 } as const;
  http.finished({ ...request, outcome: 'memory' }, 0.001);
  http.finished({ ...request, outcome: 'miss' }, 0.004);
  http.finished({ ...request, outcome: 'memory', isHeadSent: false }, 0.001);
  upstream.observeAnswer('a b', 200, 0.004);
  upstream.observeFailure('a b', 'timeout', 4);

  const seen = counts();

  assert.equal(totalOf(bucketsOf(seen, 'requests')), 3);
  assert.equal(totalOf(bucketsOf(seen, 'route view')), 0);
  assert.equal(totalOf(bucketsOf(seen, 'outcome miss')), 1);
  assert.equal(seen.get('request resource refused'), 1);
  assert.equal(totalOf(attemptTimes(seen, 'a b')), 2);
  assert.deepEqual([seen.get('answered a b'), seen.get('failed a b')], [1, 1]);
});

test('a quantile is the estimate of histogram_quantile: linear within a bucket, the last bound beyond all', () => {
  const buckets = [
    [0.001, 90],
    [0.01, 99],
    [0.1, 99],
    [Infinity, 100],
  ] as const;
  assert.equal(quantile(buckets, 0.45), 0.5);
  assert.equal(quantile(buckets, 0.9), 1);
  assert.equal(quantile(buckets, 0.945)?.toFixed(6), '5.500000');
  assert.equal(quantile(buckets, 1), 100);
  assert.equal(quantile([[Infinity, 0]], 0.5), undefined);
  assert.equal(quantile([], 0.5), undefined);
});
