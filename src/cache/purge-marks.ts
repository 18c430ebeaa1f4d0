/**
 * What memory remembers of a page so that a purge finds it, in place of its text: two numbers. Pages of different reads
 * or accounts may have the same one, once in 10^14 pairs: then one read too many is forgotten, and read again.
 */
import { hash } from 'node:crypto';
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
  const read = page.slice(0, page.lastIndexOf('|') + 1);
  const [chainId = '', operation = ''] = page.split('|', 2);
  const subject = page.slice(chainId.length + operation.length + 2);
  return { read: markOf(read), account: accountMark(chainId, operation, subject) };
}

/** Tells of a page's marks whether something on it is within the scope, which is of more than one read. */
export function marksMatcher(scope: Exclude<PurgeScope, { kind: 'read' }>): (marks: PurgeMarks) => boolean {
  switch (scope.kind) {
    case 'versions': {
      const wanted = markOf(scope.read);
      return ({ read }) => read === wanted;
    }
    case 'account': {
      const wanted = markOf(`${scope.chainId} ${scope.address}`);
      const any = markOf(`${scope.chainId} ${anyAccount}`);
      return ({ account }) => account === wanted || account === any;
    }
    case 'everything':
      return () => true;
  }
}

function accountMark(chainId: string, operation: string, subject: string): number {
  if (operation === 'transaction') return 0;
  const isOfAny = operation === 'view' || subject.startsWith(digestMark);
  return markOf(`${chainId} ${isOfAny ? anyAccount : subject.slice(0, subject.indexOf('/'))}`);
}

/** 48 bits of SHA-256: exact in a number. */
function markOf(text: string): number {
  return hash('sha256', text, 'buffer').readUIntBE(0, 6);
}
