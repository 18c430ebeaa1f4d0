/**
 * The traffic of clients, by route: the one place of its shares. The simulation (docs/scaling.md) and the mix of
 * `bench/` both draw from this table. No provider publishes shares for this interface; the table is an estimate from the
 * call sites of SDKs, explorers and indexers, and from a sister chain's published counts.
 */

/** Names of the routes, as in `src/sample/routes.ts` where a sample node has the route under one name. */
export type Route =
  | 'view'
  | 'ledgerInfo'
  | 'blockByHeight'
  | 'blockWithTransactions'
  | 'byVersion'
  | 'transactions'
  | 'auxiliaryInfo'
  | 'byHash'
  | 'waitByHash'
  | 'resource'
  | 'balance'
  | 'tableItem'
  | 'account'
  | 'module'
  | 'resources'
  | 'modules'
  | 'events'
  | 'accountTransactions'
  | 'estimateGasPrice'
  | 'submit'
  | 'simulate'
  | 'other';

/** The part of the ledger that a request reads, which decides how many requests can share one answer. */
export type Subjects =
  /**
   * State at a version. `of`: distinct items that are read; `pinned`: share that names a version; `deep`: share that
   * names one below every full node's window.
   */
  | { readonly kind: 'state'; readonly of: number; readonly pinned: number; readonly deep: number }
  /** Parts of committed blocks: so many of each block are read, the rest are nobody's concern. */
  | { readonly kind: 'history'; readonly perBlock: number }
  /**
   * A committed transaction, shortly after its commit. `own`: share that asks for the transaction which the client has
   * just submitted, and which nobody else asks for meanwhile.
   */
  | { readonly kind: 'hash'; readonly own: number }
  /** One answer for all clients, that holds for so many milliseconds. */
  | { readonly kind: 'shared'; readonly forMs: number }
  /** Ledger info: answered by the gateway itself. */
  | { readonly kind: 'local' }
  /** A write. Its client reads the latest state with its own effect afterwards (docs/consistency.md). */
  | { readonly kind: 'submit' }
  /** A call of a node each. */
  | { readonly kind: 'passed' };

/** One route's part of the traffic. */
export interface RequestShape {
  readonly route: Route;
  /** Of all requests. */
  readonly share: number;
  readonly subjects: Subjects;
  /** Bytes of an answer; state with several sizes states them in `Traffic.types`. */
  readonly bytes: number;
}

const million = 1_000_000;

/** Items of which each account has one. Most clients name no version, explorers name one. */
const ofAccounts: Subjects = { kind: 'state', of: million, pinned: 0.1, deep: 0 };
/** Calls of view functions: reserves, prices and settings are the same call for all clients, balances are not. */
const calls: Subjects = { kind: 'state', of: 100_000, pinned: 0.1, deep: 0 };
/** Modules that applications are built of. */
const code: Subjects = { kind: 'state', of: 2_000, pinned: 0.1, deep: 0 };

/** The table. The shares add up to 1. */
export const requestShapes: readonly RequestShape[] = [
  { route: 'view', share: 0.48, subjects: calls, bytes: 120 },
  { route: 'ledgerInfo', share: 0.1, subjects: { kind: 'local' }, bytes: 260 },

  // Blocks and lists of transactions: 12 %.
  { route: 'blockByHeight', share: 0.05, subjects: { kind: 'history', perBlock: 1 }, bytes: 240 },
  { route: 'blockWithTransactions', share: 0.02, subjects: { kind: 'history', perBlock: 1 }, bytes: 12_000 },
  { route: 'transactions', share: 0.025, subjects: { kind: 'history', perBlock: 1 }, bytes: 15_000 },
  { route: 'byVersion', share: 0.02, subjects: { kind: 'history', perBlock: 2 }, bytes: 600 },
  { route: 'auxiliaryInfo', share: 0.005, subjects: { kind: 'history', perBlock: 1 }, bytes: 850 },

  { route: 'byHash', share: 0.045, subjects: { kind: 'hash', own: 0.2 }, bytes: 1_500 },
  { route: 'waitByHash', share: 0.025, subjects: { kind: 'hash', own: 0.8 }, bytes: 1_500 },

  { route: 'resource', share: 0.05, subjects: { kind: 'state', of: million, pinned: 0.2, deep: 0.1 }, bytes: 400 },
  { route: 'balance', share: 0.035, subjects: ofAccounts, bytes: 20 },
  { route: 'tableItem', share: 0.03, subjects: ofAccounts, bytes: 130 },
  { route: 'account', share: 0.02, subjects: ofAccounts, bytes: 110 },
  { route: 'module', share: 0.01, subjects: code, bytes: 12_000 },

  // Writes, short shares and all the rest: 8.5 %.
  { route: 'submit', share: 0.02, subjects: { kind: 'submit' }, bytes: 600 },
  { route: 'simulate', share: 0.02, subjects: { kind: 'passed' }, bytes: 900 },
  { route: 'estimateGasPrice', share: 0.015, subjects: { kind: 'shared', forMs: 1_000 }, bytes: 90 },
  { route: 'events', share: 0.01, subjects: { kind: 'history', perBlock: 20 }, bytes: 5_000 },
  { route: 'resources', share: 0.008, subjects: ofAccounts, bytes: 3_000 },
  { route: 'accountTransactions', share: 0.007, subjects: ofAccounts, bytes: 15_000 },
  { route: 'modules', share: 0.002, subjects: ofAccounts, bytes: 3_000 },
  { route: 'other', share: 0.003, subjects: { kind: 'passed' }, bytes: 200 },
];

/** Share of all requests that read the newest state. */
export function latestShare(requests: readonly RequestShape[]): number {
  return sumOf(requests, ({ share, subjects }) => (subjects.kind === 'state' ? share * (1 - subjects.pinned) : 0));
}

/** Share of all requests that are writes. */
export function submitShare(requests: readonly RequestShape[]): number {
  return sumOf(requests, ({ share, subjects }) => (subjects.kind === 'submit' ? share : 0));
}

function sumOf(requests: readonly RequestShape[], of: (shape: RequestShape) => number): number {
  return requests.reduce((sum, shape) => sum + of(shape), 0);
}
