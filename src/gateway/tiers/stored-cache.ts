/** Builds the store: answers on the machine's disk, and the history that they belong to. */
import type { StoreConfig } from '../../config/config.ts';
import { History } from '../../cache/history/history.ts';
import type { ReadFlights, StoreTier } from '../../cache/tiers.ts';
import { StoreRegistry } from '../../cache/store/registry.ts';
import { AnswerStore, type StorePlace } from '../../cache/store/store.ts';
import { createStoreMetrics } from '../../metrics/tier-metrics.ts';
import { tierHistory, unverified, type TierParts } from './tier-history.ts';

/** Parts of which the store is built. */
export interface StoredCacheParts extends TierParts {
  /** The name of this start of the gateway, which its processes share. */
  readonly run: string;
  /** Absent in a single process. */
  readonly flights: ReadFlights | undefined;
  readonly followMs: () => number;
}

/** The store in use. */
export interface StoredCache extends StoreTier {
  /** Resolves when the file is open, or its absence is certain. */
  readonly started: Promise<void>;
  readonly history: History;
  /** The present fault, without its path. */
  readonly trouble: () => string | undefined;
  close(): Promise<void>;
}

/** Opens the store in the background. */
export function buildStoredCache(config: StoreConfig, parts: StoredCacheParts): StoredCache {
  const { memory, journal, run } = parts;
  const { beatMs, ...ofHistory } = tierHistory(parts);
  const trouble = () => store.fault ?? (history.term === undefined ? unverified : undefined);
  const metrics = createStoreMetrics(parts.registry, () => ({ ...store.size, isUp: trouble() === undefined }));
  const started = Promise.withResolvers<void>();
  let fault: string | undefined;
  const store: AnswerStore = new AnswerStore({
    folder: config.path,
    maxBytes: config.maxBytes,
    run,
    place: placeOf(ofHistory.ledger, () => history.term),
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
  return {
    started: started.promise,
    store,
    flights: parts.flights,
    followMs: parts.followMs,
    onLookup: (outcome) => metrics.lookedUp(outcome),
    history,
    trouble,
    close: () => {
      history.close();
      return store.close();
    },
  };
}

/** The present ledger and term, as one object for each of them. */
function placeOf(
  ledger: () => string | undefined,
  history: () => StorePlace['term'] | undefined,
): () => StorePlace | undefined {
  let known: StorePlace | undefined;
  return () => {
    const [name, term] = [ledger(), history()];
    if (name === undefined || term === undefined) return undefined;
    if (known?.ledger !== name || known.term !== term) known = { ledger: name, term };
    return known;
  };
}
