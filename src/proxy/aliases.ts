/**
 * Request targets that have been parsed before. Clients repeat the same text, and looking it up costs a fraction of
 * parsing it; it also lets a hit be answered before any routing.
 */
import { LRUCache } from 'lru-cache';
import type { ContentCoding } from '../cache/entry.ts';
import type { AnswerForm } from '../ledger/answer-form.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { RouteName } from '../metrics/http-metrics.ts';
import type { Read } from './read.ts';

/** A target's canonical read. */
export interface Alias {
  readonly route: RouteName;
  readonly read: Read;
  /** The head that it was answered with last, from memory. */
  prepared?: PreparedHead | undefined;
}

/** The part of an answer's head that is the same for all who are given this answer. */
export interface PreparedHead {
  /** Of the answer in memory (`MemoryCache.stampOf`). */
  readonly stamp: number;
  readonly version: LedgerVersion | undefined;
  readonly coding: ContentCoding | undefined;
  readonly status: number;
  /** As it goes on the wire, from the status line on. */
  readonly text: string;
}

/** Bound of the texts and the reads they stand for, in bytes; targets are at most 16 kB. */
export const aliasBytes = 24 * 1024 * 1024;
/** What a read takes beside its texts, the map's slots and a prepared head included. Measured: 540 to 640 and 450. */
const overheadBytes = 1_100;

export class Aliases {
  readonly #known = new LRUCache<string, Alias>({
    maxSize: aliasBytes,
    // Three texts of their own, each ASCII: a byte per character.
    sizeCalculation: ({ read }, key) => overheadBytes + key.length + read.subject.length + read.wire.path.length,
  });

  find(target: string, form: AnswerForm): Alias | undefined {
    return this.#known.get(aliasOf(target, form));
  }

  /** `target`: a text by itself, and no part of a longer one, which would be kept with it. */
  learn(target: string, alias: Alias): void {
    // A transaction's answers are final by their hash, which is hardly parsed at all.
    if (alias.read.operation !== 'transaction') this.#known.set(aliasOf(target, alias.read.form), alias);
  }
}

/** A target holds no space, so the two parts cannot run into each other. */
function aliasOf(target: string, form: AnswerForm): string {
  return form === 'json' ? target : `${target} ${form}`;
}
