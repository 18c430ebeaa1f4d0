/** The view of the fleet that answers are made from: one immutable object, replaced when the fleet changes. */
import { ledgerHeaderList, type Dialect, type LedgerInfo } from '../ledger/ledger-headers.ts';

/** The facts that a view is made of. */
export interface FleetFacts {
  /** Increases when data read before must be dropped: the same version may have another state. */
  readonly generation: number;
  /** The chain of the fleet; `undefined` before the first answer of a node. */
  readonly chainId: number | undefined;
  /** The newest believed snapshot. */
  readonly head: LedgerInfo | undefined;
  /** The snapshot of the node that reaches furthest back. */
  readonly oldest: LedgerInfo | undefined;
  /** Start of an outage, in ms since the epoch; `undefined`: a node can be asked, or none ever could. */
  readonly outageSinceMs: number | undefined;
}

/** All that an answer from memory needs of the fleet. */
export interface FleetView extends FleetFacts {
  /** The seven ledger headers, names and values in turn; empty before the first answer of a node. */
  readonly headers: readonly string[];
  /** Answers report nothing but the headers: there is no outage. */
  readonly isPlain: boolean;
}

/** The view of these facts: `before`, the same object, where they change nothing, as most answers of nodes do. */
export function viewOf(facts: FleetFacts, before: FleetView | undefined, dialect: Dialect): FleetView {
  const { generation, chainId, head, oldest = head, outageSinceMs } = facts;
  const isSame =
    before?.head === head &&
    before?.generation === generation &&
    before.chainId === chainId &&
    before.outageSinceMs === outageSinceMs &&
    before.oldest?.oldestVersion === oldest?.oldestVersion &&
    before.oldest?.oldestBlockHeight === oldest?.oldestBlockHeight;
  if (isSame) return before;
  const headers = head === undefined || oldest === undefined ? [] : headersOf(head, oldest, dialect);
  return { generation, chainId, head, oldest, outageSinceMs, headers, isPlain: outageSinceMs === undefined };
}

function headersOf(head: LedgerInfo, { oldestVersion, oldestBlockHeight }: LedgerInfo, dialect: Dialect) {
  return ledgerHeaderList({ ...head, oldestVersion, oldestBlockHeight }, dialect);
}
