/** Both forms of a scrape. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contentTypes, expose, formOf } from '../../src/metrics/exposition.ts';
import { collectDefaultMetrics, Registry, type Histogram } from 'prom-client';
import { familiesOf, type FamilyData } from '../../src/metrics/family.ts';

const families: readonly FamilyData[] = [
  {
    name: 'things_total',
    help: 'Things, "quoted", of C:\\.\nAll of them.',
    type: 'counter',
    aggregator: 'sum',
    values: [{ labels: { of: 'a "b"\\\n' }, value: 3 }],
  },
  {
    name: 'times',
    help: 'Times.',
    type: 'histogram',
    aggregator: 'sum',
    values: [
      {
        metricName: 'times_bucket',
        labels: { le: 1 },
        value: 2,
        exemplar: { labels: { trace_id: 'abc', span_id: 'def' }, value: 0.25, timestamp: 1_700_000_000.125 },
      },
      { metricName: 'times_bucket', labels: { le: 2.5 }, value: 2 },
      { metricName: 'times_bucket', labels: { le: '+Inf' }, value: 2 },
      { metricName: 'times_sum', labels: {}, value: 0.5 },
      { metricName: 'times_count', labels: {}, value: 2 },
    ],
  },
  { name: 'level', help: 'Level.', type: 'gauge', aggregator: 'sum', values: [{ labels: {}, value: Infinity }] },
];

test('the classic text has every series, and no exemplars', () => {
  assert.deepEqual(expose(families, undefined), {
    contentType: contentTypes.text,
    text: String.raw`# HELP things_total Things, "quoted", of C:\\.\nAll of them.
# TYPE things_total counter
things_total{of="a \"b\"\\\n"} 3
# HELP times Times.
# TYPE times histogram
times_bucket{le="1.0"} 2
times_bucket{le="2.5"} 2
times_bucket{le="+Inf"} 2
times_sum 0.5
times_count 2
# HELP level Level.
# TYPE level gauge
level +Inf
`,
  });
});

test('OpenMetrics drops _total from a family, quotes help texts, has exemplars and an end', () => {
  assert.deepEqual(expose(families, 'application/openmetrics-text'), {
    contentType: contentTypes.openmetrics,
    text: String.raw`# HELP things Things, \"quoted\", of C:\\.\nAll of them.
# TYPE things counter
things_total{of="a \"b\"\\\n"} 3
# HELP times Times.
# TYPE times histogram
times_bucket{le="1.0"} 2 # {trace_id="abc",span_id="def"} 0.25 1700000000.125
times_bucket{le="2.5"} 2
times_bucket{le="+Inf"} 2
times_sum 0.5
times_count 2
# HELP level Level.
# TYPE level gauge
level +Inf
# EOF
`,
  });
});

const prometheus242 =
  'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1';
const prometheusWithProtobuf =
  'application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2';

for (const [accept, form] of [
  [undefined, 'text'],
  ['', 'text'],
  ['*/*', 'text'],
  ['text/plain', 'text'],
  ['text/html,application/xhtml+xml,*/*;q=0.8', 'text'],
  [prometheus242, 'openmetrics'],
  [prometheusWithProtobuf, 'openmetrics'],
  ['Application/OpenMetrics-Text; Version=1.0.0', 'openmetrics'],
  ['text/plain;version=0.0.4;q=0.9,application/openmetrics-text;version=1.0.0;q=0.5', 'text'],
  ['application/openmetrics-text;q=0', 'text'],
  ['application/openmetrics-text;q=nonsense', 'text'],
  ['application/openmetrics-text;version=0.0.1', 'text'],
] as const) {
  test(`"${accept}" is given ${form}`, () => {
    assert.equal(formOf(accept), form);
  });
}

test("both forms have Node's own histograms as well", async () => {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const histogram = registry.getSingleMetric('nodejs_gc_duration_seconds') as unknown as Histogram<'kind'>;
  histogram.observe({ kind: 'major' }, 0.002);
  for (const accept of ['text/plain', 'application/openmetrics-text']) {
    const { text } = expose(await familiesOf(registry), accept);
    assert.match(text, /^nodejs_gc_duration_seconds_bucket\{le="0\.01",kind="major"\} 1$/m);
  }
});
