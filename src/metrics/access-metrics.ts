/** Metrics of keys: how many are known, whether they could be read again, and whom they kept out. */
import type { Registry } from 'prom-client';
import { Counter } from './counter.ts';
import { combinations, labelSources } from './family.ts';
import { Gauge } from './gauge.ts';

/** Before it is known whose request it is. `unread`: a key came that may be one, before all keys had been read. */
const strangers = ['no key', 'bad key', 'misplaced key', 'unread'] as const;
/** Refusals of a known client. `not counted`: its request could not be counted. */
const known = ['operation', 'origin', 'limit', 'not counted'] as const;
const refusalReasons = [...strangers, ...known] as const;
/** Reason of a refusal, as its series is labelled. */
export type RefusalReason = (typeof refusalReasons)[number];

const keySources = ['file', 'redis'] as const;
const reloadOutcomes = ['ok', 'failed'] as const;

/** Events of keys and plans that are counted. */
export type AccessMetrics = ReturnType<typeof createAccessMetrics>;

/** Readings of each scrape. */
interface AccessGauges {
  readonly keys: number;
  /** Names of the plans. */
  readonly plans: Iterable<string>;
}

/** Registers the families of keys. `read` is called at each scrape. */
export function createAccessMetrics(registry: Registry, read: () => AccessGauges) {
  const refusals = new Counter(registry, {
    name: 'ledgergate_access_refusals_total',
    help: 'Requests refused for whom they were from, by reason and plan: no key, bad key, misplaced key (in the target), unread (keys are not known yet), operation, origin, limit, not counted (nobody could).',
    labels: { reason: refusalReasons, plan: labelSources.planOrNone },
    known: () => [
      ...combinations({ reason: strangers, plan: labelSources.planOrNone }),
      ...[...read().plans].flatMap((plan) => combinations({ reason: known, plan: labelSources.planOrNone }, { plan })),
    ],
  });
  const reloads = new Counter(registry, {
    name: 'ledgergate_keys_reloads_total',
    help: 'Times that changed keys were read (ok), or could not be, so that those from before stay in force (failed).',
    labels: { source: keySources, result: reloadOutcomes },
  });
  new Gauge(registry, {
    name: 'ledgergate_keys',
    help: 'Keys of clients that are known.',
    join: 'max',
    read: () => read().keys,
  });
  return {
    /** `plan`: empty where it is not known whose request it was. */
    refused: (reason: RefusalReason, plan = '') => refusals.inc({ reason, plan }),
    /** Keys were read again because they had changed, or could not be. */
    reloaded: (source: (typeof keySources)[number], result: (typeof reloadOutcomes)[number]) =>
      reloads.inc({ source, result }),
  };
}
