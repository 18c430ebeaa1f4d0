/** Metrics of reads of the latest state: how old what they are given is, and how far behind the head. */
import type { Registry } from 'prom-client';
import { Histogram } from './histogram.ts';

export interface LatestMetrics {
  /** A read was answered from the state that reads of "latest" share. */
  observeStaleness(seconds: number): void;
  /** A read was answered from a state so many versions below the head that is believed now. */
  observeLag(versions: number): void;
}

export function createLatestMetrics(registry: Registry): LatestMetrics {
  const staleness = new Histogram(registry, {
    name: 'ledgergate_served_staleness_seconds',
    help: 'Age of the shared state when a read of the latest state is answered from it; latest.maxStaleness bounds it when the request comes.',
    buckets: [0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 1, 2.5, 5, 10],
  }).of({});
  const lag = new Histogram(registry, {
    name: 'ledgergate_served_version_lag_versions',
    help: 'Versions from the one that a read of the latest state is answered from to the newest that the fleet has told by then.',
    buckets: [0, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 100_000],
  }).of({});
  return {
    observeStaleness: (seconds) => staleness.observe(seconds),
    observeLag: (versions) => lag.observe(versions),
  };
}
