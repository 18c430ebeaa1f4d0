/** The rule files as they are shipped, and promtool, where it is installed. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

export interface AlertingRule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface RecordingRule {
  readonly record: string;
  readonly expr: string;
}

interface RuleFile {
  readonly groups: readonly { readonly name: string; readonly rules: readonly unknown[] }[];
}

const folder = new URL('../../helm/ledgergate/files/', import.meta.url);
export const alertsFile = fileURLToPath(new URL('alerts.yaml', folder));
export const recordingRulesFile = fileURLToPath(new URL('recording-rules.yaml', folder));
export const dashboardFile = fileURLToPath(new URL('dashboard.json', folder));

export const alertingRules: readonly AlertingRule[] = rulesOf(alertsFile) as readonly AlertingRule[];
export const recordingRules: readonly RecordingRule[] = rulesOf(recordingRulesFile) as readonly RecordingRule[];

/** An alert at a moment: silent, or firing with these labels and texts. */
interface Expectation {
  /** Default: the alert of the test. */
  readonly alert?: string;
  readonly silent?: string;
  readonly at?: string;
  /** The job is `gw` unless there is one here; '' is none. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly summary?: string;
  readonly description?: string;
}

/** A file of `rules/`: promtool's form without its repetitions. */
interface RuleTests {
  /** Interval of samples and evaluations. */
  readonly every: string;
  readonly tests: readonly {
    readonly claim: string;
    readonly alert?: string;
    readonly every?: string;
    /** `name{labels} = values`; the job is `gw` unless labels name one. */
    readonly series: readonly string[];
    readonly expect?: readonly Expectation[];
    readonly promql_expr_test?: readonly unknown[];
  }[];
}

/**
 * The tests of the rules, by the name of their file, in the form of `promtool test rules`; and the groups of the rules
 * that they name, because promtool evaluates every rule it is given at every step.
 */
export const ruleTests = readdirSync(new URL('rules/', import.meta.url))
  .sort()
  .map((name) => {
    const text = readFileSync(new URL(`rules/${name}`, import.meta.url), 'utf8');
    const alerts = groupsWith(alertsFile, ({ alert = '' }) => text.includes(alert));
    const asked = text + JSON.stringify(alerts);
    const groups = [...groupsWith(recordingRulesFile, ({ record = '' }) => asked.includes(record)), ...alerts];
    return { name, groups, content: promtoolForm(text, groups) };
  });

function groupsWith(
  file: string,
  isNamed: (rule: Partial<AlertingRule & RecordingRule>) => boolean,
): RuleFile['groups'] {
  return groupsOf(file).flatMap(({ rules, ...group }) => {
    const named = rules.filter((rule) => isNamed(rule as object));
    return named.length === 0 ? [] : [{ ...group, rules: named }];
  });
}

function promtoolForm(text: string, groups: RuleFile['groups']) {
  const { every, tests } = parse(text) as RuleTests;
  return {
    evaluation_interval: every,
    // Without an order promtool takes one at random, and alerts would see what was recorded a step before.
    group_eval_order: groups.map(({ name }) => name),
    tests: tests.map(({ claim, alert = '', series, expect = [], promql_expr_test, ...own }) => ({
      name: claim,
      interval: own.every ?? every,
      input_series: series.map(seriesOf),
      alert_rule_test: [...Map.groupBy(expect, (one) => `${one.alert ?? alert} ${one.silent ?? one.at}`)].map(
        ([key, same]) => {
          const [alertname = '', eval_time = ''] = key.split(' ');
          return { alertname, eval_time, exp_alerts: same.flatMap((one) => firing(alertname, one)) };
        },
      ),
      promql_expr_test,
    })),
  };
}

function seriesOf(line: string) {
  const [, name, labels = '', values] = /^(\w+)(?:\{(.*)\})? = (.*)$/.exec(line) ?? [];
  assert.ok(name !== undefined, line);
  const all = [...(/\bjob=/.test(labels) ? [] : ['job="gw"']), ...(labels === '' ? [] : [labels])];
  return { series: `${name}{${all.join(', ')}}`, values };
}

function firing(alertname: string, { silent, labels, summary, description }: Expectation) {
  if (silent !== undefined) return [];
  const runbook_url = `docs/runbook.md#${alertname.toLowerCase()}`;
  const { job = 'gw', ...others } = labels ?? {};
  return [
    {
      exp_labels: { ...(job === '' ? {} : { job }), ...others },
      exp_annotations: { summary, description, runbook_url },
    },
  ];
}

function rulesOf(file: string): readonly unknown[] {
  return groupsOf(file).flatMap(({ rules }) => rules);
}

function groupsOf(file: string): RuleFile['groups'] {
  return (parse(readFileSync(file, 'utf8')) as RuleFile).groups;
}

const isInstalled = spawnSync('promtool', ['--version']).status === 0;
if (!isInstalled && process.env['CI'] !== undefined) throw new Error('promtool is required in CI');

/** For `test(name, { skip: noPromtool }, ...)`. */
export const noPromtool: string | false = isInstalled
  ? false
  : 'promtool is not installed (apt-get install prometheus)';

/** Runs promtool; `output` is what it printed. */
export function promtool(...args: readonly string[]): { readonly status: number | null; readonly output: string } {
  // It runs for seconds and collects its garbage all the while, for nothing.
  const env = { ...process.env, GOGC: '400' };
  const { status, stdout, stderr } = spawnSync('promtool', args, { encoding: 'utf8', timeout: 60_000, env });
  return { status, output: stdout + stderr };
}
