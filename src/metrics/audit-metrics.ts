/** Metrics of the audit: how many reads were asked of a second node, with which result, and who disagreed with whom. */
import { Counter, type Registry } from 'prom-client';

/**
 * `inconclusive`: the second node gave no final answer. `no second node`: none surely holds the version. `skipped`: too
 * many are under way, or nodes have no connection to spare.
 */
export type AuditResult = 'equal' | 'other spelling' | 'disagreement' | 'inconclusive' | 'no second node' | 'skipped';

export interface AuditMetrics {
  audited(result: AuditResult): void;
  /** Names in order, so that a pair has one series. */
  disagreed(upstream: string, other: string): void;
}

export function createAuditMetrics(registry: Registry): AuditMetrics {
  const registers = [registry];
  const audits = new Counter({
    name: 'ledgergate_audits_total',
    help: 'Pinned reads that were drawn to be asked of a second upstream, by result.',
    labelNames: ['result'] as const,
    registers,
  });
  const disagreements = new Counter({
    name: 'ledgergate_audit_disagreements_total',
    help: 'Pinned reads that two upstreams answered differently, by pair, names in order.',
    labelNames: ['upstream', 'other'] as const,
    registers,
  });
  return {
    audited: (result) => audits.inc({ result }),
    disagreed: (upstream, other) => disagreements.inc({ upstream, other }),
  };
}
