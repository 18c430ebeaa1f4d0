/** Joins the cache with the fleet, whose nodes confirm the history of its ledger. */
import { type Cache, createCache } from '../cache/index.ts';
import type { Config } from '../config/index.ts';
import type { LedgerVersion } from '../ledger/index.ts';
import type { Fleet } from '../upstream/index.ts';
import type { ServingContext } from './settings.ts';

/** Builds the cache of this process. */
export function buildCache(config: Config['cache'], fleet: Fleet, context: ServingContext): Cache {
  return createCache(config, {
    ...context,
    chainId: () => fleet.chainId,
    identity: fleet.identity,
    generation: () => fleet.generation,
    outageFromMs: () => fleet.outageFromMs,
    readRoots: (known, wantsNext) => fleet.readRoots(known, wantsNext),
    replaceHistory: (version) => fleet.replaceHistory(version as LedgerVersion),
    news: {
      onServed: (version) => fleet.onNews({ kind: 'served', version: version as LedgerVersion }),
      onRefused: (fingerprint, version) =>
        fleet.onNews({ kind: 'refused', fingerprint, version: version as LedgerVersion }),
    },
    onAwaited: () => fleet.lookAtSecond(),
  });
}
