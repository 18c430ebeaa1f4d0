/** What is running. */
import type { Registry } from 'prom-client';
import { Gauge } from './gauge.ts';

export interface Build {
  /** Of the package. */
  readonly version: string;
  /** Of Node, with its `v`. */
  readonly node: string;
  readonly dialect: (typeof dialects)[number];
}

const dialects = ['node', 'aptos'] as const;

export function createBuildMetrics(registry: Registry, build: Build): void {
  new Gauge(registry, {
    name: 'ledgergate_build_info',
    help: 'Always 1: which version runs, on which Node, and what its headers are called (dialect).',
    labels: { version: 'version of the package', node: 'version of Node', dialect: dialects },
    join: 'first',
    read: () => [[{ ...build }, 1]],
  });
}
