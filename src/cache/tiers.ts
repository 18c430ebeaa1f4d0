/** The tiers beside memory, and the results of reads through them. */
import type { Registry } from 'prom-client';
import type { CancelSignal, LedgerVersion } from '../ledger/index.ts';
import type { Journal, Span } from '../metrics/index.ts';
import type { CachedResponse, Miss } from './record.ts';
import type { EpochRegistry } from './epoch/registry.ts';
import type { MemoryCache } from './memory/memory.ts';
import type { Leases } from './redis/leases.ts';
import type { SharedTier } from './redis/shared-tier.ts';
import type { AnswerStore } from './store/store.ts';

/** The process that a tier beside memory is a part of, and its epochs of the nodes' ledger. */
export interface TierParts {
  readonly memory: MemoryCache;
  readonly registry: Registry;
  readonly journal: Journal;
  readonly epochs: EpochRegistry;
}

/** The node that answered, and facts of its answer that are not the read's. */
interface Origin {
  readonly upstream: string;
  readonly tookMs: number;
  /** Version of its answer to an unpinned read. */
  readonly version: LedgerVersion | undefined;
  /** `Retry-After` of its error. */
  readonly retryAfter: string | undefined;
}

/** The result of a load. */
export interface Loaded {
  readonly answer: CachedResponse;
  /** A tier that had the answer: no node was asked. */
  readonly origin: Origin | 'store' | 'redis';
  /** The head of the node's own ledger when it answered; absent where no node reported one. */
  readonly head?: bigint | undefined;
  /** The answer is above the second newest head: memory alone keeps it, until another node is there. */
  readonly awaited?: Awaited | undefined;
}

/** A version that only one node has reached. */
export interface Awaited {
  readonly version: bigint;
  /** Whether other nodes are so close behind that nodes in step explain it. */
  readonly isNear: boolean;
  /** The head of the answer's node by now: the other tiers take answers of nodes that have reached their checkpoints. */
  head(): bigint;
  /** The answer is dropped when no other node has come so far after this long. */
  readonly withinMs: number;
}

/** Reads an answer from a node. `span`: the parent of the spans that the load begins. */
export type AnswerLoad = (signal: CancelSignal, span: Span | undefined) => Promise<Loaded>;

/** Redis: the answers that replicas share, and the leases that let one replica read for all. */
export interface SecondTier {
  readonly tier: SharedTier;
  readonly leases: Leases;
  /** Counts look-ups in Redis by outcome, with their duration. */
  readonly onLookup: (outcome: 'hit' | Miss, seconds: number) => void;
  /** Counts reads by the lease's decision. */
  readonly onTurn: (turn: 'lead' | 'alone' | 'followed') => void;
}

/** The reads that the workers of a machine make. It only saves work: in doubt, a worker reads on its own. */
export interface ReadFlights {
  /**
   * Waits for another worker's read of this name, for at most `withinMs`. `lead`: read for all workers. `look`: that read
   * has ended, and the store may have its answer. Never rejects.
   */
  enter(name: string, withinMs: number): Promise<'lead' | 'look'>;
  /** Ends a read of this worker. */
  leave(name: string): void;
}

/** The store on the machine's disk. */
export interface StoreTier {
  readonly store: AnswerStore;
  /** Absent in a single process. */
  readonly flights?: ReadFlights | undefined;
  /** Longest wait for another worker's read, in ms. */
  readonly followMs: () => number;
  /** Counts look-ups by outcome. */
  readonly onLookup: (outcome: 'hit' | Miss) => void;
}

/** The reads that a purge dropped from memory here, and whether the store hides them. */
export interface ForgottenReads {
  readonly reads: number;
  readonly isStoreClear: boolean | undefined;
}
