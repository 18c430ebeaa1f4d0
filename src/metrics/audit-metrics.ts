/** Metrics of the audit: how many reads were asked of a second node, with which result, and who disagreed with whom. */
import type { Registry } from 'prom-client';
import { Counter } from './counter.ts';
import { open } from './words.ts';

/**
 * `inconclusive`: the second node gave no final answer. `no second node`: none surely holds the version. `skipped`: too
 * many are under way, or nodes have no connection to spare.
 */
export const auditResults = [
  'equal',
  'other spelling',
  'disagreement',
  'inconclusive',
  'no second node',
  'skipped',
] as const;
export type AuditResult = (typeof auditResults)[number];

export interface AuditMetrics {
  audited(result: AuditResult): void;
  /** Names in order, so that a pair has one series. */
  disagreed(upstream: string, other: string): void;
}

export function createAuditMetrics(registry: Registry): AuditMetrics {
  const audits = new Counter(registry, {
    name: 'ledgergate_audits_total',
    help: 'Pinned reads that were drawn to be asked of a second upstream, by result.',
    labels: { result: auditResults },
  });
  const disagreements = new Counter(registry, {
    name: 'ledgergate_audit_disagreements_total',
    help: 'Pinned reads that two upstreams answered differently, by pair, names in order; a pair has no series before.',
    labels: { upstream: open.upstream, other: open.upstream },
  });
  return {
    audited: (result) => audits.inc({ result }),
    disagreed: (upstream, other) => disagreements.inc({ upstream, other }),
  };
}
