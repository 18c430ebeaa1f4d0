// A file of many keys is parsed once, whatever is reloaded: nobody is answered meanwhile.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ConfigError } from '../../src/config/problem.ts';
import { KeysReadings } from '../../src/gateway/keys-readings.ts';
import { fakeNode } from '../support/fake-node.ts';
import { testGateway } from '../support/gateway.ts';
import { accessConfig, keysFile, planConfig, testKey } from '../support/keys.ts';

const textOf = (plan: string): string => `keys:\n  - ${JSON.stringify(testKey('a', { plan }).entry)}\n`;

test('a text is parsed once for whatever plans there are', () => {
  const readings = new KeysReadings('keys.yaml');
  const [free, gold] = [textOf('free'), textOf('gold')];

  const keys = readings.keysOf(free, new Set(['free']));
  assert.equal(readings.findFit(gold, new Set(['free'])), undefined);
  assert.throws(() => readings.keysOf(gold, new Set(['free'])), /keys\.yaml:2:\d+: keys\[0\]\.plan: there is no such/);
  assert.equal(readings.findFit(gold, new Set(['gold']))?.length, 1);
  assert.equal(readings.keysOf(free, new Set(['free', 'gold'])), keys);

  assert.equal(readings.findFit('keys: 7', new Set(['free'])), undefined);
  assert.throws(() => readings.keysOf('keys: 7', new Set(['free'])), ConfigError);
  assert.equal(readings.keysOf(free, new Set(['free'])), keys, 'what is in force stays known');
});

/** In microseconds of the processor. */
async function timeOf(work: () => unknown): Promise<number> {
  const { user } = process.cpuUsage();
  await work();
  return process.cpuUsage().user - user;
}

test('a config is taken in a fraction of the time that its file of keys takes to be parsed', async (t) => {
  const mine = testKey('mine');
  // On one line each, which is read as YAML.
  const file = keysFile(t, [mine, ...Array.from({ length: 3_000 }, (_, index) => testKey(`wallet-${index}`))]);
  const access = accessConfig({ keys: { file: file.path, redis: false } });
  const gateway = await testGateway(t, { full: [await fakeNode(t)], access });
  const { config } = gateway.reloads;
  const text = readFileSync(file.path, 'utf8');
  const parsing = await timeOf(() => new KeysReadings(file.path).findFit(text, new Set(['free'])));

  const plans = { free: planConfig(), gold: planConfig() };
  const taking = await timeOf(() => gateway.reloads.take({ ...config, access: { ...access, plans } }));

  assert.equal(gateway.reloads.status?.result, 'applied');
  assert.ok(taking < parsing / 3, `${taking} µs, and ${parsing} µs to parse`);
  const { status } = await gateway.get('/accounts/0x1/module/coin?ledger_version=5', {
    authorization: `Bearer ${mine.text}`,
  });
  assert.equal(status, 200);
});
