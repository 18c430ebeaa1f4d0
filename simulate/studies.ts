/** Single questions about reads of the newest state, each a table of bench/RESULTS.md: one process, in many variants. */
import { capacityOf } from './capacity.ts';
import type { ClientsShape } from './clients.ts';
import { simulate, type Outcome } from './run.ts';
import { shapeOf, usualTraffic, type Shape } from './shape.ts';

/** A table: a cell for each row and column. */
export interface Study {
  readonly title: string;
  readonly about: string;
  readonly columns: readonly string[];
  readonly rows: readonly { readonly name: string; readonly cells: readonly Cell[] }[];
}

/** The figure of a shape; of a change, beside the shape without it. */
interface Cell {
  readonly shape: Shape;
  readonly without?: Shape;
  readonly text: (outcome: Outcome, without: Outcome) => string;
}

const rate = 10_000;

function callsPerRequest(outcome: Outcome): number {
  return capacityOf(outcome).calls.all / outcome.shape.traffic.rate;
}

function callsOf(shape: Shape): Cell {
  return { shape, text: (outcome) => callsPerRequest(outcome).toFixed(2) };
}

function by(clients: Partial<ClientsShape>): Pick<Shape, 'traffic'> {
  return { traffic: { ...usualTraffic, rate, ...clients } };
}

const bounds = [
  ['200 ms', 200],
  ['1 s', 1_000],
  ['5 s', 5_000],
] as const;

/** Clients by how they share connections and keys. */
const clients: readonly (readonly [name: string, Partial<ClientsShape>])[] = [
  ['single requests, a connection each', {}],
  ['pages of 5 requests', { pageRequests: 5 }],
  ['pages of 20 requests', { pageRequests: 20 }],
  ['keys of 20 requests/s', { clientRate: 20 }],
  ['keys of 200 requests/s', { clientRate: 200 }],
  ['16 connections of a proxy', { connectionRate: rate / 16 }],
];

const views = { boundMs: 5_000, ofItems: 1 };
const second = { boundMs: 1_000, ofItems: 1 };
const overrides: readonly (readonly [name: string, Shape['overrides']])[] = [
  ['no override', undefined],
  ['half of the views 5 s', { view: { ...views, ofItems: 0.5 } }],
  ['views 5 s', { view: views }],
  [
    'views 5 s, resources, balances, items and accounts 1 s',
    { view: views, resource: second, balance: second, tableItem: second, account: second },
  ],
];

const hotTimes = [2, 3, 5, 10] as const;
const mostHot = 256;

export const studies: readonly Study[] = [
  {
    title: 'Staleness and floors',
    about: 'Node calls for each request, by `latest.floor` and `latest.maxStaleness`.',
    columns: ['floor', 'clients', ...bounds.map(([name]) => name)],
    rows: [
      ...(['gateway', 'client'] as const).map((floor) => ({
        name: `\`${floor}\` | 1,746 requests/s`,
        cells: bounds.map(([, maxStalenessMs]) => callsOf(shapeOf('', 1_746, { floor, maxStalenessMs }))),
      })),
      {
        name: '`gateway` | 10,000 requests/s',
        cells: bounds.map(([, maxStalenessMs]) => callsOf(shapeOf('', rate, { floor: 'gateway', maxStalenessMs }))),
      },
      ...clients.map(([name, traffic]) => ({
        name: `\`client\` | 10,000, ${name}`,
        cells: bounds.map(([, maxStalenessMs]) => callsOf(shapeOf('', rate, { maxStalenessMs, ...by(traffic) }))),
      })),
    ],
  },
  {
    title: 'Overrides',
    about:
      'Node calls for each request with `latest.maxStaleness: 200ms`, by `latest.overrides`, and by requests that a connection mixes.',
    columns: ['overrides', 'one kind of read', 'single requests', 'pages of 5', 'pages of 20', '16 of a proxy'],
    rows: overrides.map(([name, changes]) => ({
      name,
      cells: [
        { clientRate: 1e-4, connectionRate: 1e-4 },
        {},
        ...[5, 20].map((pageRequests) => ({ pageRequests })),
        { connectionRate: rate / 16 },
      ].map((traffic) => callsOf(shapeOf('', rate, { ...by(traffic), overrides: changes }))),
    })),
  },
  {
    title: 'Reads ahead of their first client',
    about: `Fewer waits, and more calls of nodes, in percent, when reads that were asked N times within a shared state are repeated at the next one; ${mostHot} at most.`,
    columns: ['requests/s', 'staleness', ...hotTimes.map((times) => `N = ${times}`)],
    rows: [1_746, rate].flatMap((of) =>
      bounds.slice(0, 2).map(([name, maxStalenessMs]) => ({
        name: `${of.toLocaleString('en-US')} | ${name}`,
        cells: hotCells(shapeOf('', of, { maxStalenessMs })),
      })),
    ),
  },
  {
    title: 'The follower',
    about:
      'Node calls for each request, those of the follower included, with `follow.mode: off` and `always`. Transactions are answered from their page for 30 s; a wait is a call in both, as each hash is asked for once.',
    columns: ['requests/s', 'reads of single transactions', 'off', 'always'],
    rows: [200, 1_746, rate].flatMap((of) =>
      ([1, 5] as const).map((times) => ({
        name: `${of.toLocaleString('en-US')} | ${times === 1 ? '9 %, as usual' : 'five times as many'}`,
        cells: [undefined, { everyMs: 100, keptMs: 30_000 }].map((follow) =>
          callsOf(shapeOf('', of, { traffic: ofTransactions(of, times), ...(follow && { follow }) })),
        ),
      })),
    ),
  },
];

/** The usual traffic with so many times its reads of single transactions, at the expense of nothing else. */
function ofTransactions(of: number, times: number): Shape['traffic'] {
  const requests = usualTraffic.requests.map((shape) =>
    ['byHash', 'waitByHash', 'byVersion'].includes(shape.route) ? { ...shape, share: shape.share * times } : shape,
  );
  return { ...usualTraffic, rate: of, requests };
}

function hotCells(without: Shape): readonly Cell[] {
  return hotTimes.map((times) => ({
    shape: { ...without, hot: { times, most: mostHot } },
    without,
    text: savedText,
  }));
}

function savedText(outcome: Outcome, without: Outcome): string {
  const waits = 1 - outcome.tally.waits / without.tally.waits;
  const calls = callsPerRequest(outcome) / callsPerRequest(without) - 1;
  return `${(waits * 100).toFixed(1)}, ${Math.max(0, calls * 100).toFixed(1)}`;
}

/** The study as a section of Markdown, each cell from so many seconds of traffic. */
export function studyTable({ title, about, columns, rows }: Study, seed: number, seconds: number): string {
  const known = new Map<Shape, Outcome>();
  const run = (shape: Shape): Outcome => {
    const outcome = known.get(shape) ?? simulate(shape, { seed, requests: shape.traffic.rate * seconds });
    known.set(shape, outcome);
    return outcome;
  };
  const lines = rows.map(({ name, cells }) => {
    const texts = cells.map(({ shape, without, text }) => {
      const outcome = run(shape);
      return text(outcome, without === undefined ? outcome : run(without));
    });
    return `| ${[name, ...texts].join(' | ')} |`;
  });
  const head = `| ${columns.join(' | ')} |`;
  const names = columns.length - (rows[0]?.cells.length ?? 0);
  const rule = `|${columns.map((_, index) => (index < names ? '---' : '--:')).join('|')}|`;
  return [`### ${title}`, '', about, '', head, rule, ...lines].join('\n');
}
