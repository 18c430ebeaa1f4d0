/** Metrics of reloads, of the config and of certificates with their expiry and handshakes, and of the build. */
import type { Registry } from 'prom-client';
import { Counter } from './counter.ts';
import { Gauge } from './gauge.ts';

/** `unchanged`: no key that a running gateway can change. `refused`: invalid, and none of it is in force. */
const reloadResults = ['applied', 'unchanged', 'refused'] as const;
/** Label `result` of a reload. */
export type ReloadResult = (typeof reloadResults)[number];

/** Counts reloads. */
export type ReloadMetrics = ReturnType<typeof createReloadMetrics>;

/** Registers the families of reloads; the start counts as a success. */
export function createReloadMetrics(registry: Registry) {
  let succeededAtSeconds = Date.now() / 1000;
  let isSuccessful = true;
  const reloads = new Counter(registry, {
    name: 'ledgergate_config_reloads_total',
    help: 'Times the config was read again while the gateway ran: applied, unchanged (nothing that can change now), refused (it is wrong).',
    labels: { result: reloadResults },
  });
  new Gauge(registry, {
    name: 'ledgergate_config_last_reload_success_timestamp_seconds',
    help: 'When the config was last read and found to be in order, Unix time.',
    read: () => succeededAtSeconds,
  });
  new Gauge(registry, {
    name: 'ledgergate_config_last_reload_successful',
    help: '0 while the config file, as it was read last, is wrong and what was in force before still is; 1 otherwise.',
    read: () => Number(isSuccessful),
  });
  return {
    reloaded: (result: ReloadResult) => {
      reloads.inc({ result });
      isSuccessful = result !== 'refused';
      if (isSuccessful) succeededAtSeconds = Date.now() / 1000;
    },
  };
}

interface Build {
  /** Version of the package. */
  readonly version: string;
  /** Version of Node, with its `v`. */
  readonly node: string;
  readonly dialect: (typeof dialects)[number];
}

const dialects = ['auto', 'node', 'aptos'] as const;

/** Registers the family that describes the build. */
export function createBuildMetrics(registry: Registry, build: Build): void {
  new Gauge(registry, {
    name: 'ledgergate_build_info',
    help: 'Always 1: which version runs, on which Node, and what the config calls its headers (dialect).',
    labels: { version: 'version of the package', node: 'version of Node', dialect: dialects },
    join: 'first',
    read: () => [[{ ...build }, 1]],
  });
}
