/** Metrics of request bodies that are held in memory. */
import type { Registry } from 'prom-client';
import { Counter, type Count } from './counter.ts';
import { Gauge } from './gauge.ts';

/** `heldBytes`: read at each scrape. Counts bodies that lost their place to others. */
export function createBodyMetrics(registry: Registry, heldBytes: () => number): { readonly ended: Count } {
  new Gauge(registry, {
    name: 'ledgergate_http_body_bytes',
    help: 'Bytes of request bodies of more than 16 kB that are held, and of answers made of them.',
    read: heldBytes,
  });
  return {
    ended: new Counter(registry, {
      name: 'ledgergate_http_bodies_ended_total',
      help: 'Request bodies that were answered 503 before their end, because memory for bodies was short and they were the slowest of the clients that held the most.',
    }).of({}),
  };
}
