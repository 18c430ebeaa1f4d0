/** Builds the store: answers on the machine's disk, and the history that they belong to. */
import type { Config } from '../../config/index.ts';
import { History } from '../history/history.ts';
import { madeOnce, tierHistory, unverified, type TierParts } from '../history/tier-history.ts';
import { createStoreMetrics } from '../tier-metrics.ts';
import type { ReadFlights, StoreTier } from '../tiers.ts';
import { StoreRegistry } from './registry.ts';
import { AnswerStore } from './store.ts';

/** Parts of which the store is built. */
export interface StoredCacheParts extends TierParts {
  /** The name of this start of the gateway, which its processes share. */
  readonly run: string;
  /** The other workers; absent in a single process. */
  readonly peers: { readonly flights: ReadFlights } | undefined;
  /** Live settings of the config; `timeoutMs`: longest wait for another worker's read. */
  readonly settings: { readonly sender: { readonly timeoutMs: number } };
}

/** The store in use, with the history that its answers belong to. Opens in the background. */
export function createStoredCache(config: NonNullable<Config['cache']['store']>, parts: StoredCacheParts) {
  const { memory, journal, run, peers, processes, settings } = parts;
  const { beatMs, ...ofHistory } = tierHistory(parts);
  const trouble = (): string | undefined => store.fault ?? (history.term === undefined ? unverified : undefined);
  const metrics = createStoreMetrics(parts.registry, () => ({ ...store.size, isUp: trouble() === undefined }));
  const started = Promise.withResolvers<void>();
  let fault: string | undefined;
  const store: AnswerStore = new AnswerStore({
    folder: config.path,
    maxBytes: config.maxBytes,
    isShared: processes > 1,
    run,
    place: madeOnce(
      ofHistory.ledger,
      () => history.term,
      (ledger, term) => ({ ledger, term }),
    ),
    findAnswer: (digest) => memory.findAnswer(digest),
    onWritten: (outcome, answers) => metrics.wrote(outcome, answers),
    onFault: (next) => {
      started.resolve();
      if (next === fault) return;
      fault = next;
      if (next === undefined) {
        journal.record('store back', {}, 'the store is in use');
        void history.check();
      } else journal.record('store away', { reason: next }, 'the store is not in full use: answers go on without it');
    },
  });
  const registry = new StoreRegistry({ store, beatMs, run });
  const history: History = new History({ registry, ...ofHistory });
  const tier: StoreTier = {
    store,
    flights: peers?.flights,
    followMs: () => settings.sender.timeoutMs,
    onLookup: (outcome) => metrics.lookedUp(outcome),
  };
  return {
    ...tier,
    /** Resolves when the file is open, or its absence is certain. */
    started: started.promise,
    history,
    /** The present fault, without its path. */
    trouble,
    close: () => {
      history.close();
      return store.close();
    },
  };
}
