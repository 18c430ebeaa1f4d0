/** The rule files as they are shipped, and promtool, where it is installed. */
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

/** Files for `promtool test rules`. */
export const ruleTestFiles: readonly string[] = readdirSync(new URL('rules/', import.meta.url))
  .sort()
  .map((name) => fileURLToPath(new URL(`rules/${name}`, import.meta.url)));

function rulesOf(file: string): readonly unknown[] {
  return (parse(readFileSync(file, 'utf8')) as RuleFile).groups.flatMap(({ rules }) => rules);
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
