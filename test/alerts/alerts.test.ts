/** Alerts are valid, fire and stay silent when they should, and each has its section of the runbook. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { catalogue, type Described } from '../../scripts/metrics-catalogue.ts';
import { hurried } from '../../scripts/ops/rules.ts';
import { combinations } from '../../src/metrics/family.ts';
import { until } from '../support/eventually.ts';
import { listen } from '../support/listen.ts';
import { noPrometheus, prometheus } from '../support/prometheus.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { dashboard, dashboardExpressions, type Chosen } from './dashboard.ts';
import {
  alertingRules,
  alertsFile,
  noPromtool,
  promtool,
  recordingRules,
  recordingRulesFile,
  ruleTests,
} from './rule-files.ts';

const names = [...new Set(alertingRules.map(({ alert }) => alert))];

test('Prometheus takes the rule files', { skip: noPromtool }, () => {
  const { status, output } = promtool('check', 'rules', alertsFile, recordingRulesFile);

  assert.equal(status, 0, output);
  assert.match(output, new RegExp(`${alertingRules.length} rules found`));
  assert.match(output, new RegExp(`${recordingRules.length} rules found`));
});

for (const { name, content, groups } of ruleTests) {
  test(`alerts fire and are silent as in ${name}`, { skip: noPromtool }, (t) => {
    const folder = temporaryFolder(t);
    const [file, rules] = [join(folder, name), join(folder, 'rules.json')];
    writeFileSync(rules, JSON.stringify({ groups }));
    writeFileSync(file, JSON.stringify({ ...content, rule_files: [rules] }));

    const { status, output } = promtool('test', 'rules', file);

    assert.equal(status, 0, output);
  });
}

test('each alert is shown to fire and to be silent', () => {
  const expected = ruleTests.flatMap(({ content }) => content.tests.flatMap((one) => one.alert_rule_test));
  const shown = (fires: boolean) =>
    new Set(expected.filter((one) => one.exp_alerts.length > 0 === fires).map(({ alertname }) => alertname));

  assert.deepEqual([...shown(true)].sort(), names.toSorted());
  assert.deepEqual([...shown(false)].sort(), names.toSorted());
});

test('an alert has its urgency, its fault, a figure, and the link to its section', () => {
  for (const { alert, expr, labels, annotations } of alertingRules) {
    assert.ok(labels['severity'] === 'page' || labels['severity'] === 'ticket', alert);
    assert.deepEqual(Object.keys(annotations).sort(), ['description', 'runbook_url', 'summary'], alert);
    assert.equal(annotations['runbook_url'], `docs/runbook.md#${alert.toLowerCase()}`);
    // An alert shows figures at once; few, such as an outage, have none.
    const text = `${annotations['summary']} ${annotations['description']}`;
    if (alert !== 'LedgergateDown' && alert !== 'LedgergateHeadStalled') assert.match(text, /\$(value|labels)/, alert);
    assert.doesNotMatch(expr, /\bjob\s*[=!]/, `${alert} knows the name of a scrape job`);
  }
});

test('the runbook has a section for each alert, in the order of the file, with all of its parts', () => {
  const runbook = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8');
  const sections = runbook
    .split(/^## /m)
    .filter((section) => section.startsWith('Ledgergate'))
    .map((section) => ({ name: section.slice(0, section.indexOf('\n')), section }));

  assert.deepEqual(
    sections.map(({ name }) => name),
    names,
  );
  for (const { name, section } of sections) {
    const parts = [...section.matchAll(/^\*\*(.+?)\*\*/gm)].map(([, part]) => part);
    assert.deepEqual(parts, ['Means.', 'Clients.', 'Look.', 'Do.', 'Do not'], name);
    assert.match(section, /```(promql|sh)\n/, `${name} has no query`);
  }
});

test('the rules load without Helm by the commands of docs/operations.md', { skip: noPromtool }, (t) => {
  const operations = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8');
  const section = /^## Monitoring$.*?(?=^## )/ms.exec(operations)?.[0] ?? '';
  const [, config = ''] = /```yaml\n(.*?)```/s.exec(section) ?? [];
  const [, commands = ''] = /```sh\n(.*?)```/s.exec(section) ?? [];
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'prometheus.yml'), config);

  const cwd = fileURLToPath(new URL('../..', import.meta.url));
  const inFolder = commands.replaceAll('/etc/prometheus', folder);
  const shell = spawnSync('sh', ['-e', '-c', inFolder], { cwd, encoding: 'utf8' });
  const { status, output } = promtool('check', 'config', join(folder, 'prometheus.yml'));

  assert.equal(shell.status, 0, shell.stderr);
  assert.equal(status, 0, output);
  const copied = readFileSync(join(folder, 'alerts.yaml'), 'utf8');
  assert.equal(copied.split('https://wiki.example/ledgergate/runbook#ledgergate').length - 1, alertingRules.length);
});

test('windows, offsets and waits are shorter, and nothing else differs', () => {
  const rules = 'expr: rate(a[5m]) > 0.1 unless a offset 1h and b[1d] > 3600 * c\nfor: 2m\nsummary: for 3 minutes';

  const expected =
    'expr: rate(a[10s]) > 0.1 unless a offset 120s and b[2880s] > 3600 * c\nfor: 4s\nsummary: for 3 minutes';
  assert.equal(hurried(rules, 30), expected);
});

test('in the rules that are shipped every time is found', () => {
  for (const file of [alertsFile, recordingRulesFile]) {
    const text = hurried(readFileSync(file, 'utf8'), 30);

    assert.doesNotMatch(text, /^\s*for: \d+[mhd]/m);
    assert.doesNotMatch(text, /\[\d+[mhd]\]|offset \d+[mhd]/);
  }
});

// The dashboard is in order. `npm run ops:check` evaluates its expressions on a Prometheus with data.

const families = new Map(catalogue().flatMap(({ families }) => families.map((family) => [family.name, family])));
/** Two values of each variable, as the config names nodes, plans and keys. */
const two: Readonly<Record<string, readonly [string, string]>> = {
  upstream: ['full-a', 'archive'],
  plan: ['free', 'paid'],
  key: ['wallet-a', 'wallet-b'],
};
const panels = dashboard.panels.filter(({ type }) => type !== 'row');

test('it is of the form of Grafana 10, and can be narrowed down by data source, job, replica, node, plan and key', () => {
  assert.equal(dashboard.schemaVersion, 39);
  const variables = dashboard.templating.list.map(({ name, multi = false }) => [name, multi]);
  assert.deepEqual(variables, [
    ['datasource', false],
    ['job', true],
    ['instance', true],
    ['upstream', true],
    ['plan', true],
    ['key', true],
  ]);
});

test('each panel has an id of its own, a description, a unit, thresholds, and a legend for each line', () => {
  assert.equal(new Set(dashboard.panels.map(({ id }) => id)).size, dashboard.panels.length);
  for (const { title, description = '', fieldConfig, targets = [] } of panels) {
    assert.ok(description.length > 10, title);
    assert.ok(fieldConfig?.defaults.unit !== undefined && fieldConfig.defaults.thresholds !== undefined, title);
    assert.ok(targets.length > 0, title);
    for (const { legendFormat } of targets) assert.notEqual(legendFormat, '', title);
    assert.equal(new Set(targets.map(({ refId }) => refId)).size, targets.length, title);
  }
});

test('panels do not lie on each other, and fit on the screen', () => {
  for (const [index, { title, gridPos: one }] of dashboard.panels.entries()) {
    assert.ok(one.x + one.w <= 24, title);
    for (const { title: otherTitle, gridPos: other } of dashboard.panels.slice(index + 1)) {
      const apart =
        one.x + one.w <= other.x ||
        other.x + other.w <= one.x ||
        one.y + one.h <= other.y ||
        other.y + other.h <= one.y;
      assert.ok(apart, `${title} and ${otherTitle}`);
    }
  }
});

/** Matchers of the variables that a family has labels for. */
function matchersOf(name: string): readonly string[] {
  const family = families.get(name) ?? families.get(name.replace(/_(?:bucket|count|sum)$/, ''));
  assert.ok(family !== undefined, name);
  return ['job', 'instance', ...Object.keys(family.labels).filter((label) => label in two)].map(
    (label) => `${label}=~"$${label}"`,
  );
}

test('every expression uses the chosen replicas, nodes, plans and keys, and the rate interval of Grafana', () => {
  for (const { title, targets = [] } of panels) {
    for (const { expr } of targets) {
      for (const [selector, name = ''] of expr.matchAll(/\b((?:ledgergate|process|nodejs)_\w+)(?:\{[^}]*\})?/g)) {
        for (const matcher of matchersOf(name)) assert.ok(selector.includes(matcher), `${title}: ${selector}`);
      }
      assert.doesNotMatch(expr, /\[\d/, title);
    }
  }
});

test('Prometheus understands every expression', { skip: noPromtool }, (t) => {
  const folder = temporaryFolder(t);
  const expressions = dashboardExpressions('5m');
  const rules = expressions.map(({ expr }, index) => ({ record: `panel:${index}`, expr }));
  // JSON is YAML.
  const file = join(folder, 'panels.yaml');
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'panels', rules }] }));

  const { status, output } = promtool('check', 'rules', file);

  assert.equal(status, 0, output);
  assert.match(output, new RegExp(`${expressions.length} rules found`));
});

/** Values of a label that is not closed. */
function openValuesOf(label: string): readonly string[] {
  return two[label === 'other' ? 'upstream' : label] ?? ['200', '503'];
}

/** Every series of a family; open labels have two values. All grow by `step`. */
function linesOf({ name, type, labels, buckets }: Described, step: number): string {
  const closed = Object.entries(labels).map(([label, values]) => [
    label,
    typeof values === 'string' ? openValuesOf(label) : values,
  ]);
  const line = (suffix: string, pairs: object, value: number): string => {
    const text = Object.entries(pairs).map(([label, of]) => `${label}="${String(of)}"`);
    return `${name}${suffix}{${text.join(',')}} ${value}\n`;
  };
  const series = combinations(Object.fromEntries(closed) as Record<string, readonly string[]>).map((of) => {
    if (buckets === undefined) return line('', of, type === 'gauge' ? 1 : step);
    const cumulative = [...buckets, '+Inf'].map((le, at) => line('_bucket', { ...of, le }, step * (at + 1)));
    return [...cumulative, line('_sum', of, step), line('_count', of, step * cumulative.length)].join('');
  });
  return `# TYPE ${name} ${type}\n${series.join('')}`;
}

interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [time: number, value: string];
}

test('every expression has data, of all nodes, plans and keys, and of one alone', { skip: noPrometheus }, async (t) => {
  let step = 0;
  const server = createServer((_request, response) => {
    step += 1;
    response.end([...families.values()].map((family) => linesOf(family, step)).join(''));
  });
  const scraper = await prometheus(t, `http://127.0.0.1:${await listen(t, server)}/metrics`, '2s');
  // A rate takes two values, and a scrape of every series a while.
  await until(() => step > 2);
  const dataOf = async (chosen: Chosen): Promise<readonly (readonly Series[])[]> =>
    Promise.all(
      dashboardExpressions('1m', chosen).map(
        async ({ expr }) => (await scraper.until('query', { query: expr })) as readonly Series[],
      ),
    );

  const all = await dataOf({});
  const one = await dataOf({ upstream: 'full-a', plan: 'free', key: 'wallet-a' });

  for (const [index, { title }] of dashboardExpressions('1m').entries()) {
    const labels = (of: readonly (readonly Series[])[]) =>
      (of[index] ?? []).flatMap(({ metric }) => Object.entries(metric).filter(([label]) => label in two));
    assert.ok(
      all[index]?.some(({ value: [, value] }) => Number.isFinite(Number(value))),
      title,
    );
    assert.ok(
      one[index]?.some(({ value: [, value] }) => Number.isFinite(Number(value))),
      title,
    );
    for (const [label, value] of labels(one)) assert.equal(value, two[label]?.[0], title);
    const others = new Set(labels(all).map(([, value]) => value));
    assert.equal(others.size, new Set(labels(all).map(([label]) => label)).size * 2, title);
  }
});
