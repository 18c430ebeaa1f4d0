/** The view of the fleet that answers are made from: one immutable object, replaced when the fleet changes. */
import { ledgerHeaderList, type Dialect, type LedgerInfo } from '../ledger/ledger-headers.ts';

/** The facts behind a view. */
export interface FleetFacts {
  /** Increases when data read before must be dropped: the same version may have another state. */
  readonly generation: number;
  /** The chain of the fleet; `undefined` before the first answer of a node. */
  readonly chainId: number | undefined;
  /** The newest believed snapshot. */
  readonly head: LedgerInfo | undefined;
  /** The snapshot of the node that serves the oldest version. */
  readonly oldest: LedgerInfo | undefined;
  /** Start of an outage, in ms since the epoch; `undefined`: a node answers, or none ever did. */
  readonly outageSinceMs: number | undefined;
  /** See `LedgerWideHeaders`: the live headers for answers at `head`, names and values in turn. */
  readonly ledgerWide: readonly string[];
  /** Lower-case names of all headers that were ledger-wide at some time: no stored answer repeats them. */
  readonly ledgerWideNames: ReadonlySet<string>;
}

/** The facts that an answer from memory needs. */
export interface FleetView extends FleetFacts {
  /** The seven ledger headers and `ledgerWide`, names and values in turn; empty before the first answer of a node. */
  readonly headers: readonly string[];
  /** No outage: answers carry no header about one. */
  readonly isPlain: boolean;
}

/** The view of these facts; returns `before` itself when nothing has changed, as after most answers of nodes. */
export function viewOf(facts: FleetFacts, before: FleetView | undefined, dialect: Dialect): FleetView {
  const { generation, chainId, head, oldest = head, outageSinceMs, ledgerWide, ledgerWideNames } = facts;
  const isSame =
    before?.head === head &&
    before?.generation === generation &&
    before.chainId === chainId &&
    before.outageSinceMs === outageSinceMs &&
    before.ledgerWide === ledgerWide &&
    before.ledgerWideNames === ledgerWideNames &&
    before.oldest?.oldestVersion === oldest?.oldestVersion &&
    before.oldest?.oldestBlockHeight === oldest?.oldestBlockHeight;
  if (isSame) return before;
  const seven = head === undefined || oldest === undefined ? [] : headersOf(head, oldest, dialect);
  const headers = [...seven, ...ledgerWide];
  const isPlain = outageSinceMs === undefined;
  return { generation, chainId, head, oldest, outageSinceMs, ledgerWide, ledgerWideNames, headers, isPlain };
}

function headersOf(head: LedgerInfo, { oldestVersion, oldestBlockHeight }: LedgerInfo, dialect: Dialect) {
  return ledgerHeaderList({ ...head, oldestVersion, oldestBlockHeight }, dialect);
}
