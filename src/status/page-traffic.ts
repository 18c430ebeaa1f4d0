/** Rates, hit shares and times: by window, by where answers came from, by class of request. */
import type { Outcome, RouteName } from '../metrics/http-metrics.ts';
import type { StatusFacts, WindowFacts } from './facts.ts';
import { html, type Markup, type Piece } from './html.ts';
import { milliseconds, percent, perSecond } from './words.ts';

export function windowSection({ windows }: StatusFacts): Markup {
  const rows = windows.map((window) => [
    `${window.seconds >= 1_000 ? '1000' : window.seconds} s`,
    perSecond(window.requestsPerSecond),
    shareCell(window.hitShare),
    milliseconds(window.p50Ms),
    milliseconds(window.p99Ms),
  ]);
  return table('Requests, hit share and times by window', ['Last', 'Requests', 'Hit share', 'p50', 'p99'], rows);
}

const outcomeWords: Readonly<Record<Outcome, string>> = {
  memory: 'memory',
  redis: 'Redis',
  collapsed: "another client's read",
  miss: 'a node',
  passed: 'a node, passed on',
  local: 'made here',
  refused: 'refused: 4xx',
  failed: 'failed: 5xx',
};

export function outcomeSection(facts: StatusFacts): Markup {
  const window = middle(facts);
  const all = window?.requests ?? 0;
  const rows = (window?.outcomes ?? []).map(({ outcome, requests, requestsPerSecond, p50Ms, p99Ms }) => [
    outcomeWords[outcome],
    perSecond(requestsPerSecond),
    shareCell(all === 0 ? undefined : requests / all),
    milliseconds(p50Ms),
    milliseconds(p99Ms),
  ]);
  return table('Times by where answers came from, last 100 s', ['From', 'Requests', 'Share', 'p50', 'p99'], rows);
}

const routeWords: Readonly<Record<RouteName, string>> = {
  resource: 'resource',
  module: 'module',
  view: 'view',
  transaction_by_hash: 'transaction by hash',
  wait_by_hash: 'wait by hash',
  encode_submission: 'encode submission',
  submit: 'submit',
  ledger_info: 'ledger info',
  pass_through: 'passed through',
  none: 'no such request',
};

export function routeSection(facts: StatusFacts): Markup {
  const rows = (middle(facts)?.routes ?? []).map(({ route, requestsPerSecond, hitShare, p50Ms, p99Ms }) => [
    routeWords[route],
    perSecond(requestsPerSecond),
    shareCell(hitShare),
    milliseconds(p50Ms),
    milliseconds(p99Ms),
  ]);
  return table('Classes of requests, last 100 s', ['Class', 'Requests', 'Hit share', 'p50', 'p99'], rows);
}

/** What happens now, with enough requests for a quantile. */
function middle({ windows }: StatusFacts): WindowFacts | undefined {
  return windows[1];
}

/** A table whose first column names its rows. */
export function table(caption: string, columns: readonly string[], rows: readonly (readonly Piece[])[]): Markup {
  return html`<table><caption>${caption}</caption>
<thead><tr>${columns.map((name, index) => html`<th scope="col"${index === 0 ? undefined : html` class="number"`}>${name}</th>`)}</tr></thead>
<tbody>${rows.length === 0 ? html`<tr><td colspan="${columns.length}" class="none">nothing yet</td></tr>` : rows.map(([name, ...cells]) => html`<tr><th scope="row">${name}</th>${cells.map((cell) => html`<td class="number">${cell}</td>`)}</tr>`)}</tbody>
</table>`;
}

function shareCell(share: number | undefined): Markup {
  return html`${meter(share ?? 0)} ${percent(share)}`;
}

/** A bar beside a number that says the same. */
export function meter(share: number): Markup {
  const width = Math.round(Math.min(1, share) * 1_000) / 10;
  return html`<svg class="meter" aria-hidden="true" width="48" height="8"><rect class="track" width="100%" height="8" rx="2"/><rect class="fill" width="${width}%" height="8" rx="2"/></svg>`;
}
