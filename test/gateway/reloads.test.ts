import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import type { Config } from '../../src/config/config.ts';
import { Reloads } from '../../src/gateway/reloads.ts';
import { Journal } from '../../src/metrics/journal.ts';
import { testConfig } from '../support/gateway.ts';

const config = testConfig({});
const withStaleness = (maxStalenessMs: number): Config => ({ ...config, latest: { ...config.latest, maxStalenessMs } });

function reloadsOf(apply: (config: Config) => Promise<void>) {
  const registry = new Registry();
  const lines: string[] = [];
  const log = pino({ level: 'trace' }, { write: (line) => lines.push((JSON.parse(line) as { msg: string }).msg) });
  const reloads = new Reloads(config, { journal: new Journal(log), registry, apply }, () => undefined);
  const count = async (result: string): Promise<number | undefined> => {
    const metric = await registry.getSingleMetric('ledgergate_config_reloads_total')?.get();
    return metric?.values.find(({ labels }) => labels['result'] === result)?.value;
  };
  const gauge = async (name: string): Promise<number> => {
    const metric = await registry.getSingleMetric(`ledgergate_config_last_reload_${name}`)?.get();
    return metric?.values[0]?.value ?? NaN;
  };
  return { reloads, lines, count, gauge };
}

test('a config that cannot be applied is undone and logged', async () => {
  const applied: number[] = [];
  const { reloads, lines, count } = reloadsOf(async ({ latest }) => {
    applied.push(latest.maxStalenessMs);
    if (latest.maxStalenessMs === 7) throw new Error('no room');
    return Promise.resolve();
  });

  await reloads.take(withStaleness(5));
  await reloads.take(withStaleness(7));

  assert.deepEqual(applied, [5, 7, 5]);
  assert.equal(reloads.config.latest.maxStalenessMs, 5);
  assert.equal(reloads.status?.result, 'refused');
  assert.deepEqual([await count('applied'), await count('refused')], [1, 1]);
  assert.match(lines.at(-1) ?? '', /could not be applied: the config in force stays/);
});

test('metrics report whether the last config is in force, and the time of the last success', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 1_000_000 });
  const { reloads, gauge } = reloadsOf(() => Promise.resolve());
  assert.deepEqual([await gauge('successful'), await gauge('success_timestamp_seconds')], [1, 1_000]);

  t.mock.timers.tick(5_000);
  reloads.refuse([{ where: { kind: 'nowhere' }, path: ['latest'], message: 'no' }]);
  assert.deepEqual([await gauge('successful'), await gauge('success_timestamp_seconds')], [0, 1_000]);

  await reloads.take(withStaleness(5));
  assert.deepEqual([await gauge('successful'), await gauge('success_timestamp_seconds')], [1, 1_005]);
});

test('configs are applied one after the other, in order', async () => {
  const applied: number[] = [];
  let underWay = 0;
  const { reloads } = reloadsOf(async ({ latest }) => {
    assert.equal((underWay += 1), 1);
    await new Promise((resolve) => setTimeout(resolve, 10));
    applied.push(latest.maxStalenessMs);
    underWay -= 1;
  });

  await Promise.all([1, 2, 3].map((ms) => reloads.take(withStaleness(ms))));

  assert.deepEqual(applied, [1, 2, 3]);
  assert.equal(reloads.config.latest.maxStalenessMs, 3);
});

test('a config without changed live keys is not applied', async () => {
  const { reloads, count } = reloadsOf(() => assert.fail('applied'));

  await reloads.take({ ...config, dialect: 'aptos' });
  await reloads.take(config);

  assert.deepEqual(reloads.status?.needsRestart, []);
  assert.equal(await count('unchanged'), 2);
});
