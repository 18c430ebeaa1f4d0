/** Outcomes as the tables of bench/RESULTS.md. */
import type { Capacity } from './capacity.ts';
import { assumed } from './measured.ts';
import type { Outcome } from './run.ts';
import type { RequestShape, Subjects } from './shapes.ts';

export interface Standing {
  readonly outcome: Outcome;
  readonly capacity: Capacity;
}

type Column = readonly [title: string, of: (standing: Standing) => string];

const name: Column = ['shape', ({ outcome }) => outcome.shape.name];

const answered: readonly Column[] = [
  name,
  ['requests/s', ({ outcome }) => count(outcome.shape.traffic.rate)],
  ['memory %', ({ capacity }) => percent(capacity.shares.memory)],
  ['joined a read %', ({ capacity }) => percent(capacity.shares.flight)],
  ['Redis %', ({ capacity }) => percent(capacity.shares.redis)],
  ["another replica's read %", ({ capacity }) => percent(capacity.shares.followed)],
  ['node %', ({ capacity }) => percent(capacity.shares.upstream)],
  ['no node %, of all', ({ capacity }) => percent(capacity.withoutNode)],
  ['node calls for each request', ({ outcome, capacity }) => number(capacity.calls.all / outcome.shape.traffic.rate)],
];

const calls: readonly Column[] = [
  name,
  ['calls of full nodes', ({ capacity }) => count(capacity.calls.full)],
  ['of archival nodes', ({ capacity }) => count(capacity.calls.archival)],
  ['looks', ({ capacity }) => count(capacity.calls.look)],
  ['commands of each Redis', ({ capacity }) => optional(capacity.redis, ({ commands }) => count(commands))],
  ['of its busiest server', ({ capacity }) => optional(capacity.redis, (redis) => count(redis.busiestCommands))],
  ['MB/s there', ({ capacity }) => optional(capacity.redis, (redis) => number(redis.busiestBytes / 1e6))],
  ['added MB/s', ({ capacity }) => optional(capacity.redis, (redis) => number(redis.storedBytes / 1e6))],
  ['events', ({ capacity }) => optional(capacity.redis, ({ news }) => count(news))],
];

const needs: readonly Column[] = [
  name,
  ['busy cores', ({ capacity }) => count(capacity.cores)],
  ['MB a process', ({ capacity }) => count(capacity.processMb)],
  ['full nodes', ({ capacity }) => count(capacity.nodes.full)],
  ['archival nodes', ({ capacity }) => count(capacity.nodes.archival)],
  ['busiest Redis core %', ({ capacity }) => optional(capacity.redis, ({ core }) => count(core * 100))],
  ['Gbit/s out', ({ capacity }) => number((capacity.sentBytes * 8) / 1e9)],
  ['full first', ({ capacity }) => loadText(capacity)],
];

/** Sections of Markdown. */
export function tablesOf(standings: readonly Standing[]): string[] {
  const load = `A process has one core, a full node answers ${count(assumed.fullReads)} reads a second, an archival one ${count(assumed.archivalReads)}. Full first: share of the capacity; above ${count(assumed.load * 100)} % a part is too small.`;
  return [
    section(
      'Answers by source',
      'Shares of all reads that can be cached; the last two columns are shares of all requests.',
      answered,
      standings,
    ),
    section('Calls of nodes and of Redis', 'Numbers per second. Events are those between replicas.', calls, standings),
    section('Machines', load, needs, standings),
  ];
}

function optional<T>(value: T | undefined, text: (value: T) => string): string {
  return value === undefined ? '' : text(value);
}

/** The shares of `shapes.ts`, a line for all routes that read alike. */
export function sharesTable(requests: readonly RequestShape[]): string {
  const alike = Map.groupBy(requests, ({ subjects }) => aboutSubjects(subjects));
  const rows = [...alike].map(([reads, group]) => {
    const routes = group.map(({ route, share }) => `\`${route}\` ${Number((share * 100).toFixed(1))} %`);
    return `| ${routes.join(', ')} | ${reads} |`;
  });
  return ['| route and share | reads |', '|---|---|', ...rows].join('\n');
}

function aboutSubjects(subjects: Subjects): string {
  switch (subjects.kind) {
    case 'state': {
      const deep = subjects.deep === 0 ? '' : `, half of these below the window of full nodes`;
      return `${count(subjects.of)} items, ${count(subjects.pinned * 100)} % pinned${deep}`;
    }
    case 'history':
      return `${subjects.perBlock} of each block`;
    case 'hash':
      return `committed transactions, ${count(subjects.own * 100)} % the client's own`;
    case 'shared':
      return `one answer for ${count(subjects.forMs / 1000)} s`;
    case 'local':
      return 'answered by the gateway';
    case 'submit':
      return 'a node call each, then its client reads the effect';
    case 'passed':
      return 'a node call each';
  }
}

/** The page with these sections between its marks of that name. Throws where it has none. */
export function withTables(page: string, tables: readonly string[], name = 'simulated'): string {
  const [begin, end] = [`<!-- ${name}: begin -->`, `<!-- ${name}: end -->`];
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

function loadText({ loads: [load] }: Capacity): string {
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
