/** `GET /admin/usage`: use by key, tenant and hour, as JSON or CSV. Pure but for the source. */
import { z } from 'zod';
import { type Access, mergeRows } from '../../access/index.ts';
import { AdminFault, fieldsOf, parseBy, type AdminAnswer } from './admin-request.ts';

type Usage = Access['usage'];
type UsageQuery = Parameters<Usage['report']>[0];
type UsageRow = ReturnType<typeof mergeRows>[number];

/** Rows of a report at most. */
const mostRows = 100_000;

const dayMs = 24 * 3_600_000;
const longestMs = 40 * dayMs;
const timeFault = 'must be a time in UTC such as 2027-01-31 or 2027-01-31T08:00Z';
const time = z
  .string({ error: timeFault })
  .regex(/^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?Z)?$/, { error: timeFault })
  .transform((text) => Date.parse(text))
  .refine((ms) => !Number.isNaN(ms), { error: timeFault })
  .optional();
const name = z.string({ error: 'must be one name' }).optional();
const format = z.enum(['json', 'csv'], { error: 'must be json or csv' }).optional();
const usageQuery = fieldsOf({ from: time, to: time, key: name, tenant: name, format });

/** Parses the query of the operations port; the default span is the last day. Throws `AdminFault` 400. */
export function parseUsageQuery(request: unknown, nowMs: number): UsageQuery {
  const { from, to: toMs = nowMs + 1, key, tenant } = parseBy(usageQuery, request, 'the query');
  const fromMs = from ?? toMs - dayMs;
  if (fromMs >= toMs) throw new AdminFault(400, 'from must be before to');
  if (toMs - fromMs > longestMs) throw new AdminFault(400, 'usage is kept for 40 days: ask for a shorter span');
  return { fromMs, toMs, key, tenant, mostRows };
}

/** The answer's body. Throws `AdminFault`: 400 for a bad query or too many rows, 404 without a source. */
export async function reportUsage(
  usage: Pick<Usage, 'report'> | undefined,
  request: unknown,
  nowMs: number,
): Promise<AdminAnswer['body']> {
  if (usage === undefined) throw new AdminFault(404, 'usage is not counted: the config has no access');
  const query = parseUsageQuery(request, nowMs);
  const { source, isComplete, rows } = await usage.report(query);
  if (rows.length > mostRows) throw new AdminFault(400, `more than ${mostRows} rows: ask for a key or fewer hours`);
  const span = { from: new Date(query.fromMs).toISOString(), to: new Date(query.toMs).toISOString() };
  return { ...span, source, complete: isComplete, rows };
}

/** Merges the answers of processes that count without Redis; `complete` needs the answer of every process. */
export function mergeUsage(
  one: AdminAnswer['body'],
  others: readonly (AdminAnswer | undefined)[],
): AdminAnswer['body'] {
  const bodies = [one, ...others.map((answer) => (answer?.status === 200 ? answer.body : undefined))];
  return {
    ...one,
    complete: bodies.every((body) => body?.['complete'] === true),
    rows: mergeRows(bodies.flatMap((body) => rowsOf(body ?? {}))),
  };
}

/** The rows in the body of an answer; none in an error's. */
export function rowsOf(body: AdminAnswer['body']): readonly UsageRow[] {
  return (body['rows'] ?? []) as readonly UsageRow[];
}

const columns = [
  'hour',
  'key',
  'tenant',
  'plan',
  'operation',
  'outcome',
  'requests',
  'cost',
  'bytes',
  'saved',
] as const satisfies readonly (keyof UsageRow)[];

/** CSV after RFC 4180: CRLF, a header line, quotes only where a cell needs them. */
export function usageCsv(rows: readonly UsageRow[]): string {
  const lines = rows.map((row) => columns.map((column) => cellOf(row[column])).join(','));
  return [columns.join(','), ...lines, ''].join('\r\n');
}

function cellOf(value: string | number | null): string {
  if (typeof value === 'number') return String(value);
  // A spreadsheet would run such a text as a formula; names of tenants may come from outside.
  const text = /^[=+\-@\t\r]/.test(value ?? '') ? `'${value}` : (value ?? '');
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
