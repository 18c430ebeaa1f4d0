/** A fleet whose nodes lag and restart, the same way in every run. */
import type { TestContext } from 'node:test';
import { Mempool } from '../../src/sample/mempool.ts';
import type { Moment } from './history.ts';
import { Random } from './random.ts';
import { fakeNode, type FakeNode } from './fake-node.ts';

export interface World {
  readonly nodes: readonly FakeNode[];
  /** Each change of the newest version that a running node has. */
  readonly moments: readonly Moment[];
  /** Moves the ledger and some of the nodes, and now and then stops or starts the last node. */
  turn(): Promise<void>;
  /** Commits what is pending in the next version. */
  commit(): void;
}

/**
 * Three nodes of one ledger, each behind it by steps of its own. `keepsNewest`: before the last node stops, another one has
 * reached its version, so that no version is lost.
 */
export async function laggingWorld(t: TestContext, { keepsNewest = false } = {}): Promise<World> {
  const random = new Random(20_260_701);
  const mempool = new Mempool({ pendingForMs: Infinity });
  const nodes = await Promise.all([0, 1, 2].map(() => fakeNode(t, { head: 1_000n, mempool, keepRequests: 1 })));
  const moments: Moment[] = [{ atMs: performance.now(), version: 1_000n }];
  let ledger = 1_000n;
  let isDown = false;
  /** The last node stops or starts. */
  let isTurning = false;
  const record = (): void => {
    const running = isDown ? nodes.slice(0, -1) : nodes;
    const version = running.reduce((newest, { clock }) => (clock.head > newest ? clock.head : newest), 0n);
    if (version !== moments.at(-1)?.version) moments.push({ atMs: performance.now(), version });
  };
  return {
    nodes,
    moments,
    async turn() {
      ledger += BigInt(random.below(4));
      for (const node of nodes) {
        const behind = ledger - node.clock.head;
        // Each node catches up in jumps of its own, so seldom that a client asks several times in between.
        if (random.chance(100)) node.clock.advance(random.chance(3) ? behind / 2n : behind);
      }
      record();
      if (!random.chance(200) || isTurning) return;
      isTurning = true;
      const [first, , last] = nodes;
      if (isDown) await last?.accept();
      else if (keepsNewest && first !== undefined && last !== undefined && first.clock.head < last.clock.head)
        first.clock.head = last.clock.head;
      isDown = !isDown;
      record();
      if (isDown) await last?.refuse();
      isTurning = false;
    },
    commit() {
      ledger += 1n;
      mempool.commitAll(ledger);
    },
  };
}
