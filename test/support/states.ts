/** Ledger states as reads of "latest" share them. */
import { LedgerVersion } from '../../src/ledger/version.ts';
import type { PublishedState } from '../../src/upstream/shared-states.ts';

/** A state of chain 4 at this version; its block has the same height. */
export function stateAt(version: bigint): PublishedState {
  const info = {
    chainId: 4,
    epoch: 1n,
    version: LedgerVersion.of(version),
    oldestVersion: LedgerVersion.of(0n),
    timestampUsec: 0n,
    blockHeight: version,
    oldestBlockHeight: 0n,
  };
  return { info, asOfMs: 0, body: Buffer.alloc(0), upstream: 'full-0' };
}
