/**
 * The fleet of `ledgergate sample`: a full node that prunes and an archival node, of one ledger that moves as fast as a
 * public one does.
 */
import type { FleetState } from './curl-examples.ts';
import { advancingClock, type AdvancingClockOptions } from './ledger-clock.ts';
import { Mempool } from './mempool.ts';
import { createSampleNode } from './sample-node.ts';

interface SampleFleetOptions {
  readonly host?: string;
  /** Port of the full node; the archival one gets the next. Default 0: free ports. */
  readonly port?: number;
  /** How many versions the full node keeps. Default 100,000: about nine minutes, so that its edge can be watched. */
  readonly window?: bigint;
  readonly now?: () => number;
}

/** Version 0. A fixed day, so that a restarted fleet goes on where the last one was. */
const ledgerStartMs = Date.UTC(2024, 0, 1);
/** About five seconds' worth: the edge moves in steps that can be seen, and that a gateway has to predict. */
const pruneStep = 1000n;

/** Starts both nodes, by default on free loopback ports. */
export async function startSampleFleet(options: SampleFleetOptions = {}) {
  const { host = '127.0.0.1', port = 0, window = 100_000n, now = Date.now } = options;
  const ledger: AdvancingClockOptions = { startMs: ledgerStartMs, pruneStep, now };
  const mempool = new Mempool({ now });
  const full = await createSampleNode({ host, port, mempool, clock: advancingClock({ ...ledger, window }) });
  const nextPort = port === 0 ? 0 : port + 1;
  const archival = await createSampleNode({ host, port: nextPort, mempool, clock: advancingClock(ledger) });
  return {
    nodes: [
      { name: 'sample-full', url: full.url, tier: 'full' as const, node: full },
      { name: 'sample-archival', url: archival.url, tier: 'archival' as const, node: archival },
    ],
    /** State of the ledger, for `curlExamples`. */
    state(): FleetState {
      const { version: head, oldestVersion: oldest } = full.ledger();
      return { head, oldest, archivalOldest: archival.ledger().oldestVersion };
    },
    async close() {
      await Promise.all([full.close(), archival.close()]);
    },
  };
}
