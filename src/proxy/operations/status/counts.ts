/** Counts of the status page, read from the metric families: one table maps series to cells of the page. Pure. */
import { type FamilyData, lagVersions, requestSeconds } from '../../../metrics/index.ts';

/** Counts by cell, zeros left out. Structured-clone data, so that a worker can send them. */
export type Counts = ReadonlyMap<string, number>;

/** Refusals by reason (`refusal <reason>`), with the words of the page; tests compare them with the families. */
export const refusals: Readonly<Record<string, string>> = {
  'no key': 'no key',
  'bad key': 'an unknown key',
  'misplaced key': 'a key in the address',
  'bad token': 'an invalid token',
  unread: 'keys not read yet',
  busy: 'too many tokens to verify',
  address: 'an address not allowed by the key',
  operation: 'not allowed by the key',
  origin: 'a page not allowed by the key',
  function: 'a function not allowed by the plan',
  limit: 'over a limit',
  'not counted': 'limits not counted',
  'event loop': 'the event loop is late',
  'answers on their way': 'answers on their way',
  'queue full': 'queue for nodes full',
  'queue late': 'no node free in time',
  connections: 'connections beyond the bound',
};

/** Signing messages by outcome, and by the result of the comparison with a node; cells are `encoding <name>`. */
export const encodings = ['local', 'forwarded', 'refused', 'equal', 'mismatch', 'inconclusive', 'skipped'] as const;

/** Repairs on the way to nodes, with the words of the page; cells are `repair <name>`. */
export const repairs: Readonly<Record<string, string>> = {
  'pruned repaired': '"pruned" of a node, answered by another',
  retried: 'failed at a node, asked of another',
  hedged: 'slow at a node, asked of a second',
  'hedge won': '… and the second was first',
};

type Labels = FamilyData['values'][number]['labels'];

/** The cells of one sample; a cell may have several samples, which add up. */
type CellsOf = (labels: Labels, metricName: string | undefined) => readonly string[];

const bucketOnly =
  (cells: (labels: Labels) => readonly string[]): CellsOf =>
  (labels, metricName) =>
    metricName?.endsWith('_bucket') === true ? cells(labels) : [];

/** Statuses of which a large share is a problem. */
const unusual: ReadonlySet<string> = new Set(['410', '503']);

const cellsByFamily: Readonly<Record<string, CellsOf>> = {
  ledgergate_http_request_duration_seconds: bucketOnly(({ route, outcome, le }) => [
    `requests ${le}`,
    `outcome ${outcome} ${le}`,
    `route ${route} ${le}`,
    ...(le === '+Inf' ? [`request ${route} ${outcome}`] : []),
  ]),
  ledgergate_upstream_request_duration_seconds: bucketOnly(({ upstream, le }) => [`attempt ${upstream} ${le}`]),
  ledgergate_http_requests_total: ({ status }) => (unusual.has(String(status)) ? [`status ${status}`] : []),
  ledgergate_upstream_allowance_refusals_total: ({ upstream }) => [`allowance ${upstream}`],
  ledgergate_upstream_requests_total: ({ upstream }) => [`answered ${upstream}`],
  ledgergate_upstream_failures_total: ({ upstream }) => [`failed ${upstream}`],
  ledgergate_access_refusals_total: ({ reason }) => [`refusal ${reason}`],
  ledgergate_shed_requests_total: ({ reason }) => [`refusal ${reason}`],
  ledgergate_upstream_queue_refusals_total: ({ reason }) => [`refusal queue ${reason}`],
  ledgergate_http_connections_refused_total: () => ['refusal connections'],
  ledgergate_encode_requests_total: ({ outcome }) => [`encoding ${outcome}`],
  ledgergate_encode_checks_total: ({ result }) => [`encoding ${result}`],
  ledgergate_pruned_answers_repaired_total: () => ['repair pruned repaired'],
  ledgergate_retries_total: ({ outcome }) => (outcome === 'sent' ? ['repair retried'] : []),
  ledgergate_hedges_total: ({ outcome }) =>
    outcome === 'refused' ? [] : outcome === 'won' ? ['repair hedged', 'repair hedge won'] : ['repair hedged'],
  ledgergate_cache_evictions_total: () => ['evicted'],
  ledgergate_served_version_lag_versions: bucketOnly(({ le }) => [`distance ${le}`]),
};

/** The families that `countsOf` reads. */
export const countedFamilies: readonly string[] = Object.keys(cellsByFamily);

/** Counts since the start: of `families`, and `further` cells that no family counts. */
export function countsOf(families: readonly FamilyData[], further: Iterable<readonly [string, number]> = []): Counts {
  const counts = new Map(further);
  for (const { name, values } of families) {
    for (const { labels, metricName, value } of values) {
      if (value === 0) continue;
      for (const cell of cellsByFamily[name]?.(labels, metricName) ?? [])
        counts.set(cell, (counts.get(cell) ?? 0) + value);
    }
  }
  return counts;
}

/** The sum of several processes' counts. */
export function mergeCounts(counted: readonly Counts[]): Counts {
  const sum = new Map<string, number>();
  for (const counts of counted) for (const [cell, count] of counts) sum.set(cell, (sum.get(cell) ?? 0) + count);
  return sum;
}

/** Cumulative buckets as in Prometheus: rising upper bounds in seconds, with the count at or below each. */
export type Buckets = readonly (readonly [bound: number, count: number])[];

/** The buckets of the cells `<name> <bound>`: times of `requests`, of `route <route>` or of `outcome <outcome>`. */
export function bucketsOf(counts: Counts, name: string, bounds: readonly number[] = requestSeconds): Buckets {
  return [...bounds, Infinity].map((bound) => {
    return [bound, counts.get(`${name} ${bound === Infinity ? '+Inf' : bound}`) ?? 0] as const;
  });
}

/** Durations of the attempts at a node; their bounds begin with the second. */
export function attemptTimes(counts: Counts, upstream: string): Buckets {
  return bucketsOf(counts, `attempt ${upstream}`, requestSeconds.slice(1));
}

/** Routes of the requests, by name. */
export function routesOf(counts: Counts): readonly string[] {
  return [...counts.keys()].flatMap((cell) => /^route (\S+) \+Inf$/.exec(cell)?.[1] ?? []).sort();
}

/** The number of all durations. */
export function totalOf(buckets: Buckets): number {
  return buckets.at(-1)?.[1] ?? 0;
}

/** In ms, as `histogram_quantile` estimates it, so that page and dashboard agree; `undefined` without durations. */
export function quantile(buckets: Buckets, share: number): number | undefined {
  const total = totalOf(buckets);
  if (total === 0) return undefined;
  const rank = total * share;
  let [from, below] = [0, 0];
  for (const [bound, count] of buckets) {
    if (count >= rank && count > below) {
      return 1_000 * (bound === Infinity ? from : from + ((bound - from) * (rank - below)) / (count - below));
    }
    [from, below] = [bound, count];
  }
  return undefined;
}

/** Cells of tenants with their requests since the start. */
export function* tenantCells(
  tenants: Iterable<readonly [string, { readonly asked: number; readonly refused: number }]>,
): Iterable<readonly [string, number]> {
  for (const [name, { asked, refused }] of tenants) {
    yield [`tenant asked ${name}`, asked];
    if (refused > 0) yield [`tenant refused ${name}`, refused];
  }
}

/** Reads of the latest state by versions from their state to the head: `to` is excluded, and absent in the last bin. */
export function distancesOf(counts: Counts) {
  const buckets = bucketsOf(counts, 'distance', lagVersions);
  return buckets.flatMap(([bound, count], index) => {
    const [below, before] = buckets[index - 1] ?? [-1, 0];
    const to = bound === Infinity ? undefined : bound + 1;
    return count === before ? [] : [{ from: below + 1, to, reads: count - before }];
  });
}
