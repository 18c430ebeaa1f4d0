/** Metrics of the fast path: its answers, and the connections that it hands over to the HTTP server. */
import type { Registry } from 'prom-client';
import { Counter, type Count } from './counter.ts';

/** `known`: from memory, under a target that was read before. `read`: whatever else it took as a read. */
export const frontAnswers = ['known', 'read'] as const;

export interface FastPathMetrics {
  readonly known: Count;
  readonly read: Count;
  readonly handovers: Count;
}

export function createFastPathMetrics(registry: Registry): FastPathMetrics {
  const requests = new Counter(registry, {
    name: 'ledgergate_fast_path_requests_total',
    help: 'Requests taken ahead of the HTTP server: known (answered from memory under a target that was read before), read (other reads).',
    labels: { kind: frontAnswers },
  });
  return {
    known: requests.of({ kind: 'known' }),
    read: requests.of({ kind: 'read' }),
    handovers: new Counter(registry, {
      name: 'ledgergate_fast_path_handovers_total',
      help: 'Connections that were left to the HTTP server, for good, by what came on them.',
    }).of({}),
  };
}
