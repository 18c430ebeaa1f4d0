// The agreement between workers, in one process: real ends, and channels that deliver late and unevenly.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { dialectOf } from '../../src/ledger/ledger-headers.ts';
import { ledgerVersion } from '../../src/ledger/version.ts';
import { Fleet } from '../../src/upstream/fleet.ts';
import { Upstream } from '../../src/upstream/upstream.ts';
import { Agreed } from '../../src/workers/agreed.ts';
import { Agreement } from '../../src/workers/agreement.ts';
import { Channel } from '../../src/workers/channel.ts';
import type { PrimaryHandlers, WorkerHandlers } from '../../src/workers/protocol.ts';
import { Random } from '../support/random.ts';
import { until } from '../support/eventually.ts';
import { quietEvents } from '../support/fleet-events.ts';
import { ledgerInfo } from '../support/ledger-info.ts';
import { watchStalls } from '../support/stalls.ts';

/** Hands messages on in their order, each a while after it was sent; while it is stopped, not at all. */
class SlowLine {
  readonly #delayMs: () => number;
  readonly #waiting: (() => void)[] = [];
  isStopped = false;

  constructor(delayMs: () => number) {
    this.#delayMs = delayMs;
  }

  send(deliver: () => void): void {
    this.#waiting.push(deliver);
    setTimeout(() => this.flush(), this.#delayMs());
  }

  flush(): void {
    if (!this.isStopped) this.#waiting.shift()?.();
  }
}

function agreeing(t: TestContext, count: number, delayMs: () => number) {
  const agreement = new Agreement();
  t.after(() => agreement.close());
  const workers = Array.from({ length: count }, (_, index) => {
    const id = index + 1;
    const [up, down] = [new SlowLine(delayMs), new SlowLine(delayMs)];
    const atPrimary: Partial<PrimaryHandlers> = {
      raise: (raised) => agreement.raise(raised),
      startOver: (told) => agreement.startOver(id, told),
      takeTurn: () => agreement.takeTurn(id),
      endTurn: () => agreement.endTurn(id),
    };
    const toWorker: Channel<WorkerHandlers> = new Channel((message) => down.send(() => own.take(message)), atPrimary);
    const handlers: object = {};
    const own: Channel<PrimaryHandlers> = new Channel((message) => up.send(() => toWorker.take(message)), handlers);
    const agreed = new Agreed(own, id);
    t.after(() => agreed.close());
    Object.assign(handlers, agreed.handlers);
    const url = new URL('http://127.0.0.1:1/v1');
    const node = new Upstream({ name: 'n', url, tier: 'full', connections: 1, connectTimeoutMs: 100 });
    const fleet = new Fleet(
      [node],
      dialectOf('node'),
      { ...quietEvents, onGeneration: () => agreed.startOver() },
      { shown: agreed },
    );
    agreed.attach(fleet);
    agreement.join(id, toWorker);
    const hear = (version: bigint): unknown =>
      fleet.observe(node, ledgerInfo({ version, oldest: 0n }), performance.now());
    return { agreed, fleet, node, up, down, hear };
  });
  return { agreement, workers };
}

test('whatever the delays: what a request is shown is never less than any was shown before it arrived', async (t) => {
  const random = new Random(7);
  const { workers } = agreeing(t, 3, () => random.below(12));
  let ledger = 1_000n;
  let newest = -1n;
  let raised = 0;
  let shown = 0;
  const end = performance.now() + 2_000;
  const raise = async (worker: (typeof workers)[number]): Promise<void> => {
    worker.hear(ledger);
    await worker.agreed.raise({ served: ledgerVersion(ledger) });
    raised += 1;
  };

  while (performance.now() < end) {
    ledger += 1n;
    const worker = workers[random.below(3)];
    if (worker !== undefined && random.chance(4)) await Promise.race([raise(worker), sleep(random.below(20))]);
    for (const { agreed } of workers) {
      // As a request does that has just arrived; who finds it closed waits.
      if (!agreed.isOpen()) continue;
      const { served = -1n } = agreed;
      assert.ok(served >= newest, `${served} after ${newest}`);
      if (served > newest) shown += 1;
      newest = served;
    }
    await sleep(random.below(2));
  }

  assert.ok(raised > 10 && shown > 10, `${raised} raised, ${shown} shown`);
});

test('a worker that knows a node only from others notices that it is gone', async (t) => {
  const { workers } = agreeing(t, 2, () => 0);
  const [finder, told] = workers;
  assert.ok(finder !== undefined && told !== undefined);
  finder.hear(100n);
  await finder.agreed.raise({ served: ledgerVersion(100n) });
  await until(() => told.agreed.served === 100n);
  assert.equal(told.node.health, 'usable');

  while (told.node.health === 'usable') told.node.recordFailure(1, performance.now());
  told.fleet.refresh();

  assert.ok(told.fleet.outageSinceMs !== undefined);
});

test('a worker that does not answer holds up the others for a lease at most, and shows nothing after it', async (t) => {
  const stalls = watchStalls(t);
  const { workers } = agreeing(t, 2, () => 0);
  const [going, stuck] = workers;
  assert.ok(going !== undefined && stuck !== undefined);
  going.hear(100n);
  await going.agreed.raise({ served: ledgerVersion(100n) });
  await until(() => stuck.agreed.isOpen() && stuck.agreed.served === 100n);
  stuck.down.isStopped = true;

  going.hear(200n);
  const startedMs = performance.now();
  await going.agreed.raise({ served: ledgerVersion(200n) });
  const tookMs = performance.now() - startedMs;

  assert.equal(going.agreed.served, 200n);
  assert.equal(stuck.agreed.isOpen(), false);
  assert.ok(tookMs > 500, `${tookMs} ms`);
  stalls.judge(tookMs < 1_900, `${tookMs} ms`);
});

test('one looks at a time, and the others are told when it is over, also when it died over it', async (t) => {
  const { agreement, workers } = agreeing(t, 3, () => 0);
  const [one, two, three] = workers.map(({ agreed }) => agreed);
  assert.ok(one !== undefined && two !== undefined && three !== undefined);

  assert.equal(await one.takeTurn(), true);
  const waiting = [two.takeTurn(), three.takeTurn()];
  one.endTurn();
  assert.deepEqual(await Promise.all(waiting), [false, false]);

  assert.equal(await two.takeTurn(), true);
  const later = three.takeTurn();
  // By then the primary has heard of it.
  await sleep(20);
  agreement.leave(2);
  assert.equal(await later, false);
});
