/**
 * Purges: the reads that each scope covers, its text in messages between replicas, and the steps of one in this process,
 * in Redis and at the other replicas.
 */
import { Address } from '../ledger/index.ts';
import { digestMark, keyOn, keyText, textHash, type CacheKey } from './key.ts';
import { kinds, operations, type Operation } from './kinds.ts';

/** The reads that a purge drops. */
export type PurgeScope =
  /** One read at one version. */
  | { readonly kind: 'read'; readonly key: CacheKey }
  /** One read at every version; `read` is its `readText`. */
  | { readonly kind: 'versions'; readonly read: string }
  /** State and events of an account, and all views and table items, which may depend on any account. */
  | { readonly kind: 'account'; readonly chainId: number; readonly address: Address }
  | { readonly kind: 'everything' };

/** Prefixes of the pages that may depend on an account's state. `chainId`: the key's first part. */
export function accountStarts(chainId: number, address: string): readonly string[] {
  const own = ofAccount.flatMap((operation) => [
    `${chainId}|${operation}|${address}/`,
    // A digest as subject may belong to any account.
    `${chainId}|${operation}|${digestMark}`,
  ]);
  return [...own, ...ofAnyAccount.map((operation) => `${chainId}|${operation}|`)];
}

const ofAccount = operations.filter((operation) => kinds[operation].accounts === 'own');
const ofAnyAccount = operations.filter((operation) => kinds[operation].accounts === 'any');

/** Numbers that memory has in place of a page's text. A purge compares hashes: a collision drops one read too many. */
export interface PurgeMarks {
  /** Hash of the read without its version. */
  readonly read: number;
  /** Hash of the account; 0: none. Kinds and subjects that may be of any account count for every one of their chain. */
  readonly account: number;
  /** Index of the kind of read in `operations`, or -1. */
  readonly kind: number;
}

const anyAccount = '*';

/** The marks of a page. */
export function marksOf(page: string): PurgeMarks {
  return { read: markOf(page, page.lastIndexOf('|') + 1), account: accountMark(page), kind: kindOf(page) };
}

/** Without a slice of the text: each store looks for the kind. */
function kindOf(page: string): number {
  const from = page.indexOf('|') + 1;
  const length = page.indexOf('|', from) - from;
  return operations.findIndex((kind) => kind.length === length && page.startsWith(kind, from));
}

/** A mark whose reads a purge covers. `kind`: 0, every read; 1, the mark of a read; 2, that of an account. */
export interface ScopeMark {
  readonly kind: 0 | 1 | 2;
  readonly mark: number;
}

/** The scope as marks. */
export function scopeMarks(scope: Exclude<PurgeScope, { kind: 'read' }>): readonly ScopeMark[] {
  switch (scope.kind) {
    case 'versions':
      return [{ kind: 1, mark: markOf(scope.read) }];
    case 'account':
      return [scope.address, anyAccount].map((name) => ({ kind: 2, mark: markOf(`${scope.chainId}|${name}`) }));
    case 'everything':
      return [{ kind: 0, mark: 0 }];
  }
}

/** A predicate: whether a page with these marks is within the scope. */
export function marksMatcher(
  scope: Exclude<PurgeScope, { kind: 'read' }>,
): (marks: Pick<PurgeMarks, 'read' | 'account'>) => boolean {
  const wanted = scopeMarks(scope);
  return ({ read, account }) => wanted.some(({ kind, mark }) => kind === 0 || mark === (kind === 1 ? read : account));
}

function accountMark(page: string): number {
  const operationAt = page.indexOf('|') + 1;
  const subjectAt = page.indexOf('|', operationAt) + 1;
  const operation = page.slice(operationAt, subjectAt - 1) as Operation;
  // Pages of another format name kinds that this one lacks.
  const accounts = kinds[operation]?.accounts ?? 'none';
  if (accounts === 'none') return 0;
  const isOfAny = accounts === 'any' || page.startsWith(digestMark, subjectAt);
  if (isOfAny) return markOf(`${page.slice(0, operationAt)}${anyAccount}`);
  return markOf(page, operationAt, subjectAt, page.indexOf('/', subjectAt));
}

/** Hash of the text up to `end`, then from `from` to `to`, without a copy: each store computes two. */
function markOf(text: string, end = text.length, from = end, to = end): number {
  return textHash(text, from, to, textHash(text, 0, end)) >>> 0;
}

/** A predicate: whether a key is within the scope. */
export function keyMatcher(scope: PurgeScope): (key: CacheKey) => boolean {
  if (scope.kind === 'read') return ({ page, slot }) => page === scope.key.page && slot === scope.key.slot;
  const matches = marksMatcher(scope);
  return ({ page }) => matches(marksOf(page));
}

/** The scope as text in messages between replicas, the inverse of `findScope`. */
export function formatScope(scope: PurgeScope): string {
  switch (scope.kind) {
    case 'read':
      return `read ${keyText(scope.key)}`;
    case 'versions':
      return `versions ${scope.read}`;
    case 'account':
      return `account ${scope.chainId} ${scope.address}`;
    case 'everything':
      return 'everything';
  }
}

/** The scope in a text; `undefined` for any other form. */
export function findScope(text: string): PurgeScope | undefined {
  if (text === 'everything') return { kind: 'everything' };
  const [, kind = '', rest = ''] = /^(read|versions|account) (.+)$/s.exec(text) ?? [];
  if (kind === 'versions') return { kind, read: rest };
  if (kind === 'read') {
    const [, page, slot] = /^(.+)@(\d{1,4})$/s.exec(rest) ?? [];
    return page === undefined ? undefined : { kind, key: keyOn(page, Number(slot)) };
  }
  const [, chainId, hex = ''] = /^(\d{1,3}) (0x[0-9a-f]{1,64})$/.exec(rest) ?? [];
  const address = kind === 'account' ? Address.find(hex) : undefined;
  return address === undefined ? undefined : { kind: 'account', chainId: Number(chainId), address };
}

/** The reads that a purge dropped from memory here, and whether the store hides them. */
export interface ForgottenReads {
  readonly reads: number;
  readonly isStoreClear: boolean | undefined;
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
