/** The nodes as a table, coloured by state; colour is never the only sign. */
import type { NodeFacts, StatusFacts } from '../present.ts';
import { html, type Markup } from './html.ts';
import { grouped, milliseconds, perSecond, short } from '../format.ts';
import { ejectedClasses, nodeState, unusableFor } from '../wording.ts';
import { addressOf, columns, directionOf, sortedBy, type Column, type TableView } from './table-view.ts';

/** Fewer nodes are seen at a glance. */
const leastFiltered = 6;

/**
 * The table of nodes. Its roles are explicit, because narrow screens show rows as cards, which drops implicit roles.
 * `shown`: the nodes of the view, in its order.
 */
export function fleetSection(facts: StatusFacts, shown: readonly NodeFacts[], view: TableView): Markup {
  const { nodes, workers, at } = facts;
  if (nodes.length === 0) return html`<p class="none">No process has reported its nodes yet.</p>`;
  return html`${nodes.length < leastFiltered ? undefined : filterForm(shown.length, nodes.length, view)}
    <table class="fleet" role="table" aria-labelledby="fleet-title">
      <thead role="rowgroup">
        <tr role="row">
          ${columns.map((column) => columnHead(column, view))}
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
  const order = sort === undefined ? undefined : `${isReversed ? '-' : ''}${sort}`;
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
      >${titles[column]}${direction === undefined ? undefined : html`<span aria-hidden="true"> ${arrows[direction]}</span>`}</a
    >
  </th>`;
}

const arrows = { ascending: '▴', descending: '▾' } as const;

const titles: Readonly<Record<Column, string>> = {
  node: 'Node',
  head: 'Head',
  oldest: 'Oldest',
  load: 'Load',
  answers: 'Answers',
  failures: 'Failures',
};

function row(node: NodeFacts, { at, workers }: { readonly at: string; readonly workers: number | undefined }): Markup {
  const { name, tier, head, lag, oldest, edgeSpeed, edgeMargin, inFlight, limit, failures } = node;
  const { word, sign, tone } = nodeState(node);
  const { usableBy = 0 } = node;
  const isSplit = workers !== undefined && usableBy > 0 && usableBy < workers;
  const since = unusableFor(node, at);
  return html`<tr role="row" class="${tone}">
    <th scope="row" role="rowheader">
      <span class="sign" aria-hidden="true">${sign}</span> <span class="name">${name}</span>
      <small
        ><span class="tone">${word}</span
        >${since === undefined ? '' : ` ${since}`}${isSplit ? ` to ${usableBy} of ${workers} workers` : ''},
        ${tier}</small
      >${ejectedOf(node)}
    </th>
    ${cell('Head', grouped(head), lag === undefined ? '–' : lag === '0' ? 'at the head' : `${short(Number(lag))} behind`)}
    ${cell('Oldest', grouped(oldest), edgeOf(edgeSpeed, edgeMargin))}
    ${cell('Load', `${inFlight} of ${limit}`, 'in flight')}
    ${cell('Answers', perSecond(node.requestsPerSecond), `p50 ${milliseconds(node.p50Ms)}, p99 ${milliseconds(node.p99Ms)}`)}
    ${cell('Failures', String(failures.last100s), `in 100 s, ${short(failures.total)} in all`)}
  </tr>`;
}

function cell(label: string, value: string, more: string): Markup {
  return html`<td role="cell" class="number" data-label="${label}">${value} <small>${more}</small></td>`;
}

function edgeOf(speed: number, margin: string | undefined): string {
  if (margin === undefined) return '–';
  if (speed === 0) return 'the edge stands still';
  return `moves ${perSecond(speed)}, margin ${short(Number(margin))}`;
}

function ejectedOf(node: NodeFacts): Markup | undefined {
  return node.ejected.length === 0 ? undefined : html`<small>for ${ejectedClasses(node).join(', ')}</small>`;
}
