/** Outcomes as the tables of docs/scaling.md. */
import type { Capacity } from './capacity.ts';
import { assumed, measured, type Measured } from './measured.ts';
import type { Outcome } from './run.ts';

export interface Standing {
  readonly outcome: Outcome;
  readonly capacity: Capacity;
}

type Column = readonly [title: string, of: (standing: Standing) => string];

const name: Column = ['shape', ({ outcome }) => outcome.shape.name];

const answered: readonly Column[] = [
  name,
  ['requests/s', ({ outcome }) => count(outcome.shape.traffic.rate)],
  ['CDN %', ({ capacity }) => percent(capacity.shares.cdn)],
  ['memory %', ({ capacity }) => percent(capacity.shares.memory)],
  ['joined a read %', ({ capacity }) => percent(capacity.shares.flight)],
  ['Redis %', ({ capacity }) => percent(capacity.shares.redis)],
  ["another replica's read %", ({ capacity }) => percent(capacity.shares.followed)],
  ['node %', ({ capacity }) => percent(capacity.shares.upstream)],
];

const nodes: readonly Column[] = [
  name,
  ['calls/s', ({ capacity }) => count(capacity.calls.all)],
  ['reads of full nodes', ({ capacity }) => count(capacity.calls.full)],
  ['of archival nodes', ({ capacity }) => count(capacity.calls.archival)],
  ['looks', ({ capacity }) => count(capacity.calls.look)],
  ['modules', ({ capacity }) => count(capacity.calls.module)],
  ['submissions', ({ capacity }) => count(capacity.calls.submit)],
  ['calls for each request', ({ outcome, capacity }) => (capacity.calls.all / outcome.shape.traffic.rate).toFixed(3)],
];

const redis: readonly Column[] = [
  name,
  ['commands/s', ({ capacity }) => count(capacity.redis?.commands)],
  ['of the busiest server', ({ capacity }) => count(capacity.redis?.busiestCommands)],
  ['its MB/s', ({ capacity }) => number((capacity.redis?.busiestBytes ?? 0) / 1e6)],
  ['added MB/s', ({ capacity }) => number((capacity.redis?.storedBytes ?? 0) / 1e6)],
  ['news/s', ({ capacity }) => count(capacity.redis?.told)],
  ['its cores', ({ capacity }) => number(capacity.redis?.core ?? 0)],
  ['gateway cores to hear the news', ({ capacity }) => count(capacity.newsCores)],
];

const latest: readonly Column[] = [
  name,
  ['age of the look p50 ms', ({ capacity }) => count(capacity.staleness.ageP50)],
  ['p99', ({ capacity }) => count(capacity.staleness.ageP99)],
  ['overtaken for p50 ms', ({ capacity }) => count(capacity.staleness.overtakenP50)],
  ['p99', ({ capacity }) => count(capacity.staleness.overtakenP99)],
  ['waited for a look %', ({ capacity }) => percent(capacity.staleness.waitingShare)],
];

const needs: readonly Column[] = [
  name,
  ['busy cores, fast path', ({ capacity }) => count(capacity.cores.front)],
  ['without', ({ capacity }) => count(capacity.cores.server)],
  ['MB a process', ({ capacity }) => count(capacity.processMb)],
  ['an answer stays s', ({ capacity }) => count(capacity.residenceSeconds)],
  ['full nodes', ({ capacity }) => count(capacity.nodes.full)],
  ['archival nodes', ({ capacity }) => count(capacity.nodes.archival)],
  ['Gbit/s out', ({ capacity }) => number((capacity.sentBytes * 8) / 1e9)],
  ['first to be full', ({ capacity }) => loadText(capacity, 0)],
  ['then', ({ capacity }) => loadText(capacity, 1)],
];

export function tablesOf(standings: readonly Standing[]): string[] {
  const withRedis = standings.filter(({ capacity }) => capacity.redis !== undefined);
  return [
    section('Who answers', 'Of all reads that are looked for in the cache.', answered, standings),
    section('What nodes are asked', 'A second, of the whole deployment.', nodes, standings),
    section(
      'What Redis is asked',
      'Each Redis by itself, a second; `its` is the busiest server of it.',
      redis,
      withRedis,
    ),
    section(
      'How old the latest state is',
      "`age`: since the look it comes from, which is what `latest.maxStaleness` bounds. `overtaken`: since the next block was committed, nodes' own lag included.",
      latest,
      standings,
    ),
    section(
      'What it takes, and what is full first',
      `Share of what is there; above ${percent(assumed.load)} % it is too small. A process has one core.`,
      needs,
      standings,
    ),
    figures(),
  ];
}

const begin = '<!-- simulated: begin -->';
const end = '<!-- simulated: end -->';

/** The page with these tables between its marks. Throws where it has none. */
export function withTables(page: string, tables: readonly string[]): string {
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from === -1 || to < from) throw new Error(`the page has no place for tables between "${begin}" and "${end}"`);
  return `${page.slice(0, from + begin.length)}\n\n${tables.join('\n\n')}\n\n${page.slice(to)}`;
}

function section(title: string, about: string, columns: readonly Column[], standings: readonly Standing[]): string {
  const head = `| ${columns.map(([column]) => column).join(' | ')} |`;
  const rule = `|${columns.map((_, index) => (index === 0 ? '---' : '--:')).join('|')}|`;
  const rows = standings.map((standing) => `| ${columns.map(([, of]) => of(standing)).join(' | ')} |`);
  return [`### ${title}`, '', about, '', head, rule, ...rows].join('\n');
}

function figures(): string {
  const rows = Object.entries<Measured>(measured).map(
    ([name, { value, unit, where }]) => `| ${name} | ${value} | ${unit} | ${where} |`,
  );
  const taken = `Taken for granted: a full node answers ${count(assumed.fullReads)} reads a second, an archival one ${count(assumed.archivalReads)}; a network interface has 10 Gbit/s.`;
  return ['### What single steps cost', '', '| step | | | measured |', '|---|--:|---|---|', ...rows, '', taken].join(
    '\n',
  );
}

function loadText({ loads }: Capacity, place: number): string {
  const load = loads[place];
  return load === undefined ? '' : `${load.part}, ${count(load.used * 100)} %`;
}

function count(value: number | undefined): string {
  return Math.round(value ?? 0).toLocaleString('en-US');
}

function number(value: number): string {
  return value >= 100 ? count(value) : value.toFixed(value >= 10 ? 1 : 2);
}

function percent(share: number): string {
  return (share * 100).toFixed(1);
}
