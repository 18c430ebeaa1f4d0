/** A sample node with a ledger that stands where the test puts it. */
import { ManualClock } from './manual-clock.ts';
import { Mempool } from '../../src/sample/mempool.ts';
import { createSampleNode, type SampleNode, type SampleNodeOptions } from './sample-node.ts';
import type { Ending } from './temporary-folder.ts';

export interface FakeNodeOptions extends Omit<SampleNodeOptions, 'clock'> {
  /** Default 0. */
  readonly oldest?: bigint;
  /** Default 1000. */
  readonly head?: bigint;
  /** Keeps everything: `oldest` is 0. */
  readonly archival?: boolean;
}

export type FakeNode = SampleNode<ManualClock>;

/**
 * Starts a node and closes it after the test. Move its ledger with `node.clock`. A submitted transaction stays pending
 * until `node.mempool.commitAll(version)`.
 */
export async function fakeNode(t: Ending, options: FakeNodeOptions = {}): Promise<FakeNode> {
  const { oldest = 0n, head = 1000n, archival = false, ...rest } = options;
  const clock = new ManualClock({ head, oldest: archival ? 0n : oldest });
  const node = await createSampleNode({ mempool: new Mempool({ pendingForMs: Infinity }), ...rest, clock });
  t.after(() => node.close());
  return node;
}
