/** Parts of the history that a tier's answers belong to, as the store and Redis have them. */
import type { Registry } from 'prom-client';
import type { HistoryParts } from '../../cache/history/membership.ts';
import type { MemoryCache } from '../../cache/memory/memory.ts';
import type { Journal } from '../../proxy/operations/status/events.ts';

/** Parts of which a tier that outlives the process is built; the functions reach the fleet. */
export interface TierParts extends Pick<
  HistoryParts,
  'readRoots' | 'onReplaced' | 'onForeign' | 'generation' | 'outageFromMs'
> {
  readonly memory: MemoryCache;
  readonly registry: Registry;
  readonly journal: Journal;
  readonly chainId: () => number | undefined;
  /** The ledger's name, once it is known. */
  readonly ledger: () => string | undefined;
  /** Processes of this gateway, which share the rate of comparisons. */
  readonly processes: number;
}

/** Interval of comparisons of a tier's history by a single process: each node gets fewer than one request a second. */
const historyMs = 2_500;
/** A term without a beat for this many intervals has no members. */
const missedBeats = 2.4;

/** The trouble of a tier whose history nodes have not confirmed. */
export const unverified = 'nodes have not confirmed the history of its ledger yet';

/** Times of a tier's history, and the identity of its ledger: chain id and first transaction. */
export function tierHistory({ chainId, ledger, processes, ...parts }: TierParts) {
  const { generation, outageFromMs, readRoots, onReplaced, onForeign } = parts;
  const intervalMs = historyMs * processes;
  const ledgerName = (): string | undefined => {
    const [chain, name] = [chainId(), ledger()];
    return chain === undefined || name === undefined ? undefined : `${chain}.${name}`;
  };
  return {
    generation,
    outageFromMs,
    readRoots,
    onReplaced,
    onForeign,
    intervalMs,
    beatMs: intervalMs * missedBeats,
    ledger: ledgerName,
  };
}
