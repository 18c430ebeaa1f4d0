/** Rates, shares and times: by window, by source of the answer, by class of request; lines of the last 15 minutes. */
import type { Outcome } from '../../../../metrics/index.ts';
import type { StatusFacts, WindowFacts } from '../present.ts';
import { type Column, html, meter, table, type Markup } from './html.ts';
import { clock, inMs, milliseconds, percent, perSecond } from '../format.ts';

const requests: Column<Pick<WindowFacts, 'requestsPerSecond'>> = [
  'Requests',
  (row) => perSecond(row.requestsPerSecond),
];
const noNode: Column<Pick<WindowFacts, 'withoutNodeShare'>> = ['No node', (row) => shareCell(row.withoutNodeShare)];
const failed: Column<Pick<WindowFacts, 'failedShare'>> = ['5xx', (row) => percent(row.failedShare)];
const times: readonly Column<Pick<WindowFacts, 'p50Ms' | 'p99Ms'>>[] = [
  ['p50 ms', (row) => inMs(row.p50Ms)],
  ['p99 ms', (row) => inMs(row.p99Ms)],
];

/** Requests, the share without a node, hit share and times by window. */
export function windowSection({ windows }: StatusFacts): Markup {
  const last: Column<WindowFacts> = ['Last', ({ seconds }) => `${seconds} s`];
  const hits: Column<WindowFacts> = ['Hits', ({ hitShare }) => percent(hitShare)];
  return table('By window', [last, requests, noNode, hits, failed, ...times], windows);
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
  const from: Column<(typeof outcomes)[number]> = ['From', ({ outcome }) => outcomeWords[outcome]];
  const share: typeof from = ['Share', (row) => shareCell(all === 0 ? undefined : row.requests / all)];
  return table('Last 100 s', [from, requests, share, ...times], outcomes);
}

/** Requests of the last 100 s by class, those that need nodes most first. */
export function routeSection(facts: StatusFacts): Markup {
  const { routes = [] } = middle(facts) ?? {};
  const of: Column<(typeof routes)[number]> = ['Class', ({ route }) => route.replaceAll('_', ' ')];
  const toNodes: typeof of = ['To nodes', (row) => perSecond(row.toNodesPerSecond)];
  return table('Last 100 s, most requests to nodes first', [of, requests, toNodes, noNode, failed, ...times], routes);
}

/** The window with current traffic and enough requests for a quantile. */
function middle({ windows }: StatusFacts): WindowFacts | undefined {
  return windows[1];
}

function shareCell(share: number | undefined): Markup {
  return html`${share === undefined ? undefined : meter(share)}<span class="share">${percent(share)}</span>`;
}

type Point = StatusFacts['trend'][number];

const height = 40;

/** One line. `most`: the top of the scale; absent: the largest value. */
interface Line {
  readonly name: string;
  readonly of: (point: Point) => number | undefined;
  readonly text: (value: number) => string;
  readonly most?: number;
}

const lines: readonly Line[] = [
  { name: 'Hits', of: ({ hitShare }) => hitShare, text: percent, most: 1 },
  { name: '5xx', of: ({ failedShare }) => failedShare, text: percent, most: 1 },
  { name: 'p99', of: ({ p99Ms }) => p99Ms, text: milliseconds },
  { name: 'Calls of nodes', of: ({ callsPerSecond }) => callsPerSecond, text: perSecond },
];

/** Shares of hits and 5xx, p99 and calls of nodes, one line each. */
export function trendSection({ trend }: StatusFacts): Markup {
  const [first, last] = [trend[0], trend.at(-1)];
  if (first === undefined || last === undefined || trend.length < 2)
    return html`<p class="none">The lines begin half a minute after the start.</p>`;
  return html`<div class="trends">${lines.map((line) => figureOf(line, trend))}</div>
    <p class="legend">From ${clock(first.at)} to ${clock(last.at)} UTC, a point for each 15 s.</p>`;
}

function figureOf({ name, of, text, most }: Line, trend: readonly Point[]): Markup {
  const values = trend.map(of);
  const known = values.filter((value) => value !== undefined);
  const [low, high, now] = [Math.min(...known), Math.max(...known), known.at(-1)];
  if (now === undefined)
    return html`<figure>
      <figcaption>${name} <span class="none">nothing yet</span></figcaption>
    </figure>`;
  const words = `${text(low)} to ${text(high)}`;
  return html`<figure>
    <figcaption>${name} <strong>${text(now)}</strong> <small>${words}</small></figcaption>
    <svg
      class="trend"
      role="img"
      aria-label="${name}: ${words}, now ${text(now)}"
      width="100%"
      height="${height}"
      viewBox="0 0 ${trend.length - 1} ${height}"
      preserveAspectRatio="none"
    >
      <path d="${pathOf(values, most ?? high)}" vector-effect="non-scaling-stroke" />
    </svg>
  </figure>`;
}

/** A step without a value interrupts the line. */
function pathOf(values: readonly (number | undefined)[], most: number): string {
  let isDrawing = false;
  return values
    .map((value, x) => {
      if (value === undefined) {
        isDrawing = false;
        return '';
      }
      const y = height - 2 - (most === 0 ? 0 : (value / most) * (height - 4));
      const command = isDrawing ? 'L' : 'M';
      isDrawing = true;
      return `${command}${x} ${y.toFixed(1)}`;
    })
    .join('');
}
