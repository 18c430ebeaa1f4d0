import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request as send } from 'undici';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { fetchReply, probe, testGateway, type TestGateway } from '../../support/gateway.ts';
import type { FaultLimits, SampleFault } from '../../support/sample-faults.ts';

/** Versions by which the other nodes are behind the freshest. */
const lag = 300n;

/** Moves the freshest node, and the others behind it, one step for each read, until `isDone`. Every read is answered. */
async function readUntil(
  gateway: TestGateway,
  [leader, ...others]: readonly FakeNode[],
  isDone: () => Promise<boolean>,
  read = () => gateway.get(probe),
): Promise<void> {
  let reads = 0;
  await until(async () => {
    leader?.clock.advance(20n);
    const behind = (leader?.clock.head ?? 0n) - lag;
    for (const node of others) if (node.clock.head < behind) node.clock.advance(behind - node.clock.head);
    const { status, text } = await read();
    assert.equal(status, 200, text);
    // Metrics cost as much as some reads.
    return (reads += 1) % 4 === 0 && isDone();
  }, 20);
}

function isEjected(gateway: TestGateway, readClass: string): () => Promise<boolean> {
  const metric = `ledgergate_upstream_ejected{upstream="full-0",class="${readClass}"}`;
  return async () => (await gateway.metric(metric)) === 1;
}

const reads: FaultLimits = { when: ({ route }) => route !== 'ledgerInfo' };
const errors: SampleFault = { kind: 'answer', status: 502, body: '' };
const cases: readonly (readonly [how: string, fault: SampleFault, maxStalenessMs: number])[] = [
  ['by errors', errors, 200],
  ['by errors, and no state is shared,', errors, 0],
  ['by resets', { kind: 'reset' }, 200],
  ['by silence', { kind: 'hang' }, 200],
];

for (const [how, fault, maxStalenessMs] of cases) {
  test(`the freshest node fails reads ${how} and is far ahead: others answer each read, and it is ejected`, async (t) => {
    const nodes = await Promise.all([0, 1, 2].map(() => fakeNode(t)));
    const [leader] = nodes;
    const upstream = { probeIntervalMs: 100, timeoutMs: 500, deadlineMs: 2_000 };
    const config = { upstream, latest: { maxStalenessMs } };
    const gateway = await testGateway(t, { full: nodes, config });
    leader?.clock.advance(lag);
    await readUntil(gateway, nodes, async () => (await gateway.metric('ledgergate_fleet_head_version')) > 1_000);
    leader?.faults.add(fault, reads);

    await readUntil(gateway, nodes, isEjected(gateway, 'head'));

    leader?.faults.clear();
    await until(async () => !(await isEjected(gateway, 'head')()));
  });
}

test('the freshest node fails every view and is far ahead: others answer each view, and it is ejected', async (t) => {
  const nodes = await Promise.all([0, 1, 2].map(() => fakeNode(t)));
  const [leader] = nodes;
  const gateway = await testGateway(t, { full: nodes, config: { upstream: { probeIntervalMs: 100 } } });
  const read = () => gateway.post('/view', '{"function":"0x1::coin::balance","type_arguments":[],"arguments":[]}');
  leader?.clock.advance(lag);
  await readUntil(gateway, nodes, async () => (await gateway.metric('ledgergate_fleet_head_version')) > 1_000, read);
  leader?.faults.add(errors, { when: ({ route }) => route === 'view' });

  await readUntil(gateway, nodes, isEjected(gateway, 'view'), read);
});

test('the freshest node fails reads above the others alone: they answer, it is asked at their version, and not ejected', async (t) => {
  const nodes = await Promise.all([0, 1].map(() => fakeNode(t, { keepRequests: 100_000 })));
  const [leader] = nodes;
  const gateway = await testGateway(t, { full: nodes, config: { upstream: { probeIntervalMs: 100 } } });
  leader?.clock.advance(lag);
  await until(async () => (await gateway.metric('ledgergate_fleet_head_version')) === 1_300);
  leader?.faults.add(errors, { when: ({ url }) => url.endsWith('ledger_version=1300') });
  const askedBelow = () => leader?.log.received.filter(({ url }) => url.endsWith('ledger_version=1000')).length ?? 0;

  await until(async () => {
    const { status, text } = await gateway.get(probe);
    assert.equal(status, 200, text);
    return askedBelow() >= 6;
  });

  assert.equal(await isEjected(gateway, 'head')(), false);
});

// The leading node is lost while the others are behind it. Clients that have not seen its versions read on; clients that
// have wait for another node to reach them.

const versionsPerSecond = 190;
const leadMs = 900;
const readsPerSecond = 50;
const start = 100_000n;

const nodeError = JSON.stringify({ message: 'storage is broken', error_code: 'internal_error', vm_error_code: null });

const losses: Readonly<Record<string, (leader: FakeNode) => unknown>> = {
  kill: (leader) => leader.refuse(),
  hang: (leader) => leader.faults.add({ kind: 'hang' }),
  reset: (leader) => leader.faults.add({ kind: 'reset' }),
  500: (leader) =>
    leader.faults.add(
      { kind: 'answer', status: 500, body: nodeError },
      { when: ({ route }) => route !== 'ledgerInfo' },
    ),
};

/** Answers other than 200, by status and message with its numbers left out. */
class Answers {
  readonly failed: string[] = [];

  async take(path: string, agent?: Agent): Promise<void> {
    const { status, text } = await (agent === undefined ? fetchReply(path, { method: 'GET' }) : overAgent(path, agent));
    if (status !== 200) this.failed.push(`${status} ${messageOf(text)}`);
  }

  get kinds(): string {
    const counts = Map.groupBy(this.failed, (kind) => kind);
    return [...counts].map(([kind, all]) => `${all.length} times ${kind}`).join('; ');
  }
}

function messageOf(text: string): string {
  return text.replace(/^.*"message":"([^"]*)".*$/s, '$1').replaceAll(/\d+/g, 'N');
}

async function overAgent(path: string, agent: Agent) {
  const response = await send(path, { dispatcher: agent });
  return { status: response.statusCode, text: await response.body.text() };
}

function headAt(ms: number): bigint {
  return start + BigInt(Math.round((ms * versionsPerSecond) / 1000));
}

/** Moves the ledgers of the nodes with the time; the first one is ahead of the others. */
function move(t: TestContext, [leader, ...others]: readonly FakeNode[]): void {
  const beganMs = performance.now();
  const timer = setInterval(() => {
    const ms = performance.now() - beganMs;
    if (leader !== undefined) leader.clock.head = headAt(ms + leadMs);
    for (const node of others) node.clock.head = headAt(ms);
  }, 5);
  t.after(() => clearInterval(timer));
}

async function lose(t: TestContext, end: (leader: FakeNode) => unknown) {
  const nodes = await Promise.all([0, 1, 2].map(() => fakeNode(t, { head: start, keepRequests: 1 })));
  const [leader] = nodes;
  assert.ok(leader);
  move(t, nodes);
  const hedge = { quantile: 0.95, share: 0.04 };
  const upstream = { timeoutMs: 5_000, deadlineMs: 10_000, probeIntervalMs: 1_000, hedge };
  const gateway = await testGateway(t, { full: nodes, config: { upstream, latest: { waitForVersionMs: 500 } } });
  const free = new Answers();
  const bound = new Answers();
  const agents = Array.from({ length: 5 }, () => new Agent({ connections: 1, pipelining: 1 }));
  t.after(() => Promise.all(agents.map((agent) => agent.destroy())));
  const running = new Set<Promise<void>>();
  const track = (answer: Promise<void>): void => void running.add(answer.finally(() => running.delete(answer)));
  const pathOf = (n: number): string => `${gateway.url}/accounts/0x1/balance/0x${n % 97}a`;
  const untilMs = async (endMs: number): Promise<void> => {
    for (let n = 0, nextMs = performance.now(); performance.now() < endMs; n += 1) {
      track(free.take(pathOf(n)));
      nextMs += 1_000 / readsPerSecond;
      await sleep(Math.max(0, nextMs - performance.now()));
    }
  };
  await untilMs(performance.now() + 500);
  await Promise.all(agents.map((agent) => bound.take(pathOf(1), agent)));
  assert.deepEqual([free.kinds, bound.kinds], ['', '']);
  await end(leader);
  const lostAtMs = performance.now();
  const asBound = Promise.all(agents.map((agent, n) => bound.take(pathOf(n + 60), agent)));
  await untilMs(lostAtMs + 1_500);
  await asBound;
  await Promise.all(running);
  return { free, bound };
}

for (const [loss, end] of Object.entries(losses)) {
  test(`the leading node is lost by ${loss}: only clients that saw its versions wait`, async (t) => {
    const { free, bound } = await lose(t, end);

    assert.equal(free.kinds, '');
    const lost = /^\d+ times 503 no node that can be reached holds ledger version N yet; try again$|^$/;
    assert.match(bound.kinds, lost);
  });
}
