import { LRUCache } from 'lru-cache';

/** Accounts by name, bounded in number: the least recently used one is dropped for a new one, and `onDropped` called. */
export function createAccounts<T extends object>(most: number, onDropped: () => void = () => undefined) {
  return new LRUCache<string, T>({
    // Not `max`, which takes the memory of all of them at once.
    maxSize: most,
    sizeCalculation: () => 1,
    dispose: (_account, _name, reason) => {
      if (reason === 'evict') onDropped();
    },
  });
}
