/** Metrics of keys: their number, reloads and refusals. */
import type { Registry } from 'prom-client';
import { combinations, Counter, Gauge, labelSources } from '../metrics/index.ts';

/** Refusals without a client. `unread`: the key may be valid, but not all keys have been read yet. */
const clientless = ['no key', 'bad key', 'misplaced key', 'unread'] as const;
/** Refusals of a client. `not counted`: limits could not count the request. */
const ofClient = ['operation', 'origin', 'limit', 'not counted'] as const;
/** Every reason of a refusal by key, origin or limits. */
const refusalReasons = [...clientless, ...ofClient] as const;
/** Label `reason` of a refusal. */
export type RefusalReason = (typeof refusalReasons)[number];

const keySources = ['file', 'redis'] as const;
const reloadOutcomes = ['ok', 'failed'] as const;

/** Counts events of keys. */
export type AccessMetrics = ReturnType<typeof createAccessMetrics>;

/** Readings of each scrape. */
interface AccessGauges {
  readonly keys: number;
  readonly plans: Iterable<string>;
}

/** Registers the families of keys. `read` is called at each scrape. */
export function createAccessMetrics(registry: Registry, read: () => AccessGauges) {
  const refusals = new Counter(registry, {
    name: 'ledgergate_access_refusals_total',
    help: 'Requests refused by their key, origin or limits, by reason and plan: no key, bad key, misplaced key (in the target), unread (keys are not known yet), operation, origin, limit, not counted.',
    labels: { reason: refusalReasons, plan: labelSources.planOrNone },
    known: () => [
      ...combinations({ reason: clientless, plan: labelSources.planOrNone }),
      ...[...read().plans].flatMap((plan) =>
        combinations({ reason: ofClient, plan: labelSources.planOrNone }, { plan }),
      ),
    ],
  });
  const reloads = new Counter(registry, {
    name: 'ledgergate_keys_reloads_total',
    help: 'Times that changed keys were read (ok), or that some were refused or none could be read (failed).',
    labels: { source: keySources, result: reloadOutcomes },
  });
  new Gauge(registry, {
    name: 'ledgergate_keys',
    help: 'Keys of clients that are known.',
    join: 'max',
    read: () => read().keys,
  });
  return {
    /** `plan` is empty for a request without a client. */
    refused: (reason: RefusalReason, plan = '') => refusals.inc({ reason, plan }),
    reloaded: (source: (typeof keySources)[number], result: (typeof reloadOutcomes)[number]) =>
      reloads.inc({ source, result }),
  };
}
