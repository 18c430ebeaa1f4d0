/** The history that a tier's answers belong to, as the store and Redis have them. */
import type { Registry } from 'prom-client';
import type { Journal } from '../../metrics/index.ts';
import type { MemoryCache } from '../memory/memory.ts';
import type { HistoryParts } from './membership.ts';
import type { Term } from './terms.ts';

/** Parts of which a tier that outlives the process is built; the functions reach the fleet. */
export interface TierParts extends Pick<
  HistoryParts,
  'readRoots' | 'onReplaced' | 'onForeign' | 'generation' | 'outageFromMs'
> {
  readonly memory: MemoryCache;
  readonly registry: Registry;
  readonly journal: Journal;
  /** Processes of this gateway, which share its rates. */
  readonly processes: number;
  readonly chainId: () => number | undefined;
  /** The ledger's name, once it is known. */
  readonly ledger: () => string | undefined;
}

/** Interval of comparisons of a tier's history by a single process: each node gets fewer than one request a second. */
const historyMs = 2_500;
/** A term without a beat for this many intervals has no members. */
const missedBeats = 2.4;

/** The trouble of a tier whose history nodes have not confirmed. */
export const unverified = 'nodes have not confirmed the history of its ledger yet';

/** `make` of the present ledger and term, called once for each of them; `undefined` while one is not known. */
export function madeOnce<Made>(
  ledger: () => string | undefined,
  history: () => Term | undefined,
  make: (ledger: string, term: Term) => Made,
): () => Made | undefined {
  let known: { readonly ledger: string; readonly term: Term; readonly made: Made } | undefined;
  return () => {
    const [name, term] = [ledger(), history()];
    if (name === undefined || term === undefined) return undefined;
    if (known?.ledger !== name || known.term !== term) known = { ledger: name, term, made: make(name, term) };
    return known.made;
  };
}

/** Times of a tier's history, and the identity of its ledger: chain id and first transaction. */
export function tierHistory({ chainId, ledger, processes, ...parts }: TierParts) {
  const { generation, outageFromMs, readRoots, onReplaced, onForeign } = parts;
  const intervalMs = historyMs * processes;
  return {
    generation,
    outageFromMs,
    readRoots,
    onReplaced,
    onForeign,
    intervalMs,
    beatMs: intervalMs * missedBeats,
    ledger: (): string | undefined => {
      const [chain, name] = [chainId(), ledger()];
      return chain === undefined || name === undefined ? undefined : `${chain}.${name}`;
    },
  };
}
