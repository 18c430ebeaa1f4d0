/** Ledger states as reads of "latest" share them. */
import type { PublishedState } from '../../src/upstream/shared-states.ts';
import { ledgerInfo } from './ledger-info.ts';

/** A state of chain 4 at this version, at the beginning of time. */
export function stateAt(version: bigint): PublishedState {
  const info = ledgerInfo({ version, timestampUsec: 0n });
  return { info, asOfMs: 0, body: Buffer.alloc(0), upstream: 'full-0' };
}
