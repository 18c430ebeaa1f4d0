/**
 * Everything that watches a gateway, on the real thing: `npm run ops:check [-- --screenshot FILE]`.
 *
 * Starts sample nodes, a gateway with workers, Redis, keys and TLS, and a Prometheus with the rule files that are
 * shipped; puts load on; lets one thing after the other go wrong; and checks that the alerts that say so fire and no
 * others do, that each expression of the dashboard gives data, and that the status page shows it. Needs redis-server,
 * prometheus, openssl and chromium. Time goes 30 times faster in the rules (`ops/rules.ts`). Exit code 1 when anything
 * is not as it should be.
 */
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { dashboardExpressions } from '../test/alerts/dashboard.ts';
import { alertsFile, recordingRulesFile } from '../test/alerts/rule-files.ts';
import { CleanUp } from './ops/clean-up.ts';
import { startLoad, type Load } from './ops/load.ts';
import { startPrometheus, type Prometheus } from './ops/prometheus.ts';
import { Report } from './ops/report.ts';
import { hurried } from './ops/rules.ts';
import { groups, ofBusyMachines, type Act, type Expected } from './ops/scenario.ts';
import { photograph, readStatusPage } from './ops/status-page.ts';
import { startWorld, type World } from './ops/world.ts';

const { values } = parseArgs({ options: { screenshot: { type: 'string', default: 'coverage/status.png' } } });

const factor = 30;
const calmMs = 15_000;
/** The longest `for:` and window of those that are awaited is ten minutes. */
const alertWaitMs = 45_000;
/** No run takes longer, whatever hangs. */
const wholeMs = 175_000;

const cleanUp = new CleanUp();
const report = new Report();

async function check(): Promise<void> {
  report.say(`starting nodes, Redis, gateway; every \`for:\` and window of the rules is ${factor} times shorter`);
  const world = await startWorld(cleanUp);
  const prometheus = await startPrometheus(cleanUp, new URL(world.gateway.operationsUrl).host, {
    'recording-rules.yaml': hurried(readFileSync(recordingRulesFile, 'utf8'), factor),
    'alerts.yaml': hurried(readFileSync(alertsFile, 'utf8'), factor),
  });
  const load = startLoad(world, (step) => cleanUp.after(step));
  report.say(`gateway ${world.gateway.url}, operations ${world.gateway.operationsUrl}`);
  await calm(load, prometheus);
  for (const group of groups) {
    await play(group, { world, load, prometheus });
    // Before everything is down.
    if (group === groups.at(-2)) await statusPage(world);
  }
  await nothingElse(prometheus);
  await dashboard(prometheus);
  report.say(`answers of the gateway by status: ${JSON.stringify(Object.fromEntries(load.statuses))}`);
}

/** With load and nothing wrong. */
async function calm(load: Load, prometheus: Prometheus): Promise<void> {
  await sleep(calmMs / 2);
  await load.burst(60);
  await sleep(calmMs / 2);
  const firing = [...(await prometheus.firing()).keys()];
  report.add('no alert while nothing is wrong', firing.length === 0, firing.join(', ') || 'none');
  const good = load.statuses.get(200) ?? 0;
  report.add('the gateway answers', good > 200, `${good} answers 200`);
}

interface Stage {
  readonly world: World;
  readonly load: Load;
  readonly prometheus: Prometheus;
}

async function play(group: readonly Act[], { world, load, prometheus }: Stage): Promise<void> {
  for (const act of group) {
    report.say(`now ${act.title}`);
    await act.happen(world, load);
  }
  const startedMs = performance.now();
  for (const expected of group.flatMap((act) => act.expected)) {
    const labels = await awaitAlert(prometheus, expected);
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(0);
    const told = labels === undefined ? `not within ${alertWaitMs / 1000} s` : `${labels['severity']}, ${seconds} s`;
    report.add(nameOf(expected), labels !== undefined, told);
  }
}

function nameOf({ alert, of = {} }: Expected): string {
  return [alert, ...Object.entries(of).map(([label, value]) => `${label}=${value}`)].join(' ');
}

async function awaitAlert(prometheus: Prometheus, { alert, of = {} }: Expected) {
  for (const untilMs = performance.now() + alertWaitMs; performance.now() < untilMs; await sleep(300)) {
    const firing = (await prometheus.firing()).get(alert) ?? [];
    const found = firing.find((labels) => Object.entries(of).every(([label, value]) => labels[label] === value));
    if (found !== undefined) return found;
  }
  return undefined;
}

async function statusPage({ gateway }: World): Promise<void> {
  const what = 'status page shows the dead node';
  try {
    const words = await readStatusPage(gateway.operationsUrl);
    const row = /full-a .{0,60}?\bdown\b/.exec(words);
    report.add(what, row !== null, row?.[0] ?? `it does not say that full-a is down: ${words.slice(0, 200)}`);
    await photograph(cleanUp.asTest, gateway.operationsUrl, values.screenshot);
    report.add('status page in a browser', true, values.screenshot);
  } catch (error) {
    report.add(what, false, error instanceof Error ? error.message : String(error));
  }
}

/** At no time since the start did an alert fire that nothing gave cause for. */
async function nothingElse(prometheus: Prometheus): Promise<void> {
  const fired = await prometheus.history('ALERTS{alertstate="firing"}');
  const names = new Set(fired.map(({ metric }) => metric['alertname'] ?? ''));
  const expected = groups.flat().flatMap((act) => act.expected.map(({ alert }) => alert));
  const followed = groups.flat().flatMap(({ mayFollow = [] }) => mayFollow);
  const allowed = new Set([...expected, ...followed, ...ofBusyMachines]);
  const others = [...names].filter((name) => !allowed.has(name));
  report.add('no other alert', others.length === 0, others.join(', ') || `${names.size} kinds fired`);
}

/** Each expression gave a number at some time of the run. */
async function dashboard(prometheus: Prometheus): Promise<void> {
  const expressions = dashboardExpressions('10s');
  const empty: string[] = [];
  for (const { title, expr } of expressions) {
    const series = await prometheus.history(expr);
    if (!series.some((one) => one.values.some(([, value]) => Number.isFinite(Number(value)))))
      empty.push(`${title} (${expr})`);
  }
  const told = empty.length === 0 ? `${expressions.length} expressions` : `nothing for: ${empty.join(', ')}`;
  report.add('each expression of the dashboard gives data', empty.length === 0, told);
}

cleanUp.onSignals();
const ended = new AbortController();
try {
  const tooLong = sleep(wholeMs, undefined, { signal: ended.signal }).then(
    () => Promise.reject(new Error(`not done within ${wholeMs / 1000} s`)),
    () => undefined,
  );
  await Promise.race([check(), tooLong]);
} catch (error) {
  report.add('the run itself', false, error instanceof Error ? (error.stack ?? error.message) : String(error));
} finally {
  ended.abort();
  await cleanUp.run();
}
report.print();
// What was cut off in the middle must not keep the process.
process.exit(report.isRight ? 0 : 1);
