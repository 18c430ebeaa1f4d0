// Event streams at several workers, of which one follows the ledger for all.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { EventReader } from '../../support/event-reader.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { probe } from '../../support/gateway.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { metric } from '../../support/workers.ts';

const workers = 2;

async function workersAndNode(t: TestContext) {
  const node = await fakeNode(t, { head: 900n, keepRequests: 1_000 });
  const config = { workers, latest: { maxStaleness: '50ms' }, streams: { interval: '100ms' } };
  const gateway = await gatewayProcess(t, { full: [node], config });
  await until(async () => (await metric(gateway, 'ledgergate_workers')) === workers);
  return { node, gateway };
}

/** As many streams at each worker: connections are handed out in turn. */
async function openStreams(t: TestContext, url: string, count: number): Promise<readonly EventReader[]> {
  const readers: EventReader[] = [];
  for (let opened = 0; opened < count; opened += 1) {
    const reader = await EventReader.open(url);
    t.after(() => reader.close());
    readers.push(reader);
  }
  return readers;
}

/** Each version once and in order, from the first that the stream has. */
function assertWithoutGap({ ids }: EventReader): void {
  const first = Number(ids[0]);
  assert.deepEqual(
    ids,
    Array.from({ length: ids.length }, (_, index) => String(first + index)),
  );
}

test('streams at the other worker go on while one hangs, whichever of them follows the ledger', async (t) => {
  const { node, gateway } = await workersAndNode(t);
  const readers = await openStreams(t, `${gateway.url}/transactions?start=895`, 4);
  await Promise.all(readers.map((reader) => reader.has(6)));
  for (const hung of gateway.workers()) {
    process.kill(hung, 'SIGSTOP');
    try {
      node.clock.advance(30n);
      const count = Number(node.clock.head) - 894;
      await until(() => readers.filter(({ ids }) => ids.length >= count).length >= 2);
    } finally {
      process.kill(hung, 'SIGCONT');
    }
    // A worker that hung for ten seconds was replaced, and its streams have ended.
    const count = Number(node.clock.head) - 894;
    await until(() => readers.every(({ ids, hasEnded }) => hasEnded || ids.length >= count));
  }
  for (const reader of readers) assertWithoutGap(reader);
});

test('one read of a node for each worker and state serves all who watch there', async (t) => {
  const { node, gateway } = await workersAndNode(t);
  const readers = await openStreams(t, `${gateway.url}${probe}`, 6);
  await Promise.all(readers.map((reader) => reader.has(1)));
  for (let count = 2; count <= 4; count += 1) {
    node.clock.advance(1n);
    await Promise.all(readers.map((reader) => reader.has(count)));
  }
  const reads = new Map<string, number>();
  for (const { route, url } of node.log.received) {
    if (route === 'resource') reads.set(url, (reads.get(url) ?? 0) + 1);
  }
  for (const [url, count] of reads) assert.ok(count <= workers, `${count} reads of ${url}`);
  for (const { events } of readers)
    assert.deepEqual(
      events.slice(0, 4).map(({ id, data }) => [id, data]),
      readers[0]?.events.slice(0, 4).map(({ id, data }) => [id, data]),
    );
});

test('a drain ends each stream whole, with the time after which its client comes back', async (t) => {
  const { node, gateway } = await workersAndNode(t);
  const readers = await openStreams(t, `${gateway.url}/transactions?start=895`, 4);
  await Promise.all(readers.map((reader) => reader.has(6)));
  const stopped = gateway.stop();
  await until(() => {
    node.clock.advance(1n);
    return readers.every(({ hasEnded }) => hasEnded);
  });
  assert.equal(await stopped, 0);
  for (const reader of readers) {
    assert.equal(await reader.ended, true);
    assert.match(reader.text, /retry: ?\d+\n/);
    assertWithoutGap(reader);
  }
});
