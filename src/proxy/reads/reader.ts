/**
 * Reads of ledger state: the one place where cache and upstream meet. A pinned read is looked up in memory; concurrent
 * misses share one request to a node; the policy decides whether the cache stores the answer.
 */
import { LRUCache } from 'lru-cache';
import {
  type Cache,
  cacheKey,
  type CacheKey,
  type CachedResponse,
  type CacheLocation,
  Coalescer,
  type ContentCoding,
  createEntry,
  kinds,
  type Loaded,
} from '../../cache/index.ts';
import { type AnswerContent, type CancelSignal, headerOf, type LedgerVersion } from '../../ledger/index.ts';
import type { Count, Span } from '../../metrics/index.ts';
import { type Fleet, LargeAnswerError, type NodeAnswer } from '../../upstream/index.ts';
import { isContentOf } from './asked-content.ts';
import type { Audits } from './audits.ts';
import { Compressor } from './compressor.ts';
import type { Tail } from './follower/tail.ts';
import {
  committedVersion,
  decide,
  lifetimeOf,
  isOfState,
  isSameAtAllNodes,
  newestIn,
  type Decision,
} from './policy.ts';
import type { Caller, Keyed, Read, ReadResult } from './read.ts';

/** Answers reads from memory, Redis or the fleet. Rejections are `GatewayError`. */
export class Reader {
  readonly #fleet: Fleet;
  readonly #cache: Pick<Cache, 'memory' | 'tiers' | 'metrics'>;
  readonly #tail: Tail;
  readonly #audits: Pick<Audits, 'begin' | 'settings'>;
  readonly #codings = new Coalescer<Buffer>();
  readonly #compressor = new Compressor();
  readonly #large = new LRUCache<string, true>({ max: 1_000, ttl: 600_000 });

  constructor(
    fleet: Fleet,
    cache: Pick<Cache, 'memory' | 'tiers' | 'metrics'>,
    tail: Tail,
    audits: Pick<Audits, 'begin' | 'settings'>,
  ) {
    this.#fleet = fleet;
    this.#cache = cache;
    this.#tail = tail;
    this.#audits = audits;
  }

  /** `MemoryCache.locate` of the read. A caller that serves the answer counts it by `hitsOf`. */
  locate(read: Read): CacheLocation | undefined {
    const key = this.keyOf(read);
    return key === undefined ? undefined : this.#cache.memory.locate(key);
  }

  /** Whether the list was too large to be read whole a while ago, at some version: it is streamed now. */
  isLarge(read: Read): boolean {
    return this.#large.size > 0 && this.#large.has(itemOf(read));
  }

  /** See `FleetView.generation`. */
  get generation(): number {
    return this.#fleet.generation;
  }

  /** See `ReadThrough.purges`; another generation is one, too: what was read before must not be used after. */
  get purges(): number {
    return this.#cache.tiers.purges;
  }

  /** Counts answers from `locate`; `find` counts its own. */
  hitsOf({ operation }: Read): Count {
    return this.#cache.metrics.hitsOf(operation);
  }

  /** Memory's answer, or a recent transaction's of the tail. Synchronous: a hit costs no promise. */
  find(read: Read): ReadResult | undefined {
    const { memory, tiers } = this.#cache;
    const key = this.keyOf(read);
    const entry = key && memory.find(key);
    if (key === undefined || entry === undefined) return isOfTail(read) ? this.#findInTail(read) : undefined;
    return this.#hitOf(read, entry, tiers.isProvisional(key));
  }

  #hitOf(read: Read, entry: CachedResponse, isProvisional: boolean): ReadResult {
    this.hitsOf(read).inc();
    const { version } = read;
    return { entry, version, isProvisional, isLatest: false, ageSeconds: 0, source: 'memory', isCollapsed: false };
  }

  /** See `ReadResult.isProvisional`, of memory's answer. */
  isProvisional(read: Read): boolean {
    const key = this.keyOf(read);
    return key !== undefined && this.#cache.tiers.isProvisional(key);
  }

  /**
   * Reads from Redis or the fleet; concurrent callers of the same read share one load. `min`: version that the answer to
   * a read of history must not be older than; absent for state, whose version decides it.
   */
  load(read: Read, caller: Caller, min?: LedgerVersion): Promise<ReadResult> {
    const keyed = this.#keyedOf(read);
    if (keyed === undefined) return this.ask(read, caller);
    const { tiers, metrics } = this.#cache;
    const { client, isAhead = false } = caller;
    if (!isAhead) metrics.miss(read.operation);
    const load = (signal: CancelSignal, span: Span | undefined): Promise<Loaded> =>
      this.#fetchPast(min, read, keyed, { client, signal, span });
    // A lease for a long poll would hold up reads of the same hash at other replicas.
    const isLeased = read.atOnce === undefined;
    return tiers.load(keyed.key, flightOf(read, min), caller, load, isLeased, (loaded, isLeader) => {
      if (!isLeader && !isAhead) metrics.coalesced.inc();
      const { committedAt } = loaded.answer;
      if (committedAt !== undefined && isOfTail(read)) this.#tail.recordCommitted(committedAt);
      return resultOf(read.version, loaded, !isLeader);
    });
  }

  /** Asks the fleet for this caller alone; nothing is stored. */
  async ask(read: Read, caller: Caller): Promise<ReadResult> {
    return resultOf(read.version, await this.#fetch(read, undefined, caller), false);
  }

  /** The body in `coding`, compressed once and stored with the entry in memory. */
  async codedBody({ entry }: ReadResult, coding: ContentCoding, caller: Caller): Promise<Buffer> {
    const { body, digest } = entry;
    const coded = entry.coded[coding];
    if (coded !== undefined) return coded;
    const { client } = caller;
    if (digest === '') return this.#compressor.compress(coding, body, caller);
    const compress = async (signal: CancelSignal): Promise<Buffer> => {
      const compressed = await this.#compressor.compress(coding, body, { client, signal });
      this.#cache.memory.addCoded(entry, coding, compressed);
      return compressed;
    };
    return this.#codings.run(`${digest}|${coding}`, { client, signal: caller.signal }, compress, (value) => value);
  }

  /** The tail's transaction, by the rules for its node's own answer (`#loadedOf`); it enters the cache. */
  #findInTail(read: Read): ReadResult | undefined {
    const found = this.#tail.find(read);
    const keyed = this.#keyedOf(read);
    if (found === undefined || keyed === undefined) return undefined;
    const fleet = this.#fleet;
    const { tiers, metrics } = this.#cache;
    const { version, info, ageMs } = found;
    const upstream = fleet.upstreams.find(({ name }) => name === found.upstream);
    if (upstream === undefined || upstream.isSuspect || isOfFork(upstream, version)) return undefined;
    if (upstream.chain.doubted !== undefined) return undefined;
    const decision = decide(read, found, { chainId: keyed.chainId, head: fleet.head });
    if (decision !== 'stored') return undefined;
    metrics.decided(decision);
    const lifetimeMs = lifetimeOf(read);
    const committedAt = read.operation === 'transaction' ? version : undefined;
    const loaded = {
      answer: entryOf(fleet, found, found.ownHeaders, { committedAt, lifetimeMs, isShared: true }),
      awaited: fleet.awaited(upstream, version),
      head: info?.version,
      origin: { upstream: upstream.name, tookMs: 0, version: undefined, retryAfter: undefined },
    };
    const { answer, awaited } = tiers.keep(keyed.key, loaded, lifetimeMs - ageMs);
    return this.#hitOf(read, answer, awaited !== undefined);
  }

  /** A node that holds the start of a list, or of a block, may be behind the version that the client has seen. */
  #fetchPast(min: LedgerVersion | undefined, read: Read, keyed: Keyed, caller: Caller): Promise<Loaded> {
    if (min === undefined) return this.#fetch(read, keyed, caller);
    const atMin = { ...read, need: { kind: 'head', min } as const };
    if (read.need.kind === 'head') return this.#fetch(atMin, keyed, caller);
    return this.#fetch(read, keyed, caller).then((loaded) => {
      const isOlder = loaded.answer.lifetimeMs === 0 && (loaded.head ?? min) < min;
      return isOlder ? this.#fetch(atMin, keyed, caller) : loaded;
    });
  }

  /** Asks the fleet. Without `keyed` the answer is not stored. */
  #fetch(read: Read, keyed: Keyed | undefined, { client, signal, span, onPlace }: Caller): Promise<Loaded> {
    const { operation, form, need, wire, atOnce } = read;
    const { generation } = this.#fleet;
    const request = {
      wire,
      atOnce,
      need,
      promised: form,
      isContent: (content: AnswerContent): boolean => isContentOf(read, content),
      isIdempotent: true,
      isView: operation === 'view',
      mayStream: kinds[operation].isList === true,
      client,
      span,
      onPlace,
    };
    return this.#fleet.sender.whole(request, signal).then(
      (answer) => this.#loadedOf(read, keyed, answer, generation),
      (error: unknown) => {
        if (error instanceof LargeAnswerError) this.#large.set(itemOf(read), true);
        throw error;
      },
    );
  }

  /** The node's answer with its lifetime. `generation`: of the fleet when it was asked. */
  #loadedOf(read: Read, keyed: Keyed | undefined, answer: NodeAnswer, generation: number): Loaded {
    const { version, operation } = read;
    const { info, upstream, tookMs } = answer;
    const fleet = this.#fleet;
    const { head } = fleet;
    const decision = decide(read, answer, { chainId: keyed?.chainId ?? fleet.chainId, head });
    // An answer of an earlier ledger, or of a node whose chain is in doubt, must not be stored for this one.
    const isOfNow = generation === fleet.generation && upstream.chain.doubted === undefined;
    const isFinal =
      decision === 'stored' && keyed !== undefined && isOfNow && !isOfFork(upstream, version ?? info?.version);
    if (isFinal && isSameAtAllNodes(read) && Math.random() < this.#audits.settings.share)
      this.#audits.begin({ read, answer, ...keyed });
    if (isFinal || decision !== 'stored') this.#cache.metrics.decided(decision);
    const committedAt = operation === 'transaction' ? shownCommitted(decision, answer) : undefined;
    // No node could ever satisfy a version above the believed head.
    const isBelieved = committedAt !== undefined && head !== undefined && committedAt <= head.version;
    return {
      answer: entryOf(fleet, answer, fleet.ownHeadersOf(answer), {
        committedAt: isBelieved ? committedAt : undefined,
        lifetimeMs: isFinal ? lifetimeOf(read) : 0,
        isShared: isFinal,
      }),
      awaited: isFinal ? fleet.awaited(upstream, newestIn(read, answer)) : undefined,
      head: info?.version,
      origin: {
        upstream: upstream.name,
        tookMs,
        // An unpinned read has the version in the answer's own headers.
        version: answer.status < 500 && version === undefined && isOfState(operation) ? info?.version : undefined,
        retryAfter: retryAfterOf(answer),
      },
    };
  }

  /** Cache key of a pinned read or of history; `undefined` for others, and before the chain id is known. */
  keyOf(read: Read): CacheKey | undefined {
    return this.#keyedOf(read)?.key;
  }

  #keyedOf(read: Read): Keyed | undefined {
    const { chainId } = this.#fleet;
    const { keyed } = read;
    if (keyed !== undefined && keyed.of === read && keyed.chainId === chainId) return keyed;
    const { operation, subject, version, form } = read;
    if (chainId === undefined || (version === undefined && isOfState(operation))) return undefined;
    read.keyed = { of: read, chainId, key: cacheKey({ chainId, operation, subject, version, form }) };
    return read.keyed;
  }
}

/** Whether the tail may have it: lists are counted there alone. */
function isOfTail({ operation, form }: Read): boolean {
  const isOfTransaction = operation === 'transaction' || operation === 'by_version' || operation === 'transactions';
  return isOfTransaction && form === 'json';
}

/** Whether the node's state at `version` may be of another history; `undefined`: of any version. */
function isOfFork({ forkedAt }: NodeAnswer['upstream'], version: bigint | undefined): boolean {
  return forkedAt !== undefined && (version === undefined || version >= forkedAt);
}

/** The item of a read at any version. */
function itemOf({ operation, subject, form }: Read): string {
  return `${operation}|${form}|${subject}`;
}

/**
 * Part of the flight's name. A read must not join one that began before an event which its client has seen: the
 * submission of its transaction, or the version `min`. A read that waits at the node would hold up one that does not, and
 * one at a version that the gateway chose ends where one of a client waits for another node.
 */
function flightOf({ need, atOnce }: Read, min: LedgerVersion | undefined): string {
  const submittedTo = need.kind === 'transaction' ? (need.submittedTo ?? '') : '';
  const chosen = need.kind === 'version' && need.isChosen === true ? 'chosen' : '';
  return `|${atOnce === undefined ? chosen : 'wait'}|${submittedTo}|${min ?? ''}`;
}

/** The version of the commit, or of the node's head, where the body shows none: a later version promises no less. */
function shownCommitted(decision: Decision, { info, json }: NodeAnswer): LedgerVersion | undefined {
  if (decision === 'too large') return info?.version;
  return decision === 'stored' ? (committedVersion(json) ?? info?.version) : undefined;
}

/** `Retry-After` of a node's error: no entry has it, because no cache stores such an answer. */
export function retryAfterOf({ status, headers }: Pick<NodeAnswer, 'status' | 'headers'>): string | undefined {
  return status < 400 ? undefined : headerOf(headers, 'retry-after');
}

/** The entry of a node's answer. `isShared`: requests after its flight get it, by its digest. */
export function entryOf(
  { dialect: { gasUsed, cursor } }: Fleet,
  { status, headers, body }: Pick<NodeAnswer, 'status' | 'headers' | 'body'>,
  ownHeaders: string | undefined,
  facts: {
    readonly committedAt?: LedgerVersion | undefined;
    readonly lifetimeMs: number;
    readonly isShared: boolean;
  },
): CachedResponse {
  const { committedAt, lifetimeMs, isShared } = facts;
  const content = {
    status,
    contentType: headerOf(headers, 'content-type') ?? 'application/octet-stream',
    body,
    committedAt,
    gasUsed: headerOf(headers, gasUsed),
    cursor: headerOf(headers, cursor),
    ownHeaders,
    lifetimeMs,
  };
  return createEntry(content, isShared);
}

/** The result of one read, at `version`, that waited for a load. */
export function resultOf(
  version: LedgerVersion | undefined,
  { answer, origin, awaited }: Loaded,
  isCollapsed: boolean,
): ReadResult {
  // A success has the read's version, even if it is not stored: it may be incomplete or compressed.
  const isStored = answer.lifetimeMs > 0;
  const asked = isStored || answer.status < 300 ? version : undefined;
  return {
    entry: answer,
    version: asked ?? (isStored || typeof origin === 'string' ? undefined : origin.version),
    isProvisional: awaited !== undefined,
    isLatest: false,
    ageSeconds: 0,
    source: origin,
    isCollapsed,
  };
}
