// Several tenants before one gateway: each gets its grant, whatever the others do.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { Agent, request as send } from 'undici';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess, type GatewayProcess } from '../../support/gateway-process.ts';
import { keysFile, testKey, type TestKey } from '../../support/keys.ts';
import { watchStalls } from '../../support/stalls.ts';
import { metric } from '../../support/workers.ts';

interface Asked {
  readonly status: number;
  readonly tookMs: number;
}

let version = 0;

/** A read that no cache holds. */
async function ask({ url }: Pick<GatewayProcess, 'url'>, key: TestKey, agent: Agent): Promise<Asked> {
  version += 1;
  const path = `/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=${version}`;
  const startMs = performance.now();
  const { statusCode, body } = await send(url + path, {
    dispatcher: agent,
    headers: { authorization: `Bearer ${key.text}` },
  });
  await body.dump();
  return { status: statusCode, tookMs: performance.now() - startMs };
}

/** Asks `perSecond` times a second for `ms`, whatever becomes of it. */
async function load(gateway: GatewayProcess, key: TestKey, perSecond: number, ms: number): Promise<readonly Asked[]> {
  const agent = new Agent({ connections: 64 });
  const asked: Promise<Asked>[] = [];
  const startMs = performance.now();
  while (performance.now() - startMs < ms) {
    const due = ((performance.now() - startMs) / 1_000) * perSecond;
    while (asked.length < due) asked.push(ask(gateway, key, agent));
    await sleep(5);
  }
  const answers = await Promise.all(asked);
  await agent.close();
  return answers;
}

function quantile(answers: readonly Asked[], part: number): number {
  const times = answers.map(({ tookMs }) => tookMs).sort((one, other) => one - other);
  return times[Math.floor(times.length * part)] ?? 0;
}

const p50 = (answers: readonly Asked[]): number => quantile(answers, 0.5);
const p99 = (answers: readonly Asked[]): number => quantile(answers, 0.99);

const share = (answers: readonly Asked[]): number =>
  answers.filter(({ status }) => status !== 200).length / answers.length;

test('a tenant at twenty times its plan takes nothing from five modest ones', async (t) => {
  const node = await fakeNode(t, { head: 1_000_000n });
  // With eight connections some 200 reads a second: half of what the greedy one asks for.
  node.faults.add({ kind: 'latency', ms: 40 });
  const keys = ['greedy', 'a', 'b', 'c', 'd', 'e'].map((name) => testKey(name, { tenant: name, plan: 'small' }));
  const [greedy, ...modest] = keys as [TestKey, ...TestKey[]];
  const { path: file } = keysFile(t, keys);
  const plans = { small: { window: '1s', requests: 20, concurrency: 10 } };
  const config = { access: { keys: { file }, plans }, upstream: { connections: 8 } };
  const gateway = await gatewayProcess(t, { full: [node], config });
  const modestly = async () => (await Promise.all(modest.map((key) => load(gateway, key, 10, 2_000)))).flat();

  // The first requests of a process are its slowest.
  await load(gateway, greedy, 10, 500);
  await sleep(1_100);
  const stalls = watchStalls(t);
  const alone = await modestly();
  const besideMs = performance.now();
  const [beside, greedily] = await Promise.all([modestly(), load(gateway, greedy, 400, 2_000)]);
  const seconds = (performance.now() - besideMs) / 1_000;
  const admitted = greedily.filter(({ status }) => status === 200).length;
  t.diagnostic(
    `modest alone: p50 ${p50(alone).toFixed(1)} ms, p99 ${p99(alone).toFixed(1)} ms, ${(share(alone) * 100).toFixed(2)} % not served`,
  );
  t.diagnostic(
    `beside greedy: p50 ${p50(beside).toFixed(1)} ms, p99 ${p99(beside).toFixed(1)} ms, ${(share(beside) * 100).toFixed(2)} % not served`,
  );
  t.diagnostic(`greedy: ${admitted} of ${greedily.length} served, p99 ${p99(greedily).toFixed(1)} ms`);
  t.diagnostic(`this process stood still for ${stalls.longestMs.toFixed(0)} ms at most`);
  assert.ok(admitted <= 20 * (seconds + 1) + 20, `${admitted} of the greedy one were let in`);
  // Requests beyond the machine's capacity are refused for every tenant.
  const shed = (await metric(gateway, 'ledgergate_shed_requests_total{reason="event loop"}')) ?? NaN;
  assert.ok(shed >= 0, 'it is counted');
  // Nodes take 40 ms. Where the modest ones wait for half as long again all alone, or this process, which only asks, stands
  // still, the machine has other work, and with the greedy one beside them they run into their own plan.
  if (shed > 0 || p50(alone) > 60 || stalls.longestMs > 250) {
    t.diagnostic(
      `a busy machine: ${shed} requests were refused for it, half took ${p50(alone).toFixed(0)} ms and more, ` +
        `and this process stood still for ${stalls.longestMs.toFixed(0)} ms`,
    );
    return;
  }
  assert.equal(share(alone), 0);
  assert.equal(share(beside), 0);
  assert.ok(p50(beside) < p50(alone) + 200, `${p50(beside)} ms beside ${p50(alone)} ms alone`);
  // Test machines are noisy, and all clients share one process: a starved client waits for seconds.
  assert.ok(p99(beside) < p99(alone) + 1_000, `${p99(beside)} ms beside ${p99(alone)} ms alone`);
  assert.ok(admitted >= 30, `${admitted} of the greedy one were let in`);
  assert.ok(greedily.every(({ status }) => status === 200 || status === 429));
});
