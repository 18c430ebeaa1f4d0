/**
 * Request targets that have been parsed before. Clients repeat the same text, and looking it up costs a fraction of
 * parsing it; it also lets a hit be answered before any routing.
 */
import { LRUCache } from 'lru-cache';
import type { RouteName } from '../metrics/http-metrics.ts';
import type { Read } from './read.ts';

/** A target's canonical read. */
export interface Alias {
  readonly route: RouteName;
  readonly read: Read;
}

/** Bound of the texts and the reads they stand for, in bytes; targets are at most 16 kB. */
export const aliasBytes = 16 * 1024 * 1024;
/** What a read takes beside its texts, the map's slots included. Measured: 540 to 640. */
const overheadBytes = 650;

export class Aliases {
  readonly #known = new LRUCache<string, Alias>({
    maxSize: aliasBytes,
    // Three texts of their own, each ASCII: a byte per character.
    sizeCalculation: ({ read }, key) => overheadBytes + key.length + read.subject.length + read.wire.path.length,
  });

  find(target: string, accept: string | undefined): Alias | undefined {
    return this.#known.get(aliasOf(target, accept));
  }

  learn(target: string, accept: string | undefined, alias: Alias): void {
    // A transaction's answers are final by their hash, which is hardly parsed at all.
    if (alias.read.operation !== 'transaction') this.#known.set(aliasOf(target, accept), alias);
  }
}

/** A target holds no space, so the two parts cannot run into each other. */
function aliasOf(target: string, accept: string | undefined): string {
  return accept === undefined ? target : `${target} ${accept}`;
}
