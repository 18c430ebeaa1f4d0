/** The nodes as a table, coloured by state; colour is never the only sign. */
import type { NodeFacts, StatusFacts } from '../present.ts';
import { html, type Markup } from './html.ts';
import { grouped, milliseconds, perSecond, short } from '../format.ts';
import { ejectedClasses, nodeState } from '../wording.ts';

const columns = ['Node', 'Head', 'Oldest', 'Load', 'Answers', 'Failures'] as const;

/** The table of nodes. Its roles are explicit, because narrow screens show rows as cards, which drops implicit roles. */
export function fleetSection({ nodes, workers }: StatusFacts): Markup {
  if (nodes.length === 0) return html`<p class="none">No process has reported its nodes yet.</p>`;
  return html`<table class="fleet" role="table" aria-labelledby="fleet-title">
    <thead role="rowgroup">
      <tr role="row">
        ${columns.map((name, index) => html`<th scope="col" role="columnheader" ${index === 0 ? undefined : html` class="number"`}>${name}</th>`)}
      </tr>
    </thead>
    <tbody role="rowgroup">
      ${nodes.map((node) => row(node, workers?.answering))}
    </tbody>
  </table>`;
}

function row(node: NodeFacts, workers: number | undefined): Markup {
  const { name, tier, head, lag, oldest, edgeSpeed, edgeMargin, inFlight, limit, failures } = node;
  const { word, sign, tone } = nodeState(node);
  const isSplit = workers !== undefined && node.usableBy !== undefined && node.usableBy < workers;
  return html`<tr role="row" class="${tone}">
    <th scope="row" role="rowheader">
      <span class="sign" aria-hidden="true">${sign}</span> <span class="name">${name}</span>
      <small
        ><span class="tone">${word}</span>${isSplit ? ` to ${node.usableBy} of ${workers} workers` : ''}, ${tier}</small
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
