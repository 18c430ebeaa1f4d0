/**
 * Parsed targets of reads, each with a prepared head of its last hit. Clients repeat targets, and a look-up costs a
 * fraction of parsing.
 */
import type { CacheLocation, ContentCoding } from '../../cache/index.ts';
import type { AccessOperation } from '../../access/index.ts';
import type { AnswerForm, LedgerVersion } from '../../ledger/index.ts';
import type { Count } from '../../metrics/index.ts';
import type { Read } from '../reads/index.ts';
import type { Route } from './message.ts';

/**
 * Caches that may store an answer: all, the client's own, or none. `none` applies to POST: the answer depends on the
 * request's body, which caches ignore (RFC 9110 9.3.3, 13.1.2), and conditions do not apply.
 */
export type CacheScope = 'public' | 'private' | 'none';

/** A target's route and canonical read. */
export class CachedTarget {
  readonly route: Route;
  readonly read: Read;
  /** Head of the last answer from memory. */
  prepared: PreparedHead | undefined;

  constructor(route: Route, read: Read) {
    this.route = route;
    this.read = read;
  }

  /** Caches that may store the answer to a client without a key: none to a request with a body (RFC 9110 9.3.3). */
  get scope(): 'public' | 'none' {
    return this.route.kind === 'posted' ? 'none' : 'public';
  }

  get operation(): AccessOperation {
    return this.route.operation;
  }
}

/** The head of the last answer under a target, valid while memory holds the answer. */
export interface PreparedHead extends CacheLocation {
  readonly shared: SharedHead;
  /** Counts its answers. */
  readonly hits: Count;
  /** Last use that memory recorded: `secondsOf(performance.now())`. */
  usedAt: number;
  readonly version: LedgerVersion | undefined;
  /** `Age` in `own`. */
  readonly ageSeconds: number;
  /** Headers behind those of `shared`, up to the live headers. */
  readonly own: string;
  /** Length of `own` in a 304, without the headers of its content. */
  readonly unchangedLength: number;
  /** Length of the coded body; -1 if memory lacks the coding: then only a 304 is possible. */
  readonly sentBytes: number;
  /** The whole head as HTTP/2 sends it: lower-case names and values in turn. Made on first use. */
  fields: readonly string[] | undefined;
}

/** Whole seconds: small integers lie in the object itself, other numbers cost a heap box. */
export function secondsOf(ms: number): number {
  return (ms / 1000) | 0;
}

/**
 * The part of a prepared head that many targets share, one object for all: with many targets, each cache line of a hit
 * that is its target's alone costs as much as a look-up.
 */
export interface SharedHead {
  readonly chainId: number | undefined;
  /** `FleetView.ledgerWideNames` at its preparation: the head has no header of these names. */
  readonly ledgerWideNames: ReadonlySet<string>;
  /** The gateway chose the version. */
  readonly isLatest: boolean;
  /** See `ReadResult.isProvisional`: the head holds no longer than that. */
  readonly isProvisional: boolean;
  readonly scope: CacheScope;
  /** The coding that the client prefers, if the answer depends on it. */
  readonly wanted: ContentCoding | undefined;
  readonly isCodable: boolean;
  /** The coding of the body. */
  readonly coding: ContentCoding | undefined;
  readonly status: number;
  /** Status line and first headers. */
  readonly bytes: Buffer;
  /** The same of a 304. */
  readonly unchanged: Buffer;
  /** Names of the head that CORS exposes beside those of every answer (`Cors.furtherIn`). */
  readonly exposed: string;
  /** Status and first headers as HTTP/2 sends them. Made on first use. */
  fields: readonly string[] | undefined;
}

/** Bound of targets and reads, in bytes; a target has at most 16 kB. */
export const targetCacheBytes = 32 * 1024 * 1024;
/** Bytes of an entry beside its texts, with map slots (measured: 540 to 640), a prepared head (350) and its fields. */
const overheadBytes = 1_350;

/** Characters of a name. V8 hashes longer texts by their length alone: 300 names of 60 kB made each look-up take 1.3 ms. */
const longestName = 16_383;

/** When the cache is full, 1 in so many new targets is admitted. */
const admitOneIn = 16;

/** The parts by which requests with a body differ. */
interface PostedTarget {
  readonly target: string;
  readonly contentType: string;
  readonly form: AnswerForm;
  readonly body: Buffer;
}

/** Copies latin1 `text` that is kept: a substring would keep its whole source in memory. */
export function ownCopy(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

/** Targets by text and answer form, within `targetCacheBytes`. */
export class TargetCache {
  /** Targets used since the last turn-over; the next one drops all others. */
  #fresh = new Map<string, CachedTarget>();
  #older = new Map<string, CachedTarget>();
  #freshBytes = 0;
  #refused = 0;

  find(target: string, form: AnswerForm): CachedTarget | undefined {
    return this.findNamed(nameOf(target, form));
  }

  /** The read of a request with a body, by `postedName`. */
  findNamed(name: string): CachedTarget | undefined {
    const cached = this.#fresh.get(name);
    if (cached !== undefined) return cached;
    const older = this.#older.get(name);
    if (older !== undefined) this.addNamed(ownCopy(name), older);
    return older;
  }

  /**
   * Whether to add one more target. When the cache is full, 1 in 16 new targets is admitted: frequent ones soon, and
   * rare ones do not displace them.
   */
  admits(): boolean {
    if (this.#older.size === 0) return true;
    this.#refused = (this.#refused + 1) % admitOneIn;
    return this.#refused === 0;
  }

  /** `target`: a text of its own (`ownCopy`), because the cache keeps it. */
  add(target: string, cached: CachedTarget): void {
    // A hash needs hardly any parsing.
    if (cached.read.operation !== 'transaction') this.addNamed(nameOf(target, cached.read.form), cached);
  }

  addPosted({ target, contentType, form, body }: PostedTarget, cached: CachedTarget): void {
    this.addNamed(ownCopy(postedName(target, contentType, form, body.toString('latin1'))), cached);
  }

  /** Forgets all targets, because another config may change the heads of their answers. */
  clear(): void {
    this.#fresh = new Map();
    this.#older = new Map();
    this.#freshBytes = 0;
  }

  drop(target: string, form: AnswerForm): void {
    const name = nameOf(target, form);
    this.#fresh.delete(name);
    this.#older.delete(name);
  }

  /** Drops a name that is too long. `name`: of `postedName`, a text of its own. */
  addNamed(name: string, cached: CachedTarget): void {
    if (name.length > longestName) return;
    const { read } = cached;
    // Texts are ASCII: a byte per character.
    const { path, body } = read.wire;
    const bytes = overheadBytes + name.length + read.subject.length + path.length + (body?.length ?? 0);
    if (this.#freshBytes + bytes > targetCacheBytes / 2) {
      this.#older = this.#fresh;
      this.#fresh = new Map();
      this.#freshBytes = 0;
    }
    this.#freshBytes += bytes;
    this.#fresh.set(name, cached);
  }
}

/**
 * Name of a request with a body. Names of targets alone begin with a slash, and none of the parts before the body holds a
 * line feed: two requests share no name. `body`: latin1.
 */
export function postedName(target: string, contentType: string, form: AnswerForm, body: string): string {
  return `${form} ${contentType}\n${target}\n${body}`;
}

/** A target holds no space, so the two parts cannot run into each other. */
function nameOf(target: string, form: AnswerForm): string {
  return form === 'json' ? target : `${target} ${form}`;
}
