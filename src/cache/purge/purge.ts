/**
 * A purge of this process, Redis and the other replicas. Each replica drops its reads and pending writes twice: before
 * Redis is cleared, and after, because it may have copied an old answer from Redis meanwhile.
 */
import type { ForgottenReads } from '../tiers.ts';
import { formatScope, type PurgeScope } from './purge-scope.ts';

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
  /** Replicas that were notified, and those that acknowledged in time (docs/openapi.yaml). */
  readonly replicas: { readonly told: number; readonly cleared: number } | 'unavailable' | 'off';
}

/** The other replicas that a purge reached. */
export interface NotifiedReplicas {
  readonly notified: number;
  /** Replicas that acknowledged the purge in time. */
  readonly acknowledged: number;
}

/** The purge of Redis and of the other replicas. */
interface SharedPurge {
  /** Deletes from Redis; the number of keys, or `undefined` when Redis was not cleared. */
  clear(scope: PurgeScope): Promise<number | undefined>;
  /** Purges the other replicas; `undefined` when the message was not published. */
  publishPurge(scope: PurgeScope): Promise<NotifiedReplicas | undefined>;
}

/** The newest purge that a tier which outlives the process has carried out. */
export interface PurgeMark {
  /** Its id; `undefined`: not known. */
  read(): string | undefined;
  record(id: string): void;
}

/**
 * Purges the scope here, in Redis and at the other replicas. A failure of Redis makes it incomplete. `forget` drops the
 * scope here: see `ReadThrough.purge`. `shared`: absent without Redis.
 */
export async function purge(
  scope: PurgeScope,
  forget: (scope: PurgeScope) => Promise<ForgottenReads>,
  shared: SharedPurge | undefined,
): Promise<PurgeResult> {
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
    replicas: peers === undefined ? 'unavailable' : { told: peers.notified, cleared: peers.acknowledged },
  };
}

/** The outcome in this process; the last step decides about the store. */
function hereOf(steps: readonly ForgottenReads[]): Pick<PurgeResult, 'isComplete' | 'memory' | 'store'> {
  const memory = steps.reduce((sum, { reads }) => sum + reads, 0);
  const isStoreClear = steps.at(-1)?.isStoreClear;
  if (isStoreClear === undefined) return { isComplete: true, memory, store: 'off' };
  return { isComplete: isStoreClear, memory, store: isStoreClear ? 'cleared' : 'unavailable' };
}

function haveAllCleared(peers: NotifiedReplicas | undefined): boolean {
  return peers !== undefined && peers.acknowledged >= peers.notified;
}
