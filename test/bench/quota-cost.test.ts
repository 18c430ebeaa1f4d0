/**
 * The cost of a hit with a key of a plan with a quota beside one whose plan has a window alone: processor time of one
 * gateway in paired rounds. The quota is kept in a file, or counted by Redis; Redis's own time is not counted.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { startGateway } from '../../bench/support/gateway.ts';
import { startServer, type ServerProcess } from '../../bench/support/process-under-test.ts';
import { keysFile, testKey } from '../support/keys.ts';
import { noRedis, redisServer } from '../support/redis-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const run = promisify(execFile);
const path = '/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded400?ledger_version=1000';
const connections = 16;
const warmUpAnswers = 6_000;
const roundAnswers = 3_000;
const rounds = Number(process.env['LEDGERGATE_QUOTA_COST_ROUNDS'] ?? 0);
const skip = rounds > 0 ? false : 'a long run, by LEDGERGATE_QUOTA_COST_ROUNDS';

/** What only a real change for the worse exceeds. */
const bounds = { file: 1.6, Redis: 1.4 } as const;

for (const kept of ['file', 'Redis'] as const) {
  test(
    `a hit with a quota in ${kept} costs at most ${bounds[kept]} times one without`,
    { skip: skip || (kept === 'Redis' && noRedis) },
    async (t) => {
      const cpu = /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0';
      const started: ServerProcess[] = [];
      t.after(() => started.forEach((server) => server.stop()));
      const begin = async (server: Promise<ServerProcess>): Promise<ServerProcess> => {
        started.push(await server);
        return server;
      };
      const node = await begin(startServer('sample node', ['bench/support/sample-node-server.ts'], cpu));
      const most = 1_000_000_000;
      const window = { requests: most, window: '10s' };
      const plans = { unbounded: {}, window, quota: { ...window, quota: { day: most, month: most } } };
      const keys = Object.keys(plans).map((plan) => ({ plan, key: testKey(plan, { plan }) }));
      const access = {
        keys: {
          file: keysFile(
            t,
            keys.map(({ key }) => key),
          ).path,
        },
        plans,
      };
      const config =
        kept === 'Redis'
          ? { access, cache: { redis: { url: (await redisServer(t)).url, timeout: '2s' } } }
          : { access: { ...access, usage: { path: temporaryFolder(t) } } };
      const gateway = await begin(startGateway({ name: kept, nodeUrl: node.url, cpu, config, from: 'sources' }));
      const costOf = async (text: string, answers: number): Promise<number> => {
        const before = gateway.cpuMicros();
        const url = new URL(path, gateway.url).href;
        const args = [
          'test/bench/closed-loop.ts',
          url,
          String(connections),
          String(answers),
          `authorization: Bearer ${text}`,
        ];
        await run(process.execPath, args);
        return (gateway.cpuMicros() - before) / answers;
      };
      for (const { key } of keys) await costOf(key.text, warmUpAnswers);
      const costs = new Map(keys.map(({ plan }) => [plan, [] as number[]]));
      for (let round = 0; round < rounds; round += 1) {
        // In turns from either end: neither has the better place.
        for (const { plan, key } of round % 2 === 0 ? keys : keys.toReversed()) {
          costs.get(plan)?.push(await costOf(key.text, roundAnswers));
        }
      }
      const of = (plan: string): number[] => costs.get(plan) ?? [];
      const ratios = of('quota').map((cost, at) => cost / (of('window')[at] ?? NaN));
      for (const { plan } of keys) t.diagnostic(`${plan}: ${median(of(plan)).toFixed(1)} us`);
      t.diagnostic(`ratios: ${ratios.map((ratio) => ratio.toFixed(2)).join(' ')}`);
      t.diagnostic(`with a quota beside a window alone: ${median(ratios).toFixed(2)} times`);
      assert.ok(Math.min(...ratios) <= bounds[kept], ratios.map((ratio) => ratio.toFixed(2)).join(' '));
    },
  );
}

function median(all: readonly number[]): number {
  return all.toSorted((one, other) => one - other)[all.length >> 1] ?? NaN;
}
