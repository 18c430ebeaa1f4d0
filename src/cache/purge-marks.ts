/**
 * What memory remembers of a page so that a purge finds it, in place of its text: two numbers. Pages of different reads
 * or accounts may have the same one, by chance once in 10^15 pairs, or because somebody chose them so: then a read too
 * many is forgotten, and read again.
 */
import { digestMark } from './key.ts';
import type { PurgeScope } from './purge-scope.ts';

export interface PurgeMarks {
  /** Of the read, whatever the version. */
  readonly read: number;
  /** Of the account; 0: of none. Views, and subjects that are kept as digests, may be of any account of their chain. */
  readonly account: number;
}

const anyAccount = '*';

export function marksOf(page: string): PurgeMarks {
  return { read: markOf(page, page.lastIndexOf('|') + 1), account: accountMark(page) };
}

/** Tells of a page's marks whether something on it is within the scope, which is of more than one read. */
export function marksMatcher(scope: Exclude<PurgeScope, { kind: 'read' }>): (marks: PurgeMarks) => boolean {
  switch (scope.kind) {
    case 'versions': {
      const wanted = markOf(scope.read);
      return ({ read }) => read === wanted;
    }
    case 'account': {
      const wanted = markOf(`${scope.chainId}|${scope.address}`);
      const any = markOf(`${scope.chainId}|${anyAccount}`);
      return ({ account }) => account === wanted || account === any;
    }
    case 'everything':
      return () => true;
  }
}

/** Of the text of chain and account, where they stand: this is done for each page that is kept. */
function accountMark(page: string): number {
  const operationAt = page.indexOf('|') + 1;
  if (page.startsWith('transaction|', operationAt)) return 0;
  const subjectAt = page.indexOf('|', operationAt) + 1;
  const isOfAny = page.startsWith('view|', operationAt) || page.startsWith(digestMark, subjectAt);
  if (isOfAny) return markOf(`${page.slice(0, operationAt)}${anyAccount}`);
  return markOf(page, operationAt, subjectAt, page.indexOf('/', subjectAt));
}

/**
 * Two multiplicative hashes of 26 bits each, as one number, of the text up to `end` and, behind that, from `from` to
 * `to`. No cryptography: a collision does no harm, and it is made often.
 */
function markOf(text: string, end = text.length, from = end, to = end): number {
  let high = 0x811c9dc5;
  let low = 0x9e3779b9;
  const length = end + to - from;
  for (let index = 0; index < length; index += 1) {
    const code = text.charCodeAt(index < end ? index : index - end + from);
    high = Math.imul(high ^ code, 0x01000193);
    low = Math.imul(low ^ code, 0x85ebca6b);
  }
  high = Math.imul(high ^ (high >>> 15), 0x2c1b3c6d);
  low = Math.imul(low ^ (low >>> 13), 0xc2b2ae35);
  return ((high ^ (high >>> 16)) >>> 6) * 2 ** 26 + ((low ^ (low >>> 16)) >>> 6);
}
