/** The operations of several processes as those of one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fastify from 'fastify';
import type { UsageQuery, UsageRow } from '../../../src/access/usage/usage-store.ts';
import type { Usage } from '../../../src/access/usage/usage.ts';
import { Journal } from '../../../src/metrics/journal.ts';
import type { AdminAnswer } from '../../../src/proxy/operations/admin-request.ts';
import { addAdminRoutes } from '../../../src/proxy/operations/admin-routes.ts';
import { ProcessOperations } from '../../../src/proxy/operations/process.ts';
import { joinProcesses, type ProcessCalls } from '../../../src/proxy/operations/processes.ts';
import type { ProcessParts } from '../../../src/proxy/operations/status/report.ts';
import { mergeUsage, parseUsageQuery, usageCsv } from '../../../src/proxy/operations/usage-report.ts';
import { nodeStatus, processStatus } from '../../support/process-status.ts';

const answer = (body: AdminAnswer['body']): AdminAnswer => ({ status: 200, body });
const nothing = (): void => undefined;
const families = () => Promise.resolve([]);
const unknown = () => Promise.resolve({ status: 404, body: {} });
const silent = (): Promise<never> => Promise.reject(new Error('no answer within 800 ms'));

let lastId = 0;

/** A process that answers everything, and notes the calls that change something in `calls`. */
function processOf(name: string, calls: string[], own: Partial<ProcessCalls> = {}) {
  const operations: ProcessCalls = {
    readiness: () => Promise.resolve(processStatus()),
    report: () => Promise.resolve({ status: processStatus() }),
    families,
    purge: () => {
      calls.push(`${name} purge`);
      return Promise.resolve(answer({ purged: 'everything', complete: true, memory: 1 }));
    },
    purgeHere: () => {
      calls.push(`${name} purgeHere`);
      return Promise.resolve(answer({ memory: 2 }));
    },
    setDrained: () => Promise.resolve(answer({ upstream: 'a', isDrained: true, inFlight: 3 })),
    explain: () => Promise.resolve(answer({ route: name })),
    usage: () => Promise.resolve(answer({ source: 'memory', complete: true, rows: [] })),
    keys: () => Promise.resolve(answer({ keys: [], problems: [] })),
    ...own,
  };
  return { id: (lastId += 1), isServing: true, operations };
}

function joined(processes: readonly ReturnType<typeof processOf>[], drained = new Set<string>()) {
  const journal = new Journal({ debug: nothing, info: nothing, warn: nothing, error: nothing });
  const source = joinProcesses({ wanted: 3, processes: () => processes, families, journal, drained });
  return { source, journal, drained };
}

const purge = { request: { everything: true }, from: '10.0.0.1' };
const drain = { upstream: 'a', isDrained: true, from: '10.0.0.1' };

test('a process that gives no answer, starts, or exited meanwhile is not counted', async () => {
  const leaving = processOf('leaving', [], {
    readiness: () => {
      leaving.isServing = false;
      return Promise.resolve(processStatus());
    },
  });
  const starting = { ...processOf('starting', []), isServing: false };
  const { source } = joined([processOf('a', []), processOf('b', [], { readiness: silent }), leaving, starting]);

  const { workers, isReady } = await source.readiness();

  assert.deepEqual([workers, isReady], [{ wanted: 3, answering: 1, ready: 1 }, true]);
});

test('the nodes are those that were last reported', async () => {
  const nodes = [nodeStatus({ name: 'new' })];
  const { source } = joined([processOf('a', [], { readiness: () => Promise.resolve(processStatus({ nodes })) })]);

  assert.deepEqual(source.nodes(), []);
  await source.readiness();
  assert.deepEqual(
    source.nodes().map(({ name }) => name),
    ['new'],
  );
});

test('without an answer there is no status, and with one the events of the primary are among its own', async () => {
  const { source, journal } = joined([processOf('a', [])]);
  journal.note('worker lost', { worker: 7 });

  const { status } = await source.report();
  const none = await joined([processOf('a', [], { report: silent })]).source.report();

  assert.deepEqual(
    status?.events.map(({ kind }) => kind),
    ['worker lost'],
  );
  assert.deepEqual(none, { status: undefined, workers: { wanted: 3, answering: 0 } });
});

test('one process purges for all, the others ahead of it and after it', async () => {
  const calls: string[] = [];
  const { source } = joined([processOf('a', calls), processOf('b', calls)]);

  const { body } = await source.purge(purge);

  assert.deepEqual(calls, ['b purgeHere', 'a purge', 'b purgeHere', 'a purgeHere']);
  assert.deepEqual(body, { purged: 'everything', complete: true, memory: 1 + 2 + 2 + 2 });
});

test('a purge that a process does not confirm is incomplete, and a malformed one reaches none', async () => {
  const calls: string[] = [];
  const { source } = joined([processOf('a', calls), processOf('b', calls, { purgeHere: silent })]);

  assert.equal((await source.purge(purge)).body['complete'], false);
  calls.length = 0;
  assert.equal((await source.purge({ ...purge, request: {} })).status, 400);
  assert.deepEqual(calls, []);
});

test('a node is drained in all processes, and for later ones unless the first refuses', async () => {
  const two = joined([processOf('a', []), processOf('b', [])]);
  assert.equal((await two.source.setDrained(drain)).body['inFlight'], 6);
  assert.deepEqual([...two.drained], ['a']);

  const one = joined([processOf('a', [], { setDrained: unknown })]);
  assert.equal((await one.source.setDrained(drain)).status, 404);
  assert.deepEqual([...one.drained], []);
});

test('usage that one process does not report is incomplete; Redis has that of all', async () => {
  const { source } = joined([processOf('a', []), processOf('b', [], { usage: silent })]);
  assert.equal((await source.usage({})).body['complete'], false);

  const ofRedis = answer({ source: 'redis', complete: true, rows: [] });
  const shared = joined([processOf('a', [], { usage: () => Promise.resolve(ofRedis) }), processOf('b', [])]);
  assert.equal(await shared.source.usage({}), ofRedis);
});

test('without a serving process every request is answered 503', async () => {
  const { source } = joined([]);
  const answers = [source.purge(purge), source.setDrained(drain), source.explain({}), source.usage({})];

  assert.deepEqual(
    (await Promise.all(answers)).map(({ status }) => status),
    [503, 503, 503, 503],
  );
});

// `GET /admin/usage`.

const row: UsageRow = {
  hour: '2027-01-31T08:00:00Z',
  key: 'wallet-a',
  tenant: 'acme',
  plan: 'free',
  operation: 'read',
  outcome: 'hit',
  requests: 3,
  cost: 3.5,
  bytes: 100,
  saved: 3,
};

const noLog = { show: () => ({ status: 404, body: {} }), change: () => ({ status: 404, body: {} }) };

const rules = () => ({ token: 'a-token-of-16-chars', host: '127.0.0.1' });

function serverOf(usage: Pick<Usage, 'report'> | undefined) {
  // Nothing but usage is asked for here.
  const admin = new ProcessOperations({ access: usage && { usage } } as unknown as ProcessParts);
  const app = fastify();
  addAdminRoutes(app, admin, noLog, { audit: () => undefined, rules });
  return (path: string, token = 'a-token-of-16-chars') =>
    app.inject({ path, headers: { authorization: `Bearer ${token}` } });
}

test('usage as JSON and as CSV, behind the token', async () => {
  const queries: UsageQuery[] = [];
  const get = serverOf({
    report: async (query) => {
      queries.push(query);
      return { source: 'redis', isComplete: true, rows: [row] };
    },
  });
  const json = await get('/admin/usage?from=2027-01-31&to=2027-02-01T00:00Z&key=wallet-a&tenant=acme');
  assert.deepEqual(json.json(), {
    from: '2027-01-31T00:00:00.000Z',
    to: '2027-02-01T00:00:00.000Z',
    source: 'redis',
    complete: true,
    rows: [row],
  });
  assert.deepEqual(queries, [
    { fromMs: Date.UTC(2027, 0, 31), toMs: Date.UTC(2027, 1, 1), key: 'wallet-a', tenant: 'acme', mostRows: 100_000 },
  ]);
  const csv = await get('/admin/usage?format=csv');
  assert.match(String(csv.headers['content-type']), /^text\/csv/);
  assert.equal(
    csv.body,
    'hour,key,tenant,plan,operation,outcome,requests,cost,bytes,saved\r\n' +
      '2027-01-31T08:00:00Z,wallet-a,acme,free,read,hit,3,3.5,100,3\r\n',
  );
  assert.equal((await get('/admin/usage', 'another-token-of-16')).statusCode, 401);
});

test('a bad query gets an error that names its fault', async () => {
  const get = serverOf({ report: async () => ({ source: 'memory', isComplete: true, rows: [] }) });
  for (const [query, part] of [
    ['from=yesterday', 'from: must be a time'],
    ['from=2027-13-45', 'from: must be a time'],
    ['from=2027-01-02&to=2027-01-01', 'before'],
    ['from=2027-01-01&to=2027-03-01', '40 days'],
    ['format=xml', 'json or csv'],
    ['since=2027-01-01', 'since'],
    ['key=a&key=b', 'one name'],
  ] as const) {
    const answer = await get(`/admin/usage?${query}`);
    assert.equal(answer.statusCode, 400, query);
    assert.ok(answer.json<{ message: string }>().message.includes(part), answer.body);
  }
  const none = await serverOf(undefined)('/admin/usage');
  assert.equal(none.statusCode, 404);
});

test('the default span is the last day', () => {
  const nowMs = Date.UTC(2027, 0, 31, 8);
  const { fromMs, toMs } = parseUsageQuery({}, nowMs);
  assert.deepEqual([nowMs - fromMs < 86_400_000, toMs > nowMs], [true, true]);
});

test('a cell that a spreadsheet would run as a formula stays text', () => {
  const csv = usageCsv([{ ...row, tenant: '=cmd|" /C calc"!A0', key: 'a,b' }]);
  assert.ok(csv.includes(`"a,b","'=cmd|"" /C calc""!A0"`), csv);
});

test('the counts of several processes are added up', () => {
  const body = { source: 'memory', complete: true, rows: [row] };
  const other: AdminAnswer = {
    status: 200,
    body: { source: 'memory', complete: true, rows: [row, { ...row, key: 'b' }] },
  };
  const silent: AdminAnswer = { status: 503, body: {} };
  const merged = mergeUsage(body, [other]);
  assert.equal(merged['complete'], true);
  assert.deepEqual(
    (merged['rows'] as UsageRow[]).map(({ key, requests }) => [key, requests]),
    [
      ['b', 3],
      ['wallet-a', 6],
    ],
  );
  assert.equal(mergeUsage(body, [silent])['complete'], false);
});
