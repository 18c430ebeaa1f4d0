/** Heads of answers: what caches may do with them, where they come from, and the headers of their own. */
import { type Dialect, familyText, type LedgerVersion } from '../../ledger/index.ts';
import type { ContentCoding } from '../../cache/index.ts';
import type { Fleet } from '../../upstream/index.ts';
import type { ReadResult } from '../reads/index.ts';
import { varyOfAll } from './cors.ts';
import { entityTag } from './negotiate.ts';

/** Sources of the headers. */
interface AnswerHeadsParts {
  readonly fleet: Pick<Fleet, 'view' | 'dialect'>;
  /** Lower-case name of the header that carries clients' keys; absent with open access. */
  readonly keyHeader?: (() => string) | undefined;
  /** On: connections close after their answer. */
  readonly draining: { readonly isOn: boolean };
}

/**
 * Caches that may store an answer: all, the client's own, or none. `none` applies to POST: the answer depends on the
 * request's body, which caches ignore (RFC 9110 9.3.3, 13.1.2), and conditions do not apply.
 */
export type CacheScope = 'public' | 'private' | 'none';

/** Makes the heads of one process's answers, names and values in turn. */
export class AnswerHeads {
  readonly #parts: AnswerHeadsParts;
  readonly #dialect: Dialect;

  constructor(parts: AnswerHeadsParts) {
    this.#parts = parts;
    this.#dialect = parts.fleet.dialect;
  }

  /** Headers that many answers share, the content type first. */
  commonHeadOf(served: ReadResult, scope: CacheScope): string[] {
    const { entry, source } = served;
    return [
      'Content-Type',
      entry.contentType,
      'Vary',
      this.vary,
      'Cache-Status',
      this.#cacheStatus(source),
      'Cache-Control',
      cacheControl(served, scope),
    ];
  }

  /** Headers of one answer, except coding and length. */
  ownHeadOf({ entry, version, source, ageSeconds }: ReadResult, coding: ContentCoding | undefined): string[] {
    const head: string[] = [];
    // RFC 9111 5.1: the answer predates this request. A pinned version needs no revalidation.
    if (source.kind !== 'upstream') head.push('Age', String(ageSeconds));
    if (version !== undefined) head.push('Ledgergate-Served-Version', String(version));
    if (entry.gasUsed !== undefined) head.push(this.#dialect.gasUsed, entry.gasUsed);
    if (entry.cursor !== undefined) head.push(this.#dialect.cursor, entry.cursor);
    if (entry.ownHeaders !== undefined) {
      // A header may have become ledger-wide since: then only the live value is true.
      head.push(...familyText.list(entry.ownHeaders, this.#dialect, this.#parts.fleet.view.ledgerWideNames));
    }
    if (entry.digest !== '') head.push('ETag', entityTag(entry, coding));
    if (source.kind === 'upstream' && source.retryAfter !== undefined) head.push('Retry-After', source.retryAfter);
    return head;
  }

  /** Whether connections close after their answer. */
  get isDraining(): boolean {
    return this.#parts.draining.isOn;
  }

  /** `outage`: no node is reachable, and the ledger headers are the last ones (RFC 9211 2, parameters). */
  #cacheStatus(source: ReadResult['source']): string {
    const status = cacheStatus(source);
    return this.#parts.fleet.view.isPlain || source.kind === 'upstream' ? status : `${status}; outage`;
  }

  /** Request headers that select the bytes a cache may replay. */
  get vary(): string {
    const name = this.#parts.keyHeader?.();
    return name === undefined ? varyOfAll : `${varyOfAll}, ${name}`;
  }

  /** Head of the ledger info up to its length. */
  infoHead(version: LedgerVersion): string[] {
    const head = ['Content-Type', 'application/json; charset=utf-8', 'Vary', this.vary, 'Cache-Control', 'no-store'];
    head.push('Ledgergate-Served-Version', String(version));
    return head;
  }

  /** Head of an error, names and values of its own behind it. */
  errorHead(own: readonly string[]): string[] {
    return ['Content-Type', 'application/json', 'Vary', this.vary, 'Cache-Control', 'no-store', ...own];
  }
}

/** Head of a 304, from `commonHeadOf`: without the content type, which a cache would copy (RFC 9110 15.4.5). */
export function unchangedHead(commonHead: readonly string[]): string[] {
  return commonHead.slice(2);
}

function cacheStatus(source: ReadResult['source']): string {
  if (source.kind === 'memory') return 'ledgergate; hit; detail=memory';
  if (source.kind !== 'upstream')
    return `ledgergate; hit; detail=${source.kind}${source.isCollapsed ? '; collapsed' : ''}`;
  return `ledgergate; fwd=miss; detail=${source.name}${source.isCollapsed ? '; collapsed' : ''}`;
}

/**
 * Directives for caches in front (RFC 9111 5.2.2). State and finished history hold for ever; rendered history for the time
 * that the gateway keeps it too. The latest state, what only one node has reached, a short share and a transaction by hash,
 * which may be asked for while it is pending, are revalidated by their tag.
 */
function cacheControl({ entry, isProvisional, isLatest }: ReadResult, scope: CacheScope): string {
  if (scope === 'none' || entry.digest === '') return 'no-store';
  const isRevalidated = isLatest || entry.lifetimeMs === 0 || isProvisional || entry.committedAt !== undefined;
  if (isRevalidated) return scope === 'private' ? 'private, no-cache' : 'no-cache';
  const { lifetimeMs } = entry;
  return lifetimeMs === Infinity
    ? `${scope}, max-age=31536000, immutable`
    : `${scope}, max-age=${Math.floor(lifetimeMs / 1000)}`;
}
