/**
 * The cost of a cached answer beside a bare node:http server that writes the same bytes in the same run. Processor time,
 * not time; a ratio, not a figure; and bounds that only a real change for the worse exceeds.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { startGateway } from '../../bench/support/gateway.ts';
import { startServer, type ServerProcess } from '../../bench/support/process-under-test.ts';

const run = promisify(execFile);
const path = '/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded400?ledger_version=1000';
const connections = 16;
/** Until the compiler has settled for the most part; it goes on with that while rounds are repeated. */
const warmUpAnswers = 6_000;
const roundAnswers = 3_000;
/** A busy machine has bad moments: what is within its bound once is not slow. */
const mostRounds = 6;
const isMeasured = existsSync('/proc/self/schedstat');
const skip = isMeasured || process.env['CI'] !== undefined ? false : 'NOT MEASURED: no /proc/self/schedstat here';

/** Usual are 0.55 to 0.85, and 1.15 to 1.35. */
const bounds = { 'with listen.fastPath': 1.05, 'without it': 2 } as const;
type Variant = keyof typeof bounds;
const variants = Object.keys(bounds) as Variant[];

const started: ServerProcess[] = [];
const least = new Map<Variant, number>();

before(
  async () => {
    if (skip !== false) return;
    const cpu = /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0';
    const node = await start(startServer('sample node', ['bench/support/sample-node-server.ts'], cpu));
    const gateways = await Promise.all(
      variants.map((name) => {
        const fastPath = name === 'with listen.fastPath';
        return start(startGateway({ name, nodeUrl: node.url, cpu, fastPath, from: 'sources' }));
      }),
    );
    const { origin } = new URL(gateways[0]?.url ?? '');
    const bare = await start(startServer('node:http', ['bench/support/bare-server.ts', origin, path, '1'], cpu));
    await Promise.all([bare, ...gateways].map((server) => costOf(server, warmUpAnswers)));
    for (let round = 0; round < mostRounds && !variants.every(isWithin); round += 1) {
      const floor = await costOf(bare, roundAnswers);
      for (const [index, name] of variants.entries()) {
        const gateway = gateways[index];
        if (gateway === undefined) continue;
        const ratio = (await costOf(gateway, roundAnswers)) / floor;
        least.set(name, Math.min(ratio, least.get(name) ?? Infinity));
      }
    }
  },
  { timeout: 60_000 },
);

after(() => {
  for (const server of started) server.stop();
});

for (const name of variants) {
  test(`a hit ${name} costs at most ${bounds[name]} times one of a bare server`, { skip }, (t) => {
    t.diagnostic(`${least.get(name)?.toFixed(2)} times`);
    assert.ok(isWithin(name), `${least.get(name)?.toFixed(2)} times in the best of ${mostRounds} rounds`);
  });
}

function isWithin(name: Variant): boolean {
  return (least.get(name) ?? Infinity) <= bounds[name];
}

async function start(server: Promise<ServerProcess>): Promise<ServerProcess> {
  started.push(await server);
  return server;
}

/** Processor time of the server for each answer, in microseconds. */
async function costOf(server: ServerProcess, answers: number): Promise<number> {
  const before = server.cpuMicros();
  const args = ['test/bench/closed-loop.ts', new URL(path, server.url).href, String(connections), String(answers)];
  await run(process.execPath, args);
  return (server.cpuMicros() - before) / answers;
}
