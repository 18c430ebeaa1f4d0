/**
 * A purge of the whole: this process, Redis, and the other replicas. Everybody forgets and stops writing before Redis
 * is cleared, and forgets once more afterwards what was found there in between: who reads after the purge is answered
 * by a node.
 */
import type { PurgeScope } from './purge-scope.ts';
import type { PeerPurge } from './purge-news.ts';

export interface PurgerParts {
  /** Forgets here: see `ReadThrough.purge`. */
  readonly forget: (scope: PurgeScope) => Promise<number>;
  /** Absent: nothing is shared. */
  readonly shared: SharedPurge | undefined;
}

export interface SharedPurge {
  /** Deletes from Redis: the number of keys, or `undefined` when that was not possible. */
  clear(scope: PurgeScope): Promise<number | undefined>;
  /** Makes the other replicas forget; `undefined` when they could not be told. */
  publishPurge(scope: PurgeScope): Promise<PeerPurge | undefined>;
}

/** What was cleared. `off`: there is no Redis, and no other replica is known. */
export interface PurgeResult {
  /** Whether everything that was meant to be cleared is. If not, the purge is to be repeated. */
  readonly isComplete: boolean;
  /** Reads that memory here held. */
  readonly memory: number;
  /** Keys deleted, or references where the purge was of one read. */
  readonly redis: number | 'unavailable' | 'off';
  readonly replicas: PeerPurge | 'unavailable' | 'off';
}

export async function purge(scope: PurgeScope, { forget, shared }: PurgerParts): Promise<PurgeResult> {
  const memory = await forget(scope);
  if (shared === undefined) return { isComplete: true, memory, redis: 'off', replicas: 'off' };
  const before = await shared.publishPurge(scope);
  const redis = (await shared.clear(scope)) ?? 'unavailable';
  const after = await shared.publishPurge(scope);
  const again = await forget(scope);
  // Who was still at it when Redis was cleared may have written there since, whatever it says afterwards.
  const told = haveAllCleared(before) ? after : before;
  return {
    isComplete: redis !== 'unavailable' && haveAllCleared(told),
    memory: memory + again,
    redis,
    replicas: told ?? 'unavailable',
  };
}

function haveAllCleared(told: PeerPurge | undefined): boolean {
  return told !== undefined && told.cleared >= told.told;
}
