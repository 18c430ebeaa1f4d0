/** Rates, shares and times: by window, by source of the answer, by class of request, by replica. */
import type { Outcome } from '../../../../metrics/http-metrics.ts';
import type { StatusFacts, WindowFacts } from '../present.ts';
import { html, type Markup, type Piece } from './html.ts';
import { inMs, percent, perSecond, short } from '../format.ts';

/** Requests, the share without a node, hit share and times by window. */
export function windowSection({ windows }: StatusFacts): Markup {
  const rows = windows.map((window) => [
    `${window.seconds} s`,
    perSecond(window.requestsPerSecond),
    shareCell(window.withoutNodeShare),
    percent(window.hitShare),
    inMs(window.p50Ms),
    inMs(window.p99Ms),
  ]);
  return table('By window', ['Last', 'Requests', 'No node', 'Hits', 'p50 ms', 'p99 ms'], rows);
}

const outcomeWords: Readonly<Record<Outcome, string>> = {
  memory: 'memory',
  store: 'the store',
  redis: 'Redis',
  collapsed: 'shared read',
  miss: 'a node',
  passed: 'passed on',
  local: 'made here',
  refused: 'refused (4xx)',
  failed: 'failed (5xx)',
};

/** Requests of the last 100 s by source of the answer. */
export function outcomeSection(facts: StatusFacts): Markup {
  const { requests: all = 0, outcomes = [] } = middle(facts) ?? {};
  const rows = outcomes.map(({ outcome, requests, requestsPerSecond, p50Ms, p99Ms }) => [
    outcomeWords[outcome],
    perSecond(requestsPerSecond),
    shareCell(all === 0 ? undefined : requests / all),
    inMs(p50Ms),
    inMs(p99Ms),
  ]);
  return table('Last 100 s', ['From', 'Requests', 'Share', 'p50 ms', 'p99 ms'], rows);
}

/** Requests of the last 100 s by class, those that need nodes most first. */
export function routeSection(facts: StatusFacts): Markup {
  const rows = (middle(facts)?.routes ?? []).map((of) => [
    of.route.replaceAll('_', ' '),
    perSecond(of.requestsPerSecond),
    perSecond(of.toNodesPerSecond),
    shareCell(of.withoutNodeShare),
    inMs(of.p50Ms),
    inMs(of.p99Ms),
  ]);
  const columns = ['Class', 'Requests', 'To nodes', 'No node', 'p50 ms', 'p99 ms'];
  return table('Last 100 s, most requests to nodes first', columns, rows);
}

/** A row for each replica below the sum of all; present whenever Redis is configured, so that the page's script finds it. */
export function replicaSection({ replicas }: StatusFacts): Markup {
  if (replicas === undefined) return html`<p class="none">Redis gives no answer: this page is of one replica.</p>`;
  const rows = [replicas.all, ...replicas.each].map((facts) => [
    facts.isReady ? facts.name : `${facts.name} (not ready)`,
    perSecond(facts.requestsPerSecond),
    perSecond(facts.toNodesPerSecond),
    percent(facts.hitShare),
    inMs(facts.p99Ms),
    short(facts.connections),
  ]);
  const columns = ['Replica', 'Requests', 'To nodes', 'Hits', 'p99 ms', 'Connections'];
  return table('Last 100 s, as each has reported in Redis; p99: the largest', columns, rows);
}

/** The window with current traffic and enough requests for a quantile. */
function middle({ windows }: StatusFacts): WindowFacts | undefined {
  return windows[1];
}

/** A table whose first column names its rows. */
export function table(caption: string, columns: readonly string[], rows: readonly (readonly Piece[])[]): Markup {
  return html`<table>
    <caption>
      ${caption}
    </caption>
    <thead>
      <tr>
        ${columns.map((name, index) => html`<th scope="col" ${index === 0 ? undefined : html` class="number"`}>${name}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${
        rows.length === 0
          ? html`<tr>
              <td colspan="${columns.length}" class="none">nothing yet</td>
            </tr>`
          : rows.map(
              ([name, ...cells]) =>
                html`<tr>
                  <th scope="row">${name}</th>
                  ${cells.map((cell) => html`<td class="number">${cell}</td>`)}
                </tr>`,
            )
      }
    </tbody>
  </table>`;
}

function shareCell(share: number | undefined): Markup {
  return html`${share === undefined ? undefined : meter(share)}<span class="share">${percent(share)}</span>`;
}

/** A bar beside the number that it repeats. */
export function meter(share: number): Markup {
  const width = Math.round(Math.min(1, share) * 1_000) / 10;
  return html`<svg class="meter" aria-hidden="true" width="28" height="8">
    <rect class="track" width="100%" height="8" rx="2" />
    <rect class="fill" width="${width}%" height="8" rx="2" />
  </svg>`;
}
