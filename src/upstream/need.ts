import type { LedgerVersion } from '../ledger/version.ts';

/** What a request needs of a node. */
export type Need =
  /** The state at one version. */
  | { readonly kind: 'version'; readonly version: LedgerVersion }
  /** The block of one height: held by the same nodes as its versions. Windows are told in blocks then. */
  | { readonly kind: 'block'; readonly height: bigint }
  /**
   * The newest state, at or past `min`; submissions too go where the ledger is newest. `isExact`: nodes that are nearly
   * as fresh do not do, and heads are looked at anew.
   */
  | { readonly kind: 'head'; readonly min?: LedgerVersion | undefined; readonly isExact?: boolean }
  /** A transaction that any node may hold, the deepest most surely; `first` names the node that took its submission. */
  | { readonly kind: 'transaction'; readonly first?: string | undefined };

/** The version or block height that a node's window must hold for this need. */
export function positionOf(need: Need): bigint | undefined {
  if (need.kind === 'version') return need.version;
  return need.kind === 'block' ? need.height : undefined;
}
