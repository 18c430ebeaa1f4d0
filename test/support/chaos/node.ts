/** A node that faults happen to, and since when it could have answered. */
import type { TestContext } from 'node:test';
import type { LedgerClock } from '../../../src/sample/ledger-clock.ts';
import type { Mempool } from '../../../src/sample/mempool.ts';
import { createSampleNode, type SampleNode } from '../sample-node.ts';
import { FaultProxy } from '../fault-proxy.ts';
import { FollowingClock, usualWindow } from './ledger.ts';

export type ChaosTier = 'full' | 'archival';

export class ChaosNode {
  readonly name: string;
  readonly tier: ChaosTier;
  readonly node: SampleNode<FollowingClock>;
  readonly proxy: FaultProxy;
  /** What is wrong with it now. */
  fault: string | undefined;
  /** In ms of `performance.now()`; `Infinity`: it is not able. */
  #ableFromMs = 0;
  #timesUnable = 0;

  constructor(name: string, tier: ChaosTier, node: SampleNode<FollowingClock>) {
    this.name = name;
    this.tier = tier;
    this.node = node;
    this.proxy = new FaultProxy(node.port);
  }

  get url(): string {
    return `http://127.0.0.1:${this.proxy.port}/v1`;
  }

  /** Whether it answers everything that it holds, at once and rightly. */
  get isAble(): boolean {
    return performance.now() >= this.#ableFromMs;
  }

  /** Whether it has been able for this long. */
  wasAbleFor(ms: number): boolean {
    return performance.now() - this.#ableFromMs >= ms;
  }

  /** Stays the same for as long as the node is able without a break. */
  get timesUnable(): number {
    return this.#timesUnable;
  }

  /** Begins a fault; `leavesAble`: one that a gateway gets its answers through all the same. */
  ail(fault: string, leavesAble: boolean): void {
    this.fault = fault;
    if (leavesAble) return;
    this.#ableFromMs = Infinity;
    this.#timesUnable += 1;
  }

  /** Ends all faults. `ableAfterMs`: until a gateway may be expected to ask it again. */
  async heal(ableAfterMs = 0): Promise<void> {
    const { node, proxy } = this;
    node.faults.clear();
    node.clock.lag = 0n;
    node.clock.window = windowOf(this.tier);
    proxy.mangle = undefined;
    proxy.isStalled = false;
    await proxy.accept();
    this.fault = undefined;
    this.#ableFromMs = performance.now() + ableAfterMs;
  }
}

export interface ChaosNodeOptions {
  readonly name: string;
  readonly tier: ChaosTier;
  readonly ledger: LedgerClock;
  readonly mempool: Mempool;
}

/** Starts a node behind a proxy; both are closed after the test. */
export async function chaosNode(t: TestContext, options: ChaosNodeOptions): Promise<ChaosNode> {
  const { name, tier, ledger, mempool } = options;
  const clock = new FollowingClock(ledger, windowOf(tier));
  const node = new ChaosNode(name, tier, await createSampleNode({ clock, mempool, keepRequests: 1 }));
  await node.proxy.accept();
  t.after(async () => {
    await node.proxy.refuse();
    await node.node.close();
  });
  return node;
}

function windowOf(tier: ChaosTier): bigint | undefined {
  return tier === 'full' ? usualWindow : undefined;
}
