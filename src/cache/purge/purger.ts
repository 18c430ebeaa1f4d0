/**
 * A purge of this process, Redis and the other replicas. Every replica drops its reads and pending writes before Redis
 * is cleared, and once more afterwards, for reads found in Redis in between: a node answers every read after the purge.
 */
import { formatScope, type PurgeScope } from './purge-scope.ts';
import type { ForgottenReads } from '../tiers.ts';
import type { PeerPurge } from './purge-news.ts';

interface PurgerParts {
  /** Drops the scope here: see `ReadThrough.purge`. */
  readonly forget: (scope: PurgeScope) => Promise<ForgottenReads>;
  /** Absent without Redis. */
  readonly shared: SharedPurge | undefined;
}

/** The purge of Redis and of the other replicas. */
interface SharedPurge {
  /** Deletes from Redis; the number of keys, or `undefined` when Redis was not cleared. */
  clear(scope: PurgeScope): Promise<number | undefined>;
  /** Purges the other replicas; `undefined` when the message was not published. */
  publishPurge(scope: PurgeScope): Promise<PeerPurge | undefined>;
}

/** The outcome of a purge. `off`: no Redis is configured. */
export interface PurgeResult {
  /** The scope in words, as other replicas get it. */
  readonly scope: string;
  /** Whether everything was cleared. If not, the purge must be repeated. */
  readonly isComplete: boolean;
  /** Reads dropped from memory here. */
  readonly memory: number;
  /** The store hides the reads, for every worker. */
  readonly store: 'cleared' | 'unavailable' | 'off';
  /** Keys deleted, or references for the purge of one read. */
  readonly redis: number | 'unavailable' | 'off';
  readonly replicas: PeerPurge | 'unavailable' | 'off';
}

/** Purges the scope here, in Redis and at the other replicas. A failure of Redis makes it incomplete. */
export async function purge(scope: PurgeScope, { forget, shared }: PurgerParts): Promise<PurgeResult> {
  const text = formatScope(scope);
  const first = await forget(scope);
  if (shared === undefined) return { scope: text, ...hereOf([first]), redis: 'off', replicas: 'off' };
  const before = await shared.publishPurge(scope);
  const redis = (await shared.clear(scope)) ?? 'unavailable';
  const after = await shared.publishPurge(scope);
  const here = hereOf([first, await forget(scope)]);
  // A replica that had not cleared before Redis was may have written since: its second report does not count.
  const peers = haveAllCleared(before) ? after : before;
  return {
    scope: text,
    ...here,
    isComplete: here.isComplete && redis !== 'unavailable' && haveAllCleared(peers),
    redis,
    replicas: peers ?? 'unavailable',
  };
}

/** The outcome in this process; the last step decides about the store. */
function hereOf(steps: readonly ForgottenReads[]): Pick<PurgeResult, 'isComplete' | 'memory' | 'store'> {
  const memory = steps.reduce((sum, { reads }) => sum + reads, 0);
  const isStoreClear = steps.at(-1)?.isStoreClear;
  if (isStoreClear === undefined) return { isComplete: true, memory, store: 'off' };
  return { isComplete: isStoreClear, memory, store: isStoreClear ? 'cleared' : 'unavailable' };
}

function haveAllCleared(peers: PeerPurge | undefined): boolean {
  return peers !== undefined && peers.cleared >= peers.told;
}
