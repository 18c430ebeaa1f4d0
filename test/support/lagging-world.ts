/** A fleet whose nodes lag and restart, the same way in every run. */
import type { TestContext } from 'node:test';
import { Mempool } from '../../src/sample/mempool.ts';
import { Random } from './random.ts';
import { fakeNode, type FakeNode } from './fake-node.ts';

export interface World {
  readonly nodes: readonly FakeNode[];
  /** Moves the ledger and some of the nodes, and now and then stops or starts the last node. */
  turn(): Promise<void>;
  /** Commits what is pending in the next version. */
  commit(): void;
}

/** Three nodes of one ledger, each behind it by steps of its own. */
export async function laggingWorld(t: TestContext): Promise<World> {
  const random = new Random(20_260_701);
  const mempool = new Mempool({ pendingForMs: Infinity });
  const nodes = await Promise.all([0, 1, 2].map(() => fakeNode(t, { head: 1_000n, mempool, keepRequests: 1 })));
  let ledger = 1_000n;
  let isDown = false;
  return {
    nodes,
    async turn() {
      ledger += BigInt(random.below(4));
      for (const node of nodes) {
        const behind = ledger - node.clock.head;
        // Each node catches up in jumps of its own, so seldom that a client asks several times in between.
        if (random.chance(100)) node.clock.advance(random.chance(3) ? behind / 2n : behind);
      }
      if (!random.chance(200)) return;
      isDown = !isDown;
      await (isDown ? nodes[2]?.refuse() : nodes[2]?.accept());
    },
    commit() {
      ledger += 1n;
      mempool.commitAll(ledger);
    },
  };
}
