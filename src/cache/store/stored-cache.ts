/** Builds the store: answers on the machine's disk, and the epochs that they belong to. */
import type { Config } from '../../config/index.ts';
import { type TierEpoch, unverified, type EpochFields } from '../epoch/registry.ts';
import type { PurgeMark } from '../purge/purge.ts';
import { createStoreMetrics } from '../cache-metrics.ts';
import type { ReadFlights, StoreTier, TierParts } from '../tiers.ts';
import { AnswerStore } from './store.ts';

/** The process that uses the store. */
export interface StoreParts extends TierParts {
  /** The name of this start of the gateway, which its processes share. */
  readonly run: string;
  /** Processes of this gateway, which share the store. */
  readonly processes: number;
  /** The other workers; absent in a single process. */
  readonly peers: { readonly flights: ReadFlights } | undefined;
  /** Live settings of the config; `timeoutMs`: longest wait for another worker's read. */
  readonly settings: { readonly sender: { readonly timeoutMs: number } };
}

/** The store in use, with the epochs that its answers belong to. Opens in the background. */
export function createStoredCache(config: NonNullable<Config['cache']['store']>, parts: StoreParts) {
  const { memory, journal, epochs, run, peers, processes, settings } = parts;
  const trouble = (): string | undefined => store.fault ?? (epoch.current === undefined ? unverified : undefined);
  const metrics = createStoreMetrics(parts.registry, () => ({ ...store.size, isUp: trouble() === undefined }));
  const started = Promise.withResolvers<void>();
  let fault: string | undefined;
  const setup = { folder: config.path, maxBytes: config.maxBytes, isShared: processes > 1, run };
  const store: AnswerStore = new AnswerStore(setup, {
    place: () => epoch.current,
    findAnswer: (digest) => memory.findAnswer(digest),
    onWritten: (outcome, answers) => metrics.wrote(outcome, answers),
    onFault: (next) => {
      started.resolve();
      if (next === fault) return;
      fault = next;
      if (next === undefined) {
        journal.record('store back', {}, 'the store is in use');
        void epochs.check();
      } else journal.record('store away', { reason: next }, 'the store is not in full use: answers go on without it');
    },
  });
  const epoch: TierEpoch = epochs.join(epochsIn(store, run));
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
    /** The mark of the newest purge of a ledger's replicas, among the store's fields. */
    purgeMark: (ledger: string): PurgeMark => ({
      read: () => store.reader?.fields(`purges ${ledger}`)?.['newest'],
      record: (value) => {
        // Without it the next start hides everything.
        if (store.isClear)
          void store.link.do({ kind: 'put field', ledger: `purges ${ledger}`, field: 'newest', value });
      },
    }),
    /** The present fault, without its path. */
    trouble,
    close: () => store.close(),
  };
}

/** Epochs in the store's file: read by the process's own connection, written by the thread. */
function epochsIn(store: AnswerStore, run: string): EpochFields {
  const { link } = store;
  return {
    read: async (ledger) => store.reader?.fields(ledger),
    put: (ledger, field, value) => link.do({ kind: 'put field', ledger, field, value }),
    delete: (ledger, fields) => link.do({ kind: 'delete fields', ledger, fields }),
    beat: (ledger, epoch) => link.do({ kind: 'beat', ledger, epoch, run }),
    // A process that was killed is no member: it may not have noticed a rollback of its last moments. Nor is one of an
    // earlier start of the gateway.
    hasMembers: async (ledger, epoch, beatMs) =>
      store.reader
        ?.members(ledger, epoch, run, Date.now() - beatMs)
        ?.some((pid) => pid !== process.pid && isRunning(pid)),
  };
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
