/** Metrics of the process itself: what runs, and how loud its log is. */
import type { Registry } from 'prom-client';
import type { Config } from '../config/config.ts';
import { createBuildMetrics } from '../metrics/reload-metrics.ts';
import { createLogMetrics, LogLines } from '../metrics/log-metrics.ts';
import { packageVersion } from './package-version.ts';

/** To be called in the process that answers operators. `lines`: absent where nobody counts them. */
export function addProcessMetrics(registry: Registry, { dialect }: Config, lines: LogLines | undefined): void {
  createBuildMetrics(registry, { version: packageVersion(), node: process.version, dialect });
  addLogMetrics(registry, lines);
}

export function addLogMetrics(registry: Registry, lines = new LogLines()): void {
  createLogMetrics(registry, lines);
}
