// One worker follows the ledger for all of them.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { gatewayProcess, type GatewayProcess } from '../../support/gateway-process.ts';
import { get, isAlive, metric } from '../../support/workers.ts';

const workers = 2;

async function followingWorkers(t: TestContext) {
  const node = await fakeNode(t, { head: 900n, keepRequests: 1 });
  const config = { workers, follow: { mode: 'always' } };
  const gateway = await gatewayProcess(t, { full: [node], config });
  await follow(gateway, node);
  return { node, gateway };
}

/** The ledger moves on by 20 versions; resolves once every worker answers the newest from memory. */
async function follow(gateway: GatewayProcess, node: FakeNode): Promise<void> {
  node.clock.advance(20n);
  // Connections are handed out in turn, and a version that a node was asked for is in memory.
  await until(async () => {
    node.clock.advance(1n);
    // Read by now, unless nobody reads.
    const version = node.clock.head - 10n;
    const found = [];
    for (let worker = 0; worker < workers; worker += 1)
      found.push((await get(`${gateway.url}/transactions/by_version/${version}`)).headers['cache-status']);
    return found.every((source) => source === 'ledgergate; hit; detail=memory');
  });
}

const readers = async (gateway: GatewayProcess) => metric(gateway, 'ledgergate_follower_running');

test('one worker reads for all, and when it dies the next one does', async (t) => {
  const { node, gateway } = await followingWorkers(t);
  assert.equal(await readers(gateway), 1);
  for (const victim of gateway.workers()) {
    process.kill(victim, 'SIGKILL');
    await until(() => !isAlive(victim));
    await until(async () => (await metric(gateway, 'ledgergate_workers')) === workers);
    await follow(gateway, node);
    await until(async () => (await readers(gateway)) === 1);
  }
});
