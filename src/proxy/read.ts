/**
 * Reads of ledger state: the one place where cache and upstream meet.
 *
 * A pinned read is looked for in memory; a miss is shared by all who ask for it at the moment and goes to a node; the
 * policy decides whether the answer stays.
 */
import { Coalescer } from '../cache/coalesce.ts';
import { bodyDigest, type CachedResponse, type ContentCoding } from '../cache/entry.ts';
import { cacheKey, type AnswerForm, type CacheKey, type Operation } from '../cache/key.ts';
import type { MemoryCache } from '../cache/memory.ts';
import { committedVersion, decide } from '../cache/policy.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { CacheMetrics } from '../metrics/cache-metrics.ts';
import type { NodeAnswer, WireRequest } from '../upstream/exchange.ts';
import type { Fleet } from '../upstream/fleet.ts';
import type { Need } from '../upstream/select.ts';
import type { Sender } from '../upstream/sender.ts';
import { compress } from './compress.ts';

/** One read, parsed and canonical. `wire` is made from the canonical parts only. */
export interface Read {
  readonly operation: Operation;
  readonly subject: string;
  /** The version the client named. */
  readonly version: LedgerVersion | undefined;
  readonly form: AnswerForm;
  readonly wire: WireRequest;
  readonly need: Need;
}

/** Where an answer came from, for `Cache-Status`. */
export type Source =
  { readonly kind: 'memory' } | { readonly kind: 'upstream'; readonly name: string; readonly isCollapsed: boolean };

/** An answer ready to be written. `isFinal`: it is the answer for ever, and is kept. */
export interface Served {
  readonly entry: CachedResponse;
  readonly key: CacheKey | undefined;
  readonly isFinal: boolean;
  /** The gateway chose the version: the same question will be answered otherwise soon. */
  readonly isLatest: boolean;
  readonly source: Source;
}

interface Loaded {
  readonly entry: CachedResponse;
  readonly isFinal: boolean;
  readonly upstream: string;
}

export interface ReaderParts {
  readonly fleet: Fleet;
  readonly sender: Sender;
  readonly memory: MemoryCache;
  readonly metrics: CacheMetrics;
}

export class Reader {
  readonly #parts: ReaderParts;
  readonly #loads = new Coalescer<Loaded>();
  readonly #codings = new Coalescer<Buffer>();

  constructor(parts: ReaderParts) {
    this.#parts = parts;
  }

  /** What memory holds of the read. Nothing is waited for, so a hit costs no promise. */
  find(read: Read): Served | undefined {
    const key = this.#keyOf(read);
    const entry = key === undefined ? undefined : this.#parts.memory.find(key);
    if (entry === undefined) return undefined;
    this.#parts.metrics.hit();
    return { entry, key, isFinal: true, isLatest: false, source: { kind: 'memory' } };
  }

  /** Asks the fleet, together with everyone who asks for the same now. */
  async load(read: Read, signal: AbortSignal): Promise<Served> {
    const key = this.#keyOf(read);
    if (key === undefined) return this.ask(read, signal);
    this.#parts.metrics.miss();
    const { value, isLeader } = await this.#loads.run(key, signal, (shared) => this.#fetch(read, key, shared));
    if (!isLeader) this.#parts.metrics.coalesced.inc();
    return served(key, value, !isLeader);
  }

  /** Asks the fleet for this client alone, and keeps nothing. */
  async ask(read: Read, signal: AbortSignal): Promise<Served> {
    return served(undefined, await this.#fetch(read, undefined, signal), false);
  }

  /** The entry's body in `coding`: compressed once, and kept with the entry while that is in memory. */
  async codedBody({ entry, key }: Served, coding: ContentCoding, signal: AbortSignal): Promise<Buffer> {
    const known = entry.coded[coding];
    if (known !== undefined) return known;
    if (key === undefined) return compress(coding, entry.body);
    const { memory } = this.#parts;
    const { value } = await this.#codings.run(`${key}|${coding}` as CacheKey, signal, async () => {
      const body = await compress(coding, entry.body);
      const current = memory.find(key);
      if (current?.body === entry.body) memory.store(key, { ...current, coded: { ...current.coded, [coding]: body } });
      return body;
    });
    return value;
  }

  async #fetch(read: Read, key: CacheKey | undefined, signal: AbortSignal): Promise<Loaded> {
    const { sender, memory, metrics } = this.#parts;
    const { operation, form, version, need } = read;
    const answer = await sender.whole({ wire: read.wire, need, isIdempotent: true }, signal);
    const facts = { ...answer, contentType: header(answer, 'content-type') };
    const decision = decide({ operation, form, version, chainId: this.#parts.fleet.chainId ?? -1 }, facts);
    const isFinal = decision === 'stored' && key !== undefined;
    if (isFinal || decision !== 'stored') metrics.decided(decision);
    const entry = this.#entryOf(read, answer, {
      isFinal,
      isCommitted: decision === 'stored' && operation === 'transaction',
    });
    if (isFinal) memory.store(key, entry);
    return { entry, isFinal, upstream: answer.upstream.name };
  }

  #entryOf(
    read: Read,
    answer: NodeAnswer,
    { isFinal, isCommitted }: { readonly isFinal: boolean; readonly isCommitted: boolean },
  ): CachedResponse {
    const { dialect } = this.#parts.fleet;
    const isState = answer.status < 500 && read.operation !== 'transaction';
    return {
      status: answer.status,
      contentType: header(answer, 'content-type') ?? 'application/octet-stream',
      body: answer.body,
      // An unpinned read is of the state at the head that the answer's own headers tell.
      servedVersion:
        isState && (isFinal || read.version === undefined) ? (read.version ?? answer.info?.version) : undefined,
      committedAt: isCommitted ? (committedVersion(answer.body) ?? answer.info?.version) : undefined,
      gasUsed: header(answer, dialect.gasUsed),
      cursor: header(answer, dialect.cursor),
      digest: isFinal ? bodyDigest(answer.body) : '',
      coded: {},
      isImmutable: isFinal && read.version !== undefined,
    };
  }

  /** A read has a key when its answer can be final: pinned, or of a transaction; and the chain must be known. */
  #keyOf({ operation, subject, version, form }: Read): CacheKey | undefined {
    const { chainId } = this.#parts.fleet;
    if (chainId === undefined || (version === undefined && operation !== 'transaction')) return undefined;
    return cacheKey({ chainId, operation, subject, version, form });
  }
}

function served(key: CacheKey | undefined, { entry, isFinal, upstream }: Loaded, isCollapsed: boolean): Served {
  return {
    entry,
    key: isFinal ? key : undefined,
    isFinal,
    isLatest: false,
    source: { kind: 'upstream', name: upstream, isCollapsed },
  };
}

function header(answer: NodeAnswer, name: string): string | undefined {
  const value = answer.headers[name];
  return typeof value === 'string' ? value : undefined;
}
