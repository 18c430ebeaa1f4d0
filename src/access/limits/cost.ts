/** The cost of a request. Pure. */
import type { AccessConfig } from '../../config/index.ts';
import type { AccessOperation } from '../keys/principals.ts';

type Costs = AccessConfig['costs'];

/** The facts of an ended request that decide its cost and usage. */
export interface Settled {
  readonly operation: AccessOperation;
  /** `local`: answered here without a node. `error`: refused or failed. */
  readonly outcome: 'hit' | 'miss' | 'collapsed' | 'local' | 'error';
  readonly status: number;
  /** A node's time for it in ms, 0 where no node read for this request alone. */
  readonly upstreamMs: number;
  /** The text of a node's header. */
  readonly gasUsed: string | undefined;
  readonly bytes: number;
  readonly bodyBytes: number;
}

/** Upper bound: an absurd amount of gas in a node's answer must not exclude a tenant for ever. */
const maxCost = 1_000_000_000;

/** The least cost of an operation: its charge before it is served. */
export function leastCostOf(operation: AccessOperation, costs: Costs): number {
  return operation === 'read' || operation === 'view' ? Math.min(costs.hit, costs.miss) : costs[operation];
}

/** The final cost, rounded to thousandths, and at least `leastCostOf`. */
export function costOf(settled: Settled, costs: Costs): number {
  const whole = baseOf(settled, costs) + settled.upstreamMs * costs.upstreamMs;
  const cost = Math.max(leastCostOf(settled.operation, costs), Math.min(whole, maxCost));
  return rounded(cost);
}

/** 0 for a text that is no u64: a node's header is not to be trusted. */
function gasUnitsOf(text: string | undefined): number {
  return text !== undefined && /^\d{1,20}$/.test(text) ? Number(text) : 0;
}

/** An amount of cost in thousandths, as all sums of it are kept. */
export function rounded(amount: number): number {
  return Math.round(amount * 1_000) / 1_000;
}

function baseOf(settled: Settled, costs: Costs): number {
  const { operation, outcome, upstreamMs, gasUsed, bodyBytes } = settled;
  switch (operation) {
    case 'read':
      return outcome === 'miss' ? costs.miss : costs.hit;
    case 'view':
      // A coalesced view costs no gas. A node runs an abandoned view to its end all the same.
      return outcome === 'miss' || (outcome === 'error' && upstreamMs > 0)
        ? costs.miss + gasUnitsOf(gasUsed) * costs.gasUnit
        : costs.hit;
    case 'encode':
      return costs.encode + (bodyBytes / 1_024) * costs.encodeKiB;
    case 'submit':
    case 'pass':
      return costs[operation];
  }
}
