/** What is to be forgotten: a pure question to each key, and the text in which replicas tell each other. */
import { findAddress, type Address } from '../ledger/address.ts';
import { digestMark, keyOn, keyText, type CacheKey } from './key.ts';

export type PurgeScope =
  /** One read at one version. */
  | { readonly kind: 'read'; readonly key: CacheKey }
  /** One read at every version; `read` is its `readText`. */
  | { readonly kind: 'versions'; readonly read: string }
  /** Resources and modules of an account, and all views: a view's answer may depend on any account. */
  | { readonly kind: 'account'; readonly chainId: number; readonly address: Address }
  | { readonly kind: 'everything' };

/** Tells of a page of keys whether something on it is within the scope. */
export function pageMatcher(scope: PurgeScope): (page: string) => boolean {
  switch (scope.kind) {
    case 'read':
      return (page) => page === scope.key.page;
    case 'versions':
      return (page) => page.startsWith(scope.read) && /^\d*$/.test(page.slice(scope.read.length));
    case 'account': {
      const { chainId, address } = scope;
      // A subject that is kept as a digest may be of any account.
      const starts = ['resource', 'module'].flatMap((operation) => [
        `${chainId}|${operation}|${address}/`,
        `${chainId}|${operation}|${digestMark}`,
      ]);
      starts.push(`${chainId}|view|`);
      return (page) => starts.some((start) => page.startsWith(start));
    }
    case 'everything':
      return () => true;
  }
}

/** Tells of a key whether its read is within the scope. */
export function keyMatcher(scope: PurgeScope): (key: CacheKey) => boolean {
  const matches = pageMatcher(scope);
  if (scope.kind !== 'read') return ({ page }) => matches(page);
  return ({ page, slot }) => matches(page) && slot === scope.key.slot;
}

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

/** `undefined` for a text of another form. */
export function findScope(text: string): PurgeScope | undefined {
  if (text === 'everything') return { kind: 'everything' };
  const [, kind = '', rest = ''] = /^(read|versions|account) (.+)$/s.exec(text) ?? [];
  if (kind === 'versions') return { kind, read: rest };
  if (kind === 'read') {
    const [, page, slot] = /^(.+)@(\d{1,4})$/s.exec(rest) ?? [];
    return page === undefined ? undefined : { kind, key: keyOn(page, Number(slot)) };
  }
  const [, chainId, hex = ''] = /^(\d{1,3}) (0x[0-9a-f]{1,64})$/.exec(rest) ?? [];
  const address = kind === 'account' ? findAddress(hex) : undefined;
  return address === undefined ? undefined : { kind: 'account', chainId: Number(chainId), address };
}
