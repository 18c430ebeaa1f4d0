/** The pages that a purge covers, by their text: memory itself compares hashes. */
import { accountStarts, type PurgeScope } from '../../src/cache/purge.ts';

/** A predicate: whether the scope covers reads on a page. */
export function pageMatcher(scope: Exclude<PurgeScope, { kind: 'read' }>): (page: string) => boolean {
  switch (scope.kind) {
    case 'versions':
      return (page) => page.startsWith(scope.read) && /^\d*$/.test(page.slice(scope.read.length));
    case 'account': {
      const starts = accountStarts(scope.chainId, scope.address);
      return (page) => starts.some((start) => page.startsWith(start));
    }
    case 'everything':
      return () => true;
  }
}
