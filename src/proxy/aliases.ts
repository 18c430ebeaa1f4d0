/**
 * Request targets that have been parsed before. Clients repeat the same text, and looking it up costs a fraction of
 * parsing it; it also lets a hit be answered before any routing.
 */
import type { CacheLocation } from '../cache/memory.ts';
import type { ContentCoding } from '../cache/entry.ts';
import type { AnswerForm } from '../ledger/answer-form.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { RouteName } from '../metrics/http-metrics.ts';
import type { Read } from './read.ts';

/** A target's canonical read. */
export interface Alias {
  readonly route: RouteName;
  readonly read: Read;
  /** Of its last answer from memory. */
  prepared?: PreparedHead | undefined;
}

/** What was found out about the last answer under a target, and holds as long as memory has it. */
export interface PreparedHead extends CacheLocation {
  /** The ledger that the answer is of. */
  readonly chainId: number | undefined;
  /** When the answer was last told to be in use: whole seconds of `performance.now()`. */
  usedAt: number;
  readonly version: LedgerVersion | undefined;
  /** The gateway chose the version. */
  readonly isLatest: boolean;
  /** What `own` says in `Age`. */
  readonly ageSeconds: number;
  /** The coding that the client wanted, where that matters to the answer. */
  readonly wanted: ContentCoding | undefined;
  readonly isCodable: boolean;
  /** The coding that it is given in. */
  readonly coding: ContentCoding | undefined;
  readonly status: number;
  /** The part of the head that many answers have in common, from the status line on: one buffer for all of them. */
  readonly common: Buffer;
  /** What comes behind it, up to the live headers. */
  readonly own: string;
  /** Of the body, as it is given and as it is. */
  readonly sentBytes: number;
  readonly bodyBytes: number;
}

/** Bound of the texts and the reads they stand for, in bytes; targets are at most 16 kB. */
export const aliasBytes = 32 * 1024 * 1024;
/** What a read takes beside its texts, the map's slots and a prepared head included. Measured: 540 to 640 and 300. */
const overheadBytes = 950;

/** Of targets that are not known, once those that are push each other out, one in so many is learnt. */
const learnOneIn = 16;

export class Aliases {
  /** Those that were used since the others were put aside, and the others, which go when these are too many. */
  #fresh = new Map<string, Alias>();
  #older = new Map<string, Alias>();
  #freshBytes = 0;
  #unlearnt = 0;

  find(target: string, form: AnswerForm): Alias | undefined {
    const name = aliasOf(target, form);
    const alias = this.#fresh.get(name);
    if (alias !== undefined) return alias;
    const older = this.#older.get(name);
    if (older !== undefined) this.#keep(ownCopy(name), older);
    return older;
  }

  /**
   * Whether it is worth while to learn one more target. While there is room each is; afterwards those that come often
   * are learnt soon all the same, and the others do not push out what they would be pushed out by themselves.
   */
  isWorthLearning(): boolean {
    if (this.#older.size === 0) return true;
    this.#unlearnt = (this.#unlearnt + 1) % learnOneIn;
    return this.#unlearnt === 0;
  }

  /** `target`: a text by itself (`ownCopy`), which is kept. */
  learn(target: string, alias: Alias): void {
    // A transaction's answers are final by their hash, which is hardly parsed at all.
    if (alias.read.operation !== 'transaction') this.#keep(aliasOf(target, alias.read.form), alias);
  }

  #keep(name: string, alias: Alias): void {
    const { read } = alias;
    // Three texts of their own, each ASCII: a byte per character.
    const bytes = overheadBytes + name.length + read.subject.length + read.wire.path.length;
    if (this.#freshBytes + bytes > aliasBytes / 2) {
      this.#older = this.#fresh;
      this.#fresh = new Map();
      this.#freshBytes = 0;
    }
    this.#freshBytes += bytes;
    this.#fresh.set(name, alias);
  }
}

/** A target holds no space, so the two parts cannot run into each other. */
function aliasOf(target: string, form: AnswerForm): string {
  return form === 'json' ? target : `${target} ${form}`;
}

/** A part of a text keeps the whole of it in memory; this is a text by itself. */
export function ownCopy(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}
