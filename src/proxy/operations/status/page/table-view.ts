/** Order and filter of the nodes on the page, from the query of its address: they work without scripts, as links do. */
import type { NodeFacts } from '../present.ts';
import { nodeState } from '../wording.ts';

/** Columns of the table of nodes, in its order. */
export const columns = ['node', 'head', 'oldest', 'load', 'answers', 'failures'] as const;

/** A column of the table of nodes. */
export type Column = (typeof columns)[number];

/** The nodes that the page shows, and their order. */
export interface TableView {
  /** `undefined`: problems first, then the order of the config. */
  readonly sort: Column | undefined;
  readonly isReversed: boolean;
  /** A part of a node's name, tier or state in lower case; '' shows all nodes. */
  readonly filter: string;
  /** Rows of the table at most. */
  readonly most: number;
}

const longestFilter = 100;
/** More rows, which are mostly of nodes that are well, are one click away. */
const usualRows = 30;

/** The view that a query asks for (`sort=head`, `sort=-head`, `filter=eu`, `all=1`); unknown columns are none. */
export function tableViewOf(query: unknown): TableView {
  const { sort, filter, all } = query as Readonly<Record<string, unknown>>;
  const asked = typeof sort === 'string' ? sort : '';
  const text = typeof filter === 'string' ? filter : '';
  return {
    sort: columns.find((column) => column === asked.replace(/^-/, '')),
    isReversed: asked.startsWith('-'),
    filter: text.slice(0, longestFilter).trim().toLowerCase(),
    most: all === undefined ? usualRows : Infinity,
  };
}

/** The address of the page with the order of this column; a second time, reversed. */
export function sortedBy(column: Column, view: TableView): string {
  const isReversed = view.sort === column && !view.isReversed;
  return addressOf({ ...view, sort: column, isReversed });
}

/** The address of the page with this view. */
export function addressOf({ sort, isReversed, filter, most }: TableView): string {
  const query = new URLSearchParams();
  if (sort !== undefined) query.set('sort', `${isReversed ? '-' : ''}${sort}`);
  if (filter !== '') query.set('filter', filter);
  if (most === Infinity) query.set('all', '1');
  return `?${query.toString()}`;
}

/** The nodes of the view in its order. */
export function nodesOf(nodes: readonly NodeFacts[], { sort, isReversed, filter }: TableView): readonly NodeFacts[] {
  const some = filter === '' ? nodes : nodes.filter((node) => searched(node).includes(filter));
  if (sort === undefined) return some;
  const compare = orders[sort];
  return some.toSorted((one, other) => (isReversed ? compare(other, one) : compare(one, other)));
}

/** Columns whose first order begins with the largest value. */
const largestFirst: ReadonlySet<Column> = new Set(['load', 'answers', 'failures']);

/** The direction of the column that the table is in the order of; `undefined` for the others. */
export function directionOf(column: Column, { sort, isReversed }: TableView): 'ascending' | 'descending' | undefined {
  if (sort !== column) return undefined;
  return largestFirst.has(column) === isReversed ? 'ascending' : 'descending';
}

function searched(node: NodeFacts): string {
  return `${node.name} ${node.tier} ${nodeState(node).word}`.toLowerCase();
}

/** The first is what an operator looks for: the farthest behind, the deepest, the busiest. */
const orders: Readonly<Record<Column, (one: NodeFacts, other: NodeFacts) => number>> = {
  node: (one, other) => (one.name < other.name ? -1 : 1),
  head: (one, other) => byVersion(one.head, other.head),
  oldest: (one, other) => byVersion(one.oldest, other.oldest),
  load: (one, other) => other.inFlight - one.inFlight,
  answers: (one, other) => other.requestsPerSecond - one.requestsPerSecond,
  failures: (one, other) => other.failures.last100s - one.failures.last100s,
};

/** Lowest first; a node that reports nothing is ahead of all. */
function byVersion(one: string | undefined, other: string | undefined): number {
  const [left, right] = [BigInt(one ?? -1), BigInt(other ?? -1)];
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
