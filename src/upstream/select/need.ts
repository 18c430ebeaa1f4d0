/** Needs of requests, which decide the choice of the node. */
import type { LedgerVersion } from '../../ledger/version.ts';

/** The state that a node must hold to answer a request. */
export type Need =
  /** The state at one version. */
  | { readonly kind: 'version'; readonly version: LedgerVersion }
  /** The block of one height: held by the same nodes as its versions, so windows are compared in blocks. */
  | { readonly kind: 'block'; readonly height: bigint }
  /**
   * The newest state, at or past `min`; submissions need it too. `isExact`: only the freshest node serves, and a look at
   * every head precedes the choice.
   */
  | { readonly kind: 'head'; readonly min?: LedgerVersion | undefined; readonly isExact?: boolean }
  /** A transaction that any node may hold, the deepest most surely; `submittedTo`: name of the node that its submission went to. */
  | { readonly kind: 'transaction'; readonly submittedTo?: string | undefined };

/** The version or block height that a node's window must hold for this need. */
export function positionOf(need: Need): bigint | undefined {
  if (need.kind === 'version') return need.version;
  return need.kind === 'block' ? need.height : undefined;
}

/**
 * Kinds of reads with very different costs, so that each has statistics of its own. `head`: of recent state. `archive`:
 * of state that some full node has pruned. `view`: runs code that a client chose.
 */
export type ReadClass = 'head' | 'archive' | 'view';

/** Every `ReadClass`. */
export const readClasses: readonly ReadClass[] = ['head', 'archive', 'view'];
