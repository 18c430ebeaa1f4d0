/**
 * The kinds of read that have a key, one row each. A new kind takes a row here, its comparison (proxy/reads:
 * asked-content.ts), a parser with its route (proxy/routes), and a test.
 */

interface Kind {
  /**
   * `state`: the subject and a version decide the answer; without a version it is a read of "latest". `history`: the
   * subject alone decides, which has the version where there is one.
   */
  readonly class: 'state' | 'history';
  /** The accounts that the answer depends on. `own`: the one whose address, with `/`, begins the subject. */
  readonly accounts: 'own' | 'any' | 'none';
  /**
   * Error code of a 404 that is final at a version which the node holds. The one of an account is not: a feature flag at
   * the node's head turns it into a 200 (protocol 1, row 5).
   */
  readonly notFound?: string;
  /** Answers have as many items as the request asks for, and therefore any size. */
  readonly isList?: true;
  /** Its JSON depends on flags or modules at the head of the node that answers (protocol 1, rows 5 and 6). */
  readonly jsonVaries?: true;
}

const table = {
  resource: { class: 'state', accounts: 'own', notFound: 'resource_not_found' },
  module: { class: 'state', accounts: 'own', notFound: 'module_not_found' },
  view: { class: 'state', accounts: 'any' },
  account: { class: 'state', accounts: 'own', jsonVaries: true },
  balance: { class: 'state', accounts: 'own' },
  modules: { class: 'state', accounts: 'own', isList: true },
  resources: { class: 'state', accounts: 'own', isList: true, jsonVaries: true },
  table_item: { class: 'state', accounts: 'any', notFound: 'table_item_not_found' },
  raw_table_item: { class: 'state', accounts: 'any', notFound: 'table_item_not_found' },
  transaction: { class: 'history', accounts: 'none' },
  by_version: { class: 'history', accounts: 'none' },
  transactions: { class: 'history', accounts: 'none', isList: true },
  auxiliary_info: { class: 'history', accounts: 'none', isList: true },
  block: { class: 'history', accounts: 'none', isList: true },
  block_by_version: { class: 'history', accounts: 'none' },
  events: { class: 'history', accounts: 'own' },
} satisfies Record<string, Kind>;

/** A kind of read that has a key. */
export type Operation = keyof typeof table;

/** The table of kinds. */
export const kinds: Readonly<Record<Operation, Kind>> = table;

/** Every kind, in the table's order. */
export const operations = Object.keys(table) as readonly Operation[];
