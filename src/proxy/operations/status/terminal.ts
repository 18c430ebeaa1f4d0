/** The status as lines of text, for a terminal. */
import type { NodeFacts, StatusFacts, WindowFacts } from './present.ts';
import { bytes, clock, duration, grouped, milliseconds, perSecond, percent, short } from './format.ts';
import { levels, nodeState, stateTones, unusableFor, type NodeTone } from './states.ts';

interface TerminalOptions {
  /** Longer lines are cut. */
  readonly columns: number;
  readonly hasColours: boolean;
  /** Number of events to print. */
  readonly events: number;
}

const colours: Readonly<Record<NodeTone, string>> = { good: '32', warn: '33', bad: '31', idle: '2' };

/** Text, or text with the tone of its colour. */
type Cell = string | readonly [text: string, tone: NodeTone];

/** The lines of `ledgergate status`, without line ends. */
export function statusLines(facts: StatusFacts, options: TerminalOptions): readonly string[] {
  const { workers, state, ledger, cache, load, replicas } = facts;
  const workersText = workers === undefined ? '' : `, ${workers.answering} of ${workers.wanted} workers`;
  const mismatches = facts.encode.counts.find(({ what }) => what === 'mismatch')?.count.total ?? 0;
  const [storeText, redisText] = [facts.store, facts.redis].map(({ state, reason }) =>
    reason === undefined ? state : `${state}: ${reason}`,
  );
  const print = (cells: readonly Cell[]): string => line(cells, options);
  return [
    print([`Ledgergate ${facts.version}, up ${duration(facts.uptimeSeconds)}${workersText}, ${clock(facts.at)} UTC`]),
    print([[state.toUpperCase(), stateTones[state]], ` ${facts.summary}`]),
    ...facts.problems.map((problem) => print([`  - ${problem}`])),
    print([
      `head ${grouped(ledger.head)} (${perSecond(ledger.versionsPerSecond)}), oldest ${grouped(ledger.oldest)}, chain ${ledger.chainId ?? '–'}`,
    ]),
    '',
    ...table([nodeHead, ...facts.nodes.map((node) => nodeRow(node, facts.at))], 2).map(print),
    '',
    ...table([windowHead, ...facts.windows.map(windowRow)], 0).map(print),
    '',
    ...routeLines(facts.windows[1]).map(print),
    '',
    print([
      `memory ${bytes(cache.bytes)} of ${bytes(cache.maxBytes)}, ${short(cache.entries)} reads; store ${storeText}; Redis ${redisText}`,
    ]),
    ...(replicas === undefined || replicas.each.length < 2 ? [] : [print([replicasWords(replicas)])]),
    print([
      `${load.connections} connections, ${load.waiting} waiting for a node, event loop ${milliseconds(load.loopLagMs)} late`,
    ]),
    print([`encoded differently by a node: ${mismatches}; refused: ${refusedWords(facts)}`]),
    '',
    ...facts.events
      .slice(0, options.events)
      .map(({ at, level, text, workers: reporters }) =>
        print([
          `${clock(at)} `,
          [level === 'info' ? '·' : levels[level].sign, levels[level].tone],
          ` ${text}${reporters === undefined ? '' : ` (${reporters} workers)`}`,
        ]),
      ),
  ];
}

const nodeHead: readonly Cell[] = 'NODE STATE HEAD LAG OLDEST EDGE LOAD RATE P50 P99 FAILED'.split(' ');

function nodeRow(node: NodeFacts, at: string): readonly Cell[] {
  const { word, sign, tone } = nodeState(node);
  const since = unusableFor(node, at);
  const out = node.ejected.length === 0 ? '' : ` (${node.ejected.map(({ readClass }) => readClass).join(', ')})`;
  return [
    node.name,
    [`${sign} ${word}${since === undefined ? '' : ` ${since}`}${out}`, tone],
    grouped(node.head),
    node.lag === undefined ? '–' : `${node.lagSeconds} s`,
    grouped(node.oldest),
    perSecond(node.edgeSpeed),
    `${node.inFlight}/${node.limit}`,
    perSecond(node.requestsPerSecond),
    milliseconds(node.p50Ms),
    milliseconds(node.p99Ms),
    short(node.failures.last100s),
  ];
}

const windowHead: readonly Cell[] = ['LAST', 'RATE', 'NO NODE', 'HITS', '5XX', 'P50', 'P99'];

function windowRow(window: WindowFacts): readonly Cell[] {
  const { seconds, requestsPerSecond, withoutNodeShare, hitShare, failedShare, p50Ms, p99Ms } = window;
  const shares = [percent(withoutNodeShare), percent(hitShare), percent(failedShare)];
  return [`${seconds} s`, perSecond(requestsPerSecond), ...shares, milliseconds(p50Ms), milliseconds(p99Ms)];
}

const routeHead: readonly Cell[] = ['CLASS', 'RATE', 'TO NODES', 'NO NODE', 'P50', 'P99'];

function routeLines(window: WindowFacts | undefined): readonly (readonly Cell[])[] {
  if (window === undefined || window.routes.length === 0)
    return [[`no requests in the last ${window?.seconds ?? 0} s`]];
  return table([routeHead, ...window.routes.map(routeRow)], 1);
}

function routeRow(facts: WindowFacts['routes'][number]): readonly Cell[] {
  const { route, requestsPerSecond, toNodesPerSecond, withoutNodeShare, p50Ms, p99Ms } = facts;
  const rates = [perSecond(requestsPerSecond), perSecond(toNodesPerSecond)];
  return [route, ...rates, percent(withoutNodeShare), milliseconds(p50Ms), milliseconds(p99Ms)];
}

function replicasWords({ each, all }: NonNullable<StatusFacts['replicas']>): string {
  const { requestsPerSecond, toNodesPerSecond, hitShare } = all;
  return `all ${each.length} replicas: ${perSecond(requestsPerSecond)}, hits ${percent(hitShare)}, ${perSecond(toNodesPerSecond)} to nodes`;
}

function refusedWords({ refusals }: StatusFacts): string {
  const some = refusals.filter(({ count }) => count.total > 0);
  return some.length === 0 ? 'nothing' : some.map(({ reason, count }) => `${short(count.total)} ${reason}`).join(', ');
}

/** Columns two spaces apart: the first `leading` align left, the others right. */
function table(rows: readonly (readonly Cell[])[], leading: number): readonly (readonly Cell[])[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, textOf(cell).length);
  }
  return rows.map((row) =>
    row.map((cell, column): Cell => {
      const width = widths[column] ?? 0;
      const text = column < leading ? textOf(cell).padEnd(width) : textOf(cell).padStart(width);
      const apart = column === 0 ? text : `  ${text}`;
      return typeof cell === 'string' ? apart : [apart, cell[1]];
    }),
  );
}

function textOf(cell: Cell): string {
  return printable(typeof cell === 'string' ? cell : cell[0]);
}

/** One line, cut to the screen. Control characters from outside are replaced, so that they cannot drive the terminal. */
function line(cells: readonly Cell[], { columns, hasColours }: TerminalOptions): string {
  let left = columns;
  let out = '';
  for (const cell of cells) {
    const text = textOf(cell).slice(0, Math.max(0, left));
    left -= text.length;
    out +=
      typeof cell === 'string' || !hasColours || text === '' ? text : `\u001b[${colours[cell[1]]}m${text}\u001b[0m`;
  }
  return hasColours ? out : out.trimEnd();
}

/** Without spaces in numbers, so that versions can be pasted. */
function printable(text: string): string {
  return text.replaceAll('\u202f', '').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
}
