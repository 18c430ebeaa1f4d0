/** The dashboard is in order. `npm run ops:check` evaluates its expressions on a Prometheus with data. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { dashboard, dashboardExpressions } from './dashboard.ts';
import { noPromtool, promtool } from './rule-files.ts';

const panels = dashboard.panels.filter(({ type }) => type !== 'row');

test('it is of the form of Grafana 10, and can be narrowed down by data source, job and replica', () => {
  assert.equal(dashboard.schemaVersion, 39);
  const variables = dashboard.templating.list.map(({ name, multi = false }) => [name, multi]);
  assert.deepEqual(variables, [
    ['datasource', false],
    ['job', true],
    ['instance', true],
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

test('every expression keeps to the replicas that are chosen, and to the rate interval of Grafana', () => {
  for (const { title, targets = [] } of panels) {
    for (const { expr } of targets) {
      for (const [selector] of expr.matchAll(/\b(?:ledgergate|process|nodejs)_\w+(?:\{[^}]*\})?/g)) {
        assert.match(selector, /\{job=~"\$job",instance=~"\$instance"/, `${title}: ${selector}`);
      }
      assert.doesNotMatch(expr, /\[\d/, title);
    }
  }
});

test('Prometheus understands every expression', { skip: noPromtool }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'ledgergate-dashboard-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const expressions = dashboardExpressions('5m');
  const rules = expressions.map(({ expr }, index) => ({ record: `panel:${index}`, expr }));
  // JSON is YAML.
  const file = join(folder, 'panels.yaml');
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'panels', rules }] }));

  const { status, output } = promtool('check', 'rules', file);

  assert.equal(status, 0, output);
  assert.match(output, new RegExp(`${expressions.length} rules found`));
});
