/** Counting in memory, and what it costs to have many addresses. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Charge, Counted } from '../../../src/access/limits/counter.ts';
import { MemoryCounter } from '../../../src/access/limits/memory-counter.ts';
import { GatewayCounts } from '../../../src/access/limits/primary-counter.ts';
import { isAdmitted, peersOf, planOf, principalOf, replica, type Replica } from '../../support/limits.ts';

function charge(subject: string, changes: Partial<Charge> = {}): Charge {
  return { subject, hasKey: true, bounds: { windowMs: 10_000, requests: 3 }, cost: 1, ...changes };
}

const hasRoom = ({ count }: Counted): boolean => count.isAdmitted;

test('tenants are counted apart, and each process of several grants its share', () => {
  const counter = new MemoryCounter();
  const admitted = (subject: string) => [1, 2, 3, 4].filter(() => hasRoom(counter.take(charge(subject)))).length;
  assert.equal(admitted('a'), 3);
  assert.equal(admitted('b'), 3);
  const half = new MemoryCounter(2);
  assert.equal([1, 2, 3, 4].filter(() => hasRoom(half.take(charge('a')))).length, 1);
});

test('any number of addresses takes bounded memory, and evicts no key; one forgets its debt only behind as many', () => {
  const counter = new MemoryCounter();
  const address = (name: string) => hasRoom(counter.take(charge(name, { hasKey: false })));
  for (let count = 0; count < 3; count += 1) counter.take(charge('key'));
  for (let count = 0; count < 3; count += 1) address('greedy');
  for (let others = 0; others < 16_383; others += 1) address(`other ${others}`);
  assert.equal(address('greedy'), false);
  for (let others = 0; others < 20_000; others += 1) address(`another ${others}`);
  assert.equal(counter.size, 16_385);
  assert.equal(hasRoom(counter.take(charge('key'))), false, 'its debt is still known');
});

test('workers together get what one process would grant, and a worker that is gone holds no place', async (t) => {
  const service = new GatewayCounts();
  const principal = principalOf(planOf({ requests: 10, concurrency: 6 }));
  const join = (id: number): Promise<Replica> => replica(t, { peers: peersOf(service, id), processes: 2 });
  const hammer = async (...workers: readonly Replica[]) => {
    const turns = [...Array(20).keys()].map(async (at) => workers[at % workers.length]!.ask(principal));
    return (await Promise.all(turns)).filter(isAdmitted).length;
  };
  const [first, second] = [await join(1), await join(2)];
  assert.equal(await hammer(first, second), 6, 'at once');
  service.release(1);
  service.release(1);
  assert.equal(await hammer(second), 3, 'those of the first worker are free again');
  service.release(2);
  assert.equal(await hammer(await join(3)), 1, 'ten in all');
});

test('a request that is counted after the exit of its worker holds no place', async () => {
  const service = new GatewayCounts();
  const bounds = { windowMs: 10_000, requests: 100, concurrency: 2 };
  const [late, other] = [service.handlersFor(1), service.handlersFor(2)];
  service.release(1);
  for (let id = 0; id < 5; id += 1) late.take({ id, charge: charge('a', { bounds }) });
  assert.deepEqual(
    [0, 1, 2].map((id) => other.take({ id, charge: charge('a', { bounds }) }).isAdmitted),
    [true, true, false],
  );
});

test('a primary that does not answer is not waited for twice, and gets back what it may have counted', async (t) => {
  const settled: number[] = [];
  let asked = 0;
  const limitService = {
    take: () => {
      asked += 1;
      return Promise.reject(new Error('no answer'));
    },
    settle: ({ id }: { readonly id: number }) => settled.push(id),
    countAlone: () => assert.fail('the plan has no quota'),
    standings: () => Promise.reject(new Error('no answer')),
  };
  const { usage: usageStore } = new GatewayCounts();
  const worker = await replica(t, { peers: { limitService, usageStore }, processes: 3 });
  const principal = principalOf(planOf({ requests: 3 }));
  const taken = [await worker.ask(principal), await worker.ask(principal)];
  assert.deepEqual(taken.map(isAdmitted), [true, false], 'one of three: its share of three processes');
  assert.equal(asked, 1);
  assert.deepEqual(settled, [1]);
});
