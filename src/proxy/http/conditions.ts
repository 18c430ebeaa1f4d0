/** Entity tags of answers, and `If-None-Match` (RFC 9110 13.1.2). */
import type { CachedResponse, ContentCoding } from '../../cache/entry.ts';
import { matchesTag } from './negotiate.ts';

/** Strong tag: equal tags mean equal bytes, so each coding has its own (RFC 9110 8.8.3.3). */
export function entityTag(entry: CachedResponse, coding: ContentCoding | undefined): string {
  return coding === undefined ? `"${entry.digest}"` : `"${entry.digest}-${coding}"`;
}

/** The tag that `If-None-Match` is compared with; `undefined`: conditions do not apply to the answer. */
export function conditionalTag(entry: CachedResponse, coding: ContentCoding | undefined): string | undefined {
  return entry.digest === '' || entry.status !== 200 ? undefined : entityTag(entry, coding);
}

/** Whether the answer to a client with this `If-None-Match` is 304. `tag`: of `conditionalTag`. */
export function isUnchanged(condition: string | undefined, tag: string | undefined): boolean {
  return condition !== undefined && tag !== undefined && matchesTag(condition, tag);
}
