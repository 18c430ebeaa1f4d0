/** What a request costs. Pure; the amounts are those of `access.costs`. */
import type { AccessOperation } from '../keys/principal.ts';
import type { Settled } from './ticket.ts';

export interface Costs {
  readonly hit: number;
  readonly miss: number;
  readonly upstreamMs: number;
  readonly gasUnit: number;
  readonly encode: number;
  readonly encodeKiB: number;
  readonly submit: number;
  readonly pass: number;
}

/** No request costs more: a node that tells an absurd amount of gas bars nobody for ever. */
const maxCost = 1_000_000_000;

/** What a request of this kind costs at least: charged before it is served. */
export function leastCostOf(operation: AccessOperation, costs: Costs): number {
  switch (operation) {
    case 'read':
    case 'view':
      return Math.min(costs.hit, costs.miss);
    case 'encode':
      return costs.encode;
    case 'submit':
      return costs.submit;
    case 'pass':
      return costs.pass;
  }
}

/** In thousandths at the finest, and never less than the least. */
export function costOf(settled: Settled, costs: Costs): number {
  const whole = baseOf(settled, costs) + settled.upstreamMs * costs.upstreamMs;
  const cost = Math.max(leastCostOf(settled.operation, costs), Math.min(whole, maxCost));
  return Math.round(cost * 1_000) / 1_000;
}

function baseOf(settled: Settled, costs: Costs): number {
  const { operation, outcome, upstreamMs, gasUsed, bodyBytes } = settled;
  switch (operation) {
    case 'read':
      return outcome === 'miss' ? costs.miss : costs.hit;
    case 'view':
      // Who gets what another has run costs no gas. One that was waited for and given up is run to its end all the same.
      return outcome === 'miss' || (outcome === 'error' && upstreamMs > 0)
        ? costs.miss + Number(gasUsed ?? 0n) * costs.gasUnit
        : costs.hit;
    case 'encode':
      return costs.encode + (bodyBytes / 1_024) * costs.encodeKiB;
    case 'submit':
      return costs.submit;
    case 'pass':
      return costs.pass;
  }
}
