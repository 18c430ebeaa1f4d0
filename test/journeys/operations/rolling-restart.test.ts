// Two gateways behind a balancer, one of them of two workers, restarted in turn without a failed request.
// LEDGERGATE_RESTART_ROUNDS sets how often; the figure of the project's claims is taken with 50.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { balancer } from '../../support/balancer.ts';
import { Crowd } from '../../support/crowd.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';

const rounds = Number(process.env['LEDGERGATE_RESTART_ROUNDS'] ?? 2);
const from = 1_000_000;

test(`${rounds} ends and starts behind a balancer, of one process and of workers: 0 failed requests`, async (t) => {
  const node = await fakeNode(t, { head: 10_000_000n, keepRequests: 1 });
  // Some requests are under way for as long as a drain takes to begin, and some bodies come by and by.
  node.faults.add({ kind: 'latency', ms: 300 }, { when: ({ url }) => /[05]$/.test(url) });
  node.faults.add({ kind: 'slow body', chunkBytes: 60, everyMs: 100 }, { when: ({ url }) => /blocks.*3\?/.test(url) });
  const gateways = await Promise.all([1, 2].map((workers) => gatewayProcess(t, { full: [node], config: { workers } })));
  const front = await balancer(t, gateways);
  const { url } = front;
  const crowds = [
    new Crowd(t, { url, clients: 8, from }),
    new Crowd(t, { url, clients: 3, from: 2 * from, shortLived: true }),
  ];

  const codes: (number | null)[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const gateway = gateways[round % 2];
    await Promise.all(crowds.map((crowd) => crowd.answer(50)));
    codes.push((await gateway?.stop()) ?? null);
    await gateway?.restart();
    await front.untilReady(gateway ?? { url, operationsUrl: '' });
    await sleep(200);
  }
  await Promise.all(crowds.map((crowd) => crowd.end()));

  const answered = crowds.map((crowd) => crowd.answered);
  t.diagnostic(`${answered.join(' and ')} requests over kept and over short connections`);
  assert.deepEqual(
    crowds.flatMap(({ failed }) => failed),
    [],
  );
  assert.deepEqual(new Set(codes), new Set([0]));
  assert.ok(Math.min(...answered) > rounds * 50);
});
