/** The status as lines of text: what an operator needs at once. */
import type { NodeFacts, StatusFacts, WindowFacts } from './present.ts';
import { bytes, clock, duration, grouped, milliseconds, perSecond, percent, short } from './format.ts';
import { nodeState, unusableFor } from './states.ts';

/** The lines of `ledgergate status`, without line ends, from the text of `/status.json`; `undefined`: it is something else. */
export function statusLines(json: string): readonly string[] | undefined {
  const facts = parseFacts(json);
  return facts && linesOf(facts).map(printable);
}

function parseFacts(text: string): StatusFacts | undefined {
  try {
    const facts = JSON.parse(text) as StatusFacts | null;
    return facts?.name === 'ledgergate' && Array.isArray(facts.nodes) ? facts : undefined;
  } catch {
    return undefined;
  }
}

function linesOf(facts: StatusFacts): readonly string[] {
  const { version, at, uptimeSeconds, workers, state, summary, actions, ledger, cache } = facts;
  const workersText = workers === undefined ? '' : `, ${workers.answering} of ${workers.wanted} workers`;
  const [store, redis] = [facts.store, facts.redis].map((tier) =>
    tier.reason === undefined ? tier.state : `${tier.state}: ${tier.reason}`,
  );
  return [
    `Ledgergate ${version}, up ${duration(uptimeSeconds)}${workersText}, ${clock(at)} UTC`,
    `${state.toUpperCase()} ${summary}`,
    ...actions.map(({ text, remedy }) => `  - ${text}; ${remedy}`),
    `head ${grouped(ledger.head)} (${perSecond(ledger.versionsPerSecond)}), oldest ${grouped(ledger.oldest)}, chain ${ledger.chainId ?? '–'}`,
    '',
    ...table([nodeHead, ...facts.nodes.map((node) => nodeRow(node, at))], 2),
    '',
    ...table([windowHead, ...facts.windows.map(windowRow)], 0),
    '',
    `memory ${bytes(cache.bytes)} of ${bytes(cache.maxBytes)}, ${short(cache.entries)} reads; store ${store}; Redis ${redis}`,
  ];
}

const nodeHead = ['NODE', 'STATE', 'HEAD', 'LAG', 'OLDEST', 'LOAD', 'RATE', 'P99', 'FAILED'];

function nodeRow(node: NodeFacts, at: string): readonly string[] {
  const { word, sign } = nodeState(node);
  const since = unusableFor(node, at);
  const out = node.ejected.length === 0 ? '' : ` (${node.ejected.map(({ readClass }) => readClass).join(', ')})`;
  return [
    node.name,
    `${sign} ${word}${since === undefined ? '' : ` ${since}`}${out}`,
    grouped(node.head),
    node.lag === undefined ? '–' : `${node.lagSeconds} s`,
    grouped(node.oldest),
    `${node.inFlight}/${node.limit}`,
    perSecond(node.requestsPerSecond),
    milliseconds(node.p99Ms),
    short(node.failures.last100s),
  ];
}

const windowHead = ['LAST', 'RATE', 'NO NODE', 'HITS', '5XX', 'P50', 'P99'];

function windowRow(window: WindowFacts): readonly string[] {
  const { seconds, requestsPerSecond, withoutNodeShare, hitShare, failedShare, p50Ms, p99Ms } = window;
  const shares = [percent(withoutNodeShare), percent(hitShare), percent(failedShare)];
  return [`${seconds} s`, perSecond(requestsPerSecond), ...shares, milliseconds(p50Ms), milliseconds(p99Ms)];
}

/** Columns two spaces apart: the first `leading` align left, the others right. */
function table(rows: readonly (readonly string[])[], leading: number): readonly string[] {
  const cells = rows.map((row) => row.map(printable));
  const widths = (cells[0] ?? []).map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  return cells.map((row) =>
    widths
      .map((width, column) => (column < leading ? row[column]?.padEnd(width) : row[column]?.padStart(width)))
      .join('  '),
  );
}

/** Without spaces in numbers, so that versions can be pasted; control characters from outside cannot drive the terminal. */
function printable(text: string): string {
  return text.replaceAll('\u202f', '').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
}
