/** Lines of the last 15 minutes. */
import type { StatusFacts } from '../present.ts';
import { html, type Markup } from './html.ts';
import { clock, milliseconds, percent, perSecond } from '../format.ts';

type Point = StatusFacts['trend'][number];

const height = 40;

/** One line: its name, its values, and their text. */
interface Line {
  readonly name: string;
  readonly of: (point: Point) => number | undefined;
  readonly text: (value: number) => string;
  /** The top of the scale; absent: the largest value. */
  readonly most?: number;
}

const lines: readonly Line[] = [
  { name: 'Hits', of: ({ hitShare }) => hitShare, text: percent, most: 1 },
  { name: 'p99', of: ({ p99Ms }) => p99Ms, text: milliseconds },
  { name: 'Calls of nodes', of: ({ callsPerSecond }) => callsPerSecond, text: perSecond },
];

/** Hit share, p99 and calls of nodes, one line each. */
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
