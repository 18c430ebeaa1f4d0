/** Alerts are valid, fire and stay silent when they should, and each has its section of the runbook. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { hurried } from '../../scripts/ops/rules.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
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

test('the runbook has a section for each alert, in the order of the file, and no other', () => {
  const runbook = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8');
  const sections = [...runbook.matchAll(/^## (Ledgergate\w+)$/gm)].map(([, name]) => name);

  assert.deepEqual(sections, names);
});

test('each section of the runbook has meaning, effect on clients, diagnosis, actions and warnings', () => {
  const runbook = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8');
  const sections = runbook.split(/^## /m).filter((section) => section.startsWith('Ledgergate'));

  for (const section of sections) {
    const parts = [...section.matchAll(/^\*\*(.+?)\*\*/gm)].map(([, part]) => part);
    const name = section.slice(0, section.indexOf('\n'));
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
