/** Rules and dashboard of `files/` reach the cluster as they are; this holds whatever is in them. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { assertValid } from '../support/kubernetes.ts';
import { chartFolder, chartWith, container, only, own, refusal, render, withoutHelm } from '../support/helm.ts';

const skip = withoutHelm();
const all = {
  metrics: { serviceMonitor: { enabled: true }, prometheusRule: { enabled: true }, dashboard: { enabled: true } },
};

interface Group {
  readonly name: string;
  readonly rules: readonly { readonly alert?: string }[];
}

const files = {
  'alerts.yaml': [
    'groups:',
    '  - name: one',
    '    interval: 30s',
    '    rules:',
    "      - { alert: First, expr: 'up == 0', for: 2m, annotations: { summary: '{{ $labels.pod }} has {{ $value }}' } }",
    "      - { alert: Second, expr: 'up == 1' }",
    '  - name: two',
    '    rules:',
    "      - { alert: Third, expr: 'up > 1' }",
  ].join('\n'),
  'recording-rules.yaml': "groups: [{ name: three, rules: [{ record: 'a:b', expr: 'sum(up)' }] }]\n",
  'dashboard.json': '{ "title": "{{instance}} $__rate_interval", "panels": [] }\n',
};

const groupsOf = (options: Parameters<typeof render>[0]): readonly Group[] =>
  only(render(options), 'PrometheusRule').spec.groups;

test('every group of every rule file is in the PrometheusRule, word for word', { skip }, async (t) => {
  const chart = chartWith(t, files);
  const objects = render({ chart, values: all });

  for (const object of objects) await assertValid(object);
  const written = ['alerts.yaml', 'recording-rules.yaml'].flatMap((name) => parse(files[name as 'alerts.yaml']).groups);
  assert.deepEqual(only(objects, 'PrometheusRule').spec.groups, written);
});

test('the dashboard is in a ConfigMap with the label that Grafana looks for, byte for byte', { skip }, (t) => {
  const objects = render({ chart: chartWith(t, files), values: all });
  const dashboard = objects.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name.endsWith('-dashboard'));

  assert.equal(dashboard?.metadata.labels['grafana_dashboard'], '1');
  assert.equal(dashboard?.data?.['ledgergate-dashboard.json'], files['dashboard.json']);
});

test('alerts can be left out by name, and a name that is none is refused', { skip }, (t) => {
  const chart = chartWith(t, files);
  const without = (...disabledAlerts: string[]) => ({
    chart,
    values: { metrics: { prometheusRule: { enabled: true, disabledAlerts } } },
  });

  const groups = groupsOf(without('Second', 'Third'));

  assert.deepEqual(
    groups.map(({ name, rules }) => [name, rules.length]),
    [
      ['one', 1],
      ['three', 1],
    ],
  );
  assert.match(refusal(without('Secnd')), /disabledAlerts: there is no alert Secnd/);
});

function linksOf(options: Parameters<typeof render>[0]): ReadonlySet<string> {
  const links = JSON.stringify(groupsOf(options)).matchAll(/"runbook_url":"([^#"]*)#\w+"/g);
  return new Set([...links].map(([, link = '']) => link));
}

test(
  'links of alerts begin with the given address of the runbook, or with that of the gateway itself',
  { skip },
  () => {
    const runbookUrl = 'https://wiki.example/ledgergate/runbook';
    // The chart's release in tests is `rel`, in the namespace `default`.
    const [own = ''] = linksOf({ values: all });
    assert.match(own, /^http:\/\/[\w-]+-operations\.[\w-]+\.svc:\d+\/runbook$/);
    const given = linksOf({ values: { metrics: { prometheusRule: { enabled: true, runbookUrl } } } });
    assert.deepEqual(given, new Set([runbookUrl]));
  },
);

test('a rule file that is no rule file is refused', { skip }, (t) => {
  const chart = chartWith(t, { 'alerts.yaml': 'groups: none\n' });

  assert.match(refusal({ chart, values: all }), /files\/alerts.yaml has no list of groups/);
});

test(
  'what is in files/ is in the chart',
  { skip: skip || (existsSync(join(chartFolder, 'files')) ? false : 'there are none') },
  async () => {
    const objects = render({ values: all });
    const names = readdirSync(join(chartFolder, 'files'));
    const groups = names
      .filter((name) => name.endsWith('.yaml'))
      .flatMap((name) => parse(readFileSync(join(chartFolder, 'files', name), 'utf8')).groups as Group[]);
    const dashboards = names.filter((name) => name.endsWith('.json'));

    for (const object of objects) await assertValid(object);
    const rendered = objects
      .filter(({ kind }) => kind === 'PrometheusRule')
      .flatMap(({ spec }) => spec.groups as Group[]);
    assert.deepEqual(
      rendered.map(({ name }) => name),
      groups.map(({ name }) => name),
    );
    assert.deepEqual(
      rendered.map(({ rules }) => rules.length),
      groups.map(({ rules }) => rules.length),
    );
    assert.equal(objects.filter(({ kind }) => kind === 'ConfigMap').length, 1 + dashboards.length);
  },
);

test('pods are annotated for a Prometheus without the operator, or watched by one with it, not both', { skip }, () => {
  const { annotations } = only(render({ ci: 'workers' }), 'Deployment').spec.template.metadata;

  assert.equal(annotations['prometheus.io/scrape'], 'true');
  assert.equal(annotations['prometheus.io/port'], '9090');
  assert.match(
    refusal({ values: { metrics: { podAnnotations: true, serviceMonitor: { enabled: true } } } }),
    /scraped twice/,
  );
});

test('the monitor finds the Service of operators, whose port is the one that serves /metrics', { skip }, () => {
  const objects = render({ values: all });
  const operations = objects.find(({ kind, metadata }) => kind === 'Service' && metadata.name.endsWith('-operations'));
  const ports: { name: string; containerPort: number }[] = container(objects).ports;

  assert.equal(operations?.spec.ports[0].targetPort, 'operations');
  assert.equal(ports.find(({ name }) => name === 'operations')?.containerPort, 9090);
  assert.equal(own(objects, 'Service').spec.ports.length, 1);
});
