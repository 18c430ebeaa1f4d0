/**
 * The nodes as a table, coloured by state; colour is never the only sign. The query of the page's address orders and
 * filters them: this works without scripts, as links do.
 */
import type { NodeFacts, StatusFacts } from '../present.ts';
import { html, type Markup } from './html.ts';
import { grouped, milliseconds, perSecond, short } from '../format.ts';
import { ejectedClasses, lagOf, nodeState, unusableFor } from '../states.ts';

/** A column of the table of nodes. */
interface ColumnRule {
  readonly title: string;
  /** Puts first the nodes that an operator looks for: the farthest behind, the deepest, the busiest. */
  readonly compare: (one: NodeFacts, other: NodeFacts) => number;
  readonly isLargestFirst?: boolean;
  /** Value and details of a cell; the first column has cells of its own. */
  readonly show?: (node: NodeFacts) => readonly [value: string, more: string];
}

const columns = {
  node: { title: 'Node', compare: (one, other) => (one.name < other.name ? -1 : 1) },
  head: {
    title: 'Head',
    compare: (one, other) => byVersion(one.head, other.head),
    show: (node) => [grouped(node.head), node.lag === undefined ? '–' : node.lag === '0' ? 'at the head' : lagOf(node)],
  },
  oldest: {
    title: 'Oldest',
    compare: (one, other) => byVersion(one.oldest, other.oldest),
    show: ({ oldest, edgeSpeed, edgeMargin }) => [grouped(oldest), edgeOf(edgeSpeed, edgeMargin)],
  },
  load: {
    title: 'Load',
    compare: (one, other) => other.inFlight - one.inFlight,
    isLargestFirst: true,
    show: ({ inFlight, limit }) => [`${inFlight} of ${limit}`, 'in flight'],
  },
  answers: {
    title: 'Answers',
    compare: (one, other) => other.requestsPerSecond - one.requestsPerSecond,
    isLargestFirst: true,
    show: ({ requestsPerSecond, p50Ms, p99Ms }) => [
      perSecond(requestsPerSecond),
      `p50 ${milliseconds(p50Ms)}, p99 ${milliseconds(p99Ms)}`,
    ],
  },
  failures: {
    title: 'Failures',
    compare: (one, other) => other.failures.last100s - one.failures.last100s,
    isLargestFirst: true,
    show: ({ failures }) => [String(failures.last100s), `in 100 s, ${short(failures.total)} in all`],
  },
} as const satisfies Readonly<Record<string, ColumnRule>>;

type Column = keyof typeof columns;
const columnNames = Object.keys(columns) as Column[];

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
    sort: columnNames.find((column) => column === asked.replace(/^-/, '')),
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
  const { compare } = columns[sort];
  return some.toSorted((one, other) => (isReversed ? compare(other, one) : compare(one, other)));
}

/** The direction of the column that the table is in the order of; `undefined` for the others. */
function directionOf(column: Column, { sort, isReversed }: TableView): 'ascending' | 'descending' | undefined {
  if (sort !== column) return undefined;
  const { isLargestFirst = false }: ColumnRule = columns[column];
  return isLargestFirst === isReversed ? 'ascending' : 'descending';
}

function searched(node: NodeFacts): string {
  return `${node.name} ${node.tier} ${nodeState(node).word}`.toLowerCase();
}

/** Lowest first; a node that reports nothing is ahead of all. */
function byVersion(one: string | undefined, other: string | undefined): number {
  const [left, right] = [BigInt(one ?? -1), BigInt(other ?? -1)];
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

/** Fewer nodes are seen at a glance. */
const leastFiltered = 6;

/** The nodes of the view. Explicit roles: narrow screens show rows as cards, which drops implicit ones. */
export function fleetSection(facts: StatusFacts, shown: readonly NodeFacts[], view: TableView): Markup {
  const { nodes, workers, at } = facts;
  if (nodes.length === 0) return html`<p class="none">No process has reported its nodes yet.</p>`;
  return html`${nodes.length < leastFiltered ? undefined : filterForm(shown.length, nodes.length, view)}
    <table class="fleet${nodes.length < leastFiltered ? '' : ' many'}" role="table" aria-labelledby="fleet-title">
      <thead role="rowgroup">
        <tr role="row">
          ${columnNames.map((column) => columnHead(column, view))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        ${shown.slice(0, view.most).map((node) => row(node, { at, workers: workers?.answering }))}
      </tbody>
    </table>
    ${shown.length === 0 ? html`<p class="none">No node matches the filter.</p>` : undefined}
    ${shown.length > view.most ? html`<p><a href="${addressOf({ ...view, most: Infinity })}">Show all ${shown.length} nodes</a></p>` : undefined}`;
}

function filterForm(shown: number, all: number, { sort, isReversed, filter }: TableView): Markup {
  const order = sort && `${isReversed ? '-' : ''}${sort}`;
  return html`<form class="filter" action="status" role="search">
    <label>Filter <input type="search" name="filter" value="${filter}" placeholder="name, tier or state" /></label>
    ${order === undefined ? undefined : html`<input type="hidden" name="sort" value="${order}" />`}
    <span role="status">${shown} of ${all} nodes</span>
  </form>`;
}

function columnHead(column: Column, view: TableView): Markup {
  const direction = directionOf(column, view);
  return html`<th
    scope="col"
    role="columnheader"
    ${column === 'node' ? undefined : html` class="number"`}
    ${direction === undefined ? undefined : html` aria-sort="${direction}"`}
  >
    <a href="${sortedBy(column, view)}"
      >${columns[column].title}${direction === undefined ? undefined : html`<span aria-hidden="true"> ${arrows[direction]}</span>`}</a
    >
  </th>`;
}

const arrows = { ascending: '▴', descending: '▾' } as const;

function row(node: NodeFacts, { at, workers }: { readonly at: string; readonly workers: number | undefined }): Markup {
  const { word, sign, tone } = nodeState(node);
  const { name, tier, usableBy = 0 } = node;
  const isSplit = workers !== undefined && usableBy > 0 && usableBy < workers;
  const since = unusableFor(node, at);
  const ejected = ejectedClasses(node).join(', ');
  return html`<tr role="row" class="${tone}">
    <th scope="row" role="rowheader">
      <span class="sign" aria-hidden="true">${sign}</span> <span class="name">${name}</span>
      <small
        ><span class="tone">${word}</span
        >${since === undefined ? '' : ` ${since}`}${isSplit ? ` to ${usableBy} of ${workers} workers` : ''},
        ${tier}</small
      >${ejected === '' ? undefined : html`<small>for ${ejected}</small>`}
    </th>
    ${columnNames.map((column) => cell(columns[column], node))}
  </tr>`;
}

function cell({ title, show }: ColumnRule, node: NodeFacts): Markup | undefined {
  if (show === undefined) return undefined;
  const [value, more] = show(node);
  return html`<td role="cell" class="number" data-label="${title}">${value} <small>${more}</small></td>`;
}

function edgeOf(speed: number, margin: string | undefined): string {
  if (margin === undefined) return '–';
  if (speed === 0) return 'the edge stands still';
  return `moves ${perSecond(speed)}, margin ${short(Number(margin))}`;
}
