/** Snapshots of a node's ledger, made up for tests. */
import { Dialect, type LedgerInfo } from '../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';

export interface MadeUpLedger {
  readonly version: bigint;
  readonly oldest?: bigint;
  readonly chainId?: number;
  readonly timestampUsec?: bigint;
}

/** A coherent snapshot: ten versions a block, one microsecond a version. */
export function ledgerInfo({ version, oldest = 0n, chainId = 4, timestampUsec = version }: MadeUpLedger): LedgerInfo {
  return {
    chainId,
    version: LedgerVersion.of(version),
    oldestVersion: LedgerVersion.of(oldest),
    timestampUsec,
    epoch: 7n,
    blockHeight: version / 10n,
    oldestBlockHeight: oldest / 10n,
  };
}

/** The seven headers of such a snapshot in the specified names, for faults that replace a sample node's answer. */
export function ledgerHeaders(ledger: MadeUpLedger): Record<string, string> {
  const list = new Dialect('node').list(ledgerInfo(ledger));
  return Object.fromEntries(list.flatMap((name, at) => (at % 2 === 0 ? [[name, list[at + 1] ?? '']] : [])));
}
