/** `GET /admin/usage`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fastify from 'fastify';
import type { Usage } from '../../../src/access/usage/usage.ts';
import type { UsageQuery, UsageRow } from '../../../src/access/usage/usage-store.ts';
import { ProcessOperations } from '../../../src/proxy/operations/process.ts';
import type { ProcessParts } from '../../../src/proxy/operations/status/report.ts';
import type { AdminAnswer } from '../../../src/proxy/operations/admin-request.ts';
import { addAdminRoutes } from '../../../src/proxy/operations/admin-routes.ts';
import { mergeUsage, parseUsageQuery, usageCsv } from '../../../src/proxy/operations/usage-report.ts';

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
  addAdminRoutes(app, admin, { log: noLog, audit: () => undefined, rules });
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
