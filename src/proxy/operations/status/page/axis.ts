/**
 * Retention windows of nodes and reads of the latest state, on one axis of versions. Such reads are within a thousand
 * versions of the head, while archives go back to 0. So the axis is the distance from the head: linear for the first
 * thousand versions, logarithmic from there on.
 */
import type { NodeFacts, StatusFacts, WindowFacts } from '../present.ts';
import { html, type Markup } from './html.ts';
import { duration, grouped, short } from '../format.ts';
import { nodeState } from '../states.ts';

/** Heights in pixels; widths are percentages of the page. */
const traffic = 76;
const rowHeight = 34;
const barHeight = 12;
const foot = 40;
/** Rows of nodes; the table has all. */
const mostRows = 12;
/** Characters of a name, which has half a phone's width. */
const longestName = 28;

/** The picture of retention windows and reads, with its legend; `shown`: the nodes of the page's view, in its order. */
export function axisSection(facts: StatusFacts, shown: readonly NodeFacts[]): Markup {
  const { ledger, windows } = facts;
  const nodes = shown.slice(0, mostRows);
  const known = facts.nodes.filter(({ head }) => head !== undefined);
  if (ledger.head === undefined || known.length === 0)
    return html`<p class="none">No node has reported its window yet.</p>`;
  const head = BigInt(ledger.head);
  const oldest = known.map((node) => BigInt(node.oldest ?? head));
  const deepest = oldest.reduce((found, other) => (other < found ? other : found), head);
  const axis = axisTo(Number(head - deepest));
  const distances = distancesOf(facts);
  const bottom = traffic + nodes.length * rowHeight + 6;
  return html`<svg
      class="axis"
      role="img"
      aria-labelledby="axis-name axis-words"
      width="100%"
      height="${bottom + foot}"
    >
      <title id="axis-name">
        Retention windows of the nodes and reads of the latest state, by versions behind the head
      </title>
      <desc id="axis-words">${nodes.map((node) => nodeText(node)).join(' ')} ${readWords(distances)}</desc>
      ${ticks(axis, ledger.versionsPerSecond, bottom)} ${readBars(axis, distances)}
      ${nodes.map((node, index) => nodeRow(node, axis, head, traffic + index * rowHeight))}
      <text class="tick" x="0" y="${bottom + 32}">version ${grouped(deepest.toString())}</text>
      <text class="tick end" x="100%" y="${bottom + 32}">head ${grouped(ledger.head)}</text>
    </svg>
    ${shown.length > mostRows ? html`<p class="more">The first ${mostRows} of ${shown.length} nodes, in the order of the table.</p>` : undefined}
    <p class="legend">
      <span class="key reads"></span>reads of the latest state in the last ${windows[1]?.seconds ?? 100} s, by the
      version that they were answered from
      <span class="more"
        >Height: square root of their number. Axis: versions behind the head, by powers of ten beyond the first
        thousand.</span
      >
    </p>`;
}

/** Versions behind the head up to which the axis is linear and reads are one bar. */
const near = 1_000;

type Axis = ReturnType<typeof axisTo>;

function axisTo(distance: number) {
  const farthest = Math.max(distance, 10 * near);
  const scaled = (distance: number): number => Math.log10(1 + Math.min(Math.max(distance, 0), farthest) / near);
  const widest = scaled(farthest);
  /** The position of a distance from the head, in percent from the left. */
  const at = (distance: number): number => Math.round((1 - scaled(distance) / widest) * 10_000) / 100;
  return { farthest, at };
}

function ticks(axis: Axis, speed: number, bottom: number): readonly Markup[] {
  const marks: Markup[] = [];
  for (let power = 3; 10 ** power < axis.farthest; power += 1) {
    const distance = 10 ** power;
    const x = axis.at(distance);
    const isNamed = x > 6 && (power === 4 || power === 6 || power === 8);
    marks.push(html`<line class="${isNamed ? 'grid major' : 'grid'}" x1="${x}%" x2="${x}%" y1="8" y2="${bottom}" />`);
    if (!isNamed) continue;
    const [count, unit] = speed > 0 ? duration(distance / speed).split(' ') : [];
    const ago = count === undefined ? '' : ` · ${count} ${unit}`;
    marks.push(html`<text class="tick middle" x="${x}%" y="${bottom + 15}">−${short(distance)}${ago}</text>`);
  }
  return [...marks, html`<line class="base" x1="0" x2="100%" y1="${bottom}" y2="${bottom}" />`];
}

type Distances = WindowFacts['distances'];

/** Reads by distance from the head, those within the linear part as one. */
function distancesOf({ windows }: StatusFacts): Distances {
  const distances = windows[1]?.distances ?? [];
  const far = distances.filter(({ from }) => from > near);
  const reads = sumOf(distances) - sumOf(far);
  return reads === 0 ? far : [{ from: 0, to: near + 1, reads }, ...far];
}

function sumOf(distances: Distances): number {
  return distances.reduce((sum, { reads }) => sum + reads, 0);
}

function readBars(axis: Axis, distances: Distances): readonly Markup[] {
  const highest = Math.max(...distances.map(({ reads }) => reads), 1);
  const ground = traffic - 10;
  return [
    html`<line class="base" x1="0" x2="100%" y1="${ground}" y2="${ground}" />`,
    ...distances.flatMap(({ from, to, reads }) => {
      if (from > axis.farthest) return [];
      const [left, right] = [axis.at(to ?? axis.farthest), axis.at(from)];
      const width = Math.max(0.4, right - left - 0.15);
      const height = Math.max(2, Math.sqrt(reads / highest) * (ground - 10));
      const words = to === undefined ? `${from} and more` : `${from} to ${to - 1}`;
      return [
        html`<rect
          class="reads"
          x="${left}%"
          width="${width.toFixed(2)}%"
          y="${(ground - height).toFixed(1)}"
          height="${height.toFixed(1)}"
          ><title>Reads ${words} versions back: ${reads}</title></rect
        >`,
      ];
    }),
  ];
}

function nodeRow(node: NodeFacts, axis: Axis, head: bigint, top: number): Markup {
  const { name, oldest, head: newest } = node;
  const { sign, word, tone } = nodeState(node);
  const y = top + 18;
  const label = html`<text class="label" x="0" y="${top + 13}"
    ><title>${name}</title><tspan class="${tone}">${sign}</tspan> ${cut(name)}
    <tspan class="more">${word === 'usable' ? '' : word.replace(/:.*/, '')}</tspan></text
  >`;
  if (oldest === undefined || newest === undefined) {
    return html`${label}<text class="label end more" x="100%" y="${top + 13}">reports nothing</text
      ><rect class="track" x="0" width="100%" y="${y}" height="${barHeight}" rx="2" />`;
  }
  const [left, right] = [axis.at(Number(head - BigInt(oldest))), axis.at(Number(head - BigInt(newest)))];
  const width = Math.max(0.5, right - left).toFixed(2);
  return html`${label}<text class="label end more" x="100%" y="${top + 13}"
      >${short(Number(BigInt(newest) - BigInt(oldest)))} versions</text
    >
    <rect class="track" x="0" width="100%" y="${y}" height="${barHeight}" rx="2" /><rect
      class="window ${tone}"
      x="${Math.min(left, 99.5)}%"
      width="${width}%"
      y="${y}"
      height="${barHeight}"
      rx="2"
    />`;
}

function cut(name: string): string {
  return name.length > longestName ? `${name.slice(0, longestName - 1)}…` : name;
}

function nodeText(node: NodeFacts): string {
  const { name, oldest, head } = node;
  const { word } = nodeState(node);
  return oldest === undefined ? `${name}, ${word}, reports nothing.` : `${name}, ${word}, holds ${oldest} to ${head}.`;
}

function readWords(distances: Distances): string {
  const recent = sumOf(distances.filter(({ from }) => from === 0));
  return distances.length === 0
    ? 'The latest state is not read.'
    : `${recent} of ${sumOf(distances)} reads of the latest state were within a thousand versions of the head.`;
}
