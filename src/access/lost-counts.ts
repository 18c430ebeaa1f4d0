/** Counts of what was not counted for want of room or of Redis: by each process that counts, the primary among them. */
import type { Registry } from 'prom-client';
import { Counter } from '../metrics/index.ts';

/** Registers the family. The result records one loss. */
export function createLostCounts(registry: Registry) {
  return new Counter(registry, {
    name: 'ledgergate_limits_lost_total',
    help: 'Counts that were lost: settlement (what a request came to) that did not get to Redis, usage (of an hour or day) and quota (of an account within its month) that did not, or that were dropped for want of room.',
    labels: { what: ['settlement', 'usage', 'quota'] },
  }).by('what');
}
