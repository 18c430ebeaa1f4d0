/** Metrics of keys: how many are known, whether they could be read again, and whom they kept out. */
import { Counter, Gauge, type Registry } from 'prom-client';

/** `unread`: a key came that may be one, before all keys had been read. `not counted`: nobody could count it. */
export type RefusalReason =
  'no key' | 'bad key' | 'misplaced key' | 'unread' | 'operation' | 'origin' | 'limit' | 'not counted';

export interface AccessMetrics {
  /** `plan`: undefined where it is not known whose request it was. */
  refused(reason: RefusalReason, plan: string | undefined): void;
  /** Keys were read again because they had changed, or could not be. */
  reloaded(source: 'file' | 'redis', result: 'ok' | 'failed'): void;
}

/** `readKeys` is called at each scrape. */
export function createAccessMetrics(registry: Registry, readKeys: () => number): AccessMetrics {
  const registers = [registry];
  const refusals = new Counter({
    name: 'ledgergate_access_refusals_total',
    help: 'Requests that were refused for whom they were from, by reason and plan.',
    labelNames: ['reason', 'plan'] as const,
    registers,
  });
  const reloads = new Counter({
    name: 'ledgergate_keys_reloads_total',
    help: 'Readings of keys that had changed, or could not be read, by result.',
    labelNames: ['source', 'result'] as const,
    registers,
  });
  new Gauge({
    name: 'ledgergate_keys',
    help: 'Keys that are known.',
    aggregator: 'max',
    registers,
    collect() {
      this.set(readKeys());
    },
  });
  return {
    refused: (reason, plan = '') => refusals.inc({ reason, plan }),
    reloaded: (source, result) => reloads.inc({ source, result }),
  };
}
