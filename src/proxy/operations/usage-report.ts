/** `GET /admin/usage`: who used how much, as JSON or as CSV. Pure but for the report it asks for. */
import { maxRows, type UsageReport } from '../../access/usage/usage.ts';
import { mergeRows, type UsageQuery, type UsageRow } from '../../access/usage/usage-tally.ts';
import { AdminFault, type AdminAnswer } from './purge-request.ts';

/** Where usage is counted. */
export interface UsageSource {
  report(query: UsageQuery): Promise<UsageReport>;
}

const dayMs = 24 * 3_600_000;
const longestMs = 40 * dayMs;
const parameters = new Set(['from', 'to', 'key', 'tenant', 'format']);

/** `request`: as the query of the operations port says it. The last day, where it says nothing. */
export function parseUsageQuery(request: unknown, nowMs: number): UsageQuery {
  const given = request as Readonly<Record<string, unknown>>;
  for (const name of Object.keys(given)) {
    if (!parameters.has(name))
      throw new AdminFault(400, `nothing is known of ${name}: use ${[...parameters].join(', ')}`);
  }
  const toMs = timeOf(given['to'], 'to') ?? nowMs + 1;
  const fromMs = timeOf(given['from'], 'from') ?? toMs - dayMs;
  if (fromMs >= toMs) throw new AdminFault(400, 'from must be before to');
  if (toMs - fromMs > longestMs) throw new AdminFault(400, 'usage is kept for 40 days: ask for no more at once');
  const format = given['format'];
  if (format !== undefined && format !== 'json' && format !== 'csv') {
    throw new AdminFault(400, 'format must be json or csv');
  }
  return { fromMs, toMs, key: textOf(given['key'], 'key'), tenant: textOf(given['tenant'], 'tenant') };
}

/** The body of the answer; several processes' are merged by `mergeUsage`. */
export async function reportUsage(
  source: UsageSource | undefined,
  request: unknown,
  nowMs: number,
): Promise<AdminAnswer['body']> {
  if (source === undefined) throw new AdminFault(404, 'usage is counted where access is configured: it is not');
  const query = parseUsageQuery(request, nowMs);
  const { source: of, isComplete, rows } = await source.report(query);
  if (rows.length > maxRows) throw new AdminFault(400, `more than ${maxRows} rows: ask for a key or fewer hours`);
  const span = { from: new Date(query.fromMs).toISOString(), to: new Date(query.toMs).toISOString() };
  return { ...span, source: of, complete: isComplete, rows };
}

/** One answer of those of several processes that count for themselves. */
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

/** As RFC 4180 has it: CRLF, a header line, quotes where they are needed. */
export function usageCsv(rows: readonly UsageRow[]): string {
  const lines = rows.map((row) => columns.map((column) => cellOf(row[column])).join(','));
  return [columns.join(','), ...lines, ''].join('\r\n');
}

function cellOf(value: string | number | null): string {
  if (typeof value === 'number') return String(value);
  // A sheet takes a text that begins so for a formula, and tenants may be named by others than who reads this.
  const text = /^[=+\-@\t\r]/.test(value ?? '') ? `'${value}` : (value ?? '');
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function timeOf(value: unknown, name: string): number | undefined {
  if (value === undefined) return undefined;
  const text = typeof value === 'string' ? value : '';
  const isTime = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?Z)?$/.test(text);
  const ms = isTime ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(ms))
    throw new AdminFault(400, `${name} must be a time in UTC such as 2027-01-31 or 2027-01-31T08:00Z`);
  return ms;
}

function textOf(value: unknown, name: string): string | undefined {
  if (value === undefined || typeof value === 'string') return value;
  throw new AdminFault(400, `${name} must be one name`);
}
