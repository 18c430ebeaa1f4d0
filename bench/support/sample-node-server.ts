/** The process of sample-node.ts. */
import { advancingClock } from '../../src/sample/ledger-clock.ts';
import { createSampleNode } from '../../test/support/sample-node.ts';

const node = await createSampleNode({ clock: advancingClock({ startHead: 1_000_000n }), keepRequests: 1 });
process.stdout.write(`${node.url}\n`);
