/** Metrics of encode_submission: answered here or by a node and why, and the standing proof. */
import { Counter, Gauge, type Registry } from 'prom-client';

export interface EncodeMetrics {
  local(): void;
  /** `reason` is of a closed set. */
  forwarded(reason: string): void;
  /** A request that only the gateway could answer, because no node was reachable. */
  refused(): void;
  checked(result: 'equal' | 'mismatch' | 'inconclusive' | 'skipped'): void;
}

/** `readDistrusted` is called at each scrape. */
export function createEncodeMetrics(registry: Registry, readDistrusted: () => number): EncodeMetrics {
  const registers = [registry];
  const requests = new Counter({
    name: 'ledgergate_encode_requests_total',
    help: 'Requests for a signing message, by who answered and, where a node did, why.',
    labelNames: ['outcome', 'reason'] as const,
    registers,
  });
  const checks = new Counter({
    name: 'ledgergate_encode_checks_total',
    help: 'Local encodings compared with a node in the background, by result.',
    labelNames: ['result'] as const,
    registers,
  });
  new Gauge({
    name: 'ledgergate_encode_distrusted_functions',
    help: 'Functions left to nodes because a node once encoded them differently.',
    aggregator: 'max',
    registers,
    collect() {
      this.set(readDistrusted());
    },
  });
  const local = requests.labels({ outcome: 'local', reason: '' });
  return {
    local: () => local.inc(),
    forwarded: (reason) => requests.inc({ outcome: 'forwarded', reason }),
    refused: () => requests.inc({ outcome: 'refused', reason: 'no node' }),
    checked: (result) => checks.inc({ result }),
  };
}
