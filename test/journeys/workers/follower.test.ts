// One worker follows the ledger for all of them.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { gatewayProcess, type GatewayProcess } from '../../support/gateway-process.ts';
import { submission } from '../../support/submission.ts';
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

test('a wait at any worker ends with the commit, and costs each worker one call of a node for its hash', async (t) => {
  const { node, gateway } = await followingWorkers(t);
  const reply = await fetch(`${node.url}/transactions`, {
    method: 'POST',
    body: submission(),
    headers: { 'content-type': 'application/json' },
  });
  const { hash } = (await reply.json()) as { readonly hash: string };
  const before = node.requestsTo('byHash');
  const waitOf = async (): Promise<string> => {
    const { text } = await get(`${gateway.url}/transactions/wait_by_hash/${hash}`);
    return text.includes('"pending_transaction"') ? waitOf() : text;
  };
  const waits = Array.from({ length: 2 * workers }, waitOf);
  await until(() => node.requestsTo('byHash') - before >= workers);
  node.clock.head = node.mempool.commitEach(node.clock.head + 1n) - 1n;
  const texts = await Promise.all(waits);
  assert.deepEqual([node.requestsTo('byHash') - before, node.requestsTo('waitByHash')], [workers, 0]);
  const { text } = await get(`${node.url}/transactions/by_hash/${hash}`);
  for (const waited of texts) assert.equal(waited, text);
});
