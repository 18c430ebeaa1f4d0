/** Metrics of the config that is in force: how often it was read again, and when that last went well. */
import { Counter, Gauge, type Registry } from 'prom-client';

/** `unchanged`: nothing that can change while the gateway runs. `refused`: it is wrong, and nothing of it is in force. */
export type ReloadResult = 'applied' | 'unchanged' | 'refused';

export interface ReloadMetrics {
  reloaded(result: ReloadResult): void;
}

/** The start counts as the first time that it went well. */
export function createReloadMetrics(registry: Registry): ReloadMetrics {
  const registers = [registry];
  const reloads = new Counter({
    name: 'ledgergate_config_reloads_total',
    help: 'Times the config was read again while the gateway ran, by result.',
    labelNames: ['result'] as const,
    registers,
  });
  const lastSuccess = new Gauge({
    name: 'ledgergate_config_last_reload_success_timestamp_seconds',
    help: 'When the config was last read and found to be in order.',
    registers,
  });
  for (const result of ['applied', 'unchanged', 'refused']) reloads.inc({ result }, 0);
  lastSuccess.setToCurrentTime();
  return {
    reloaded: (result) => {
      reloads.inc({ result });
      if (result !== 'refused') lastSuccess.setToCurrentTime();
    },
  };
}
