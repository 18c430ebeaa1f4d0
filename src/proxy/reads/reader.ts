/**
 * Reads of ledger state: the one place where cache and upstream meet. A pinned read is looked up in memory; concurrent
 * misses share one request to a node; the policy decides whether the cache stores the answer.
 */
import { LRUCache } from 'lru-cache';
import { isContentOf } from './asked-content.ts';
import {
  type Cache,
  cacheKey,
  type CacheKey,
  type CacheLocation,
  Coalescer,
  type ContentCoding,
  kinds,
  type Loaded,
} from '../../cache/index.ts';
import {
  committedVersion,
  decide,
  lifetimeOf,
  isOfState,
  isSameAtAllNodes,
  newestIn,
  type Decision,
  type AnswerFacts,
} from './policy.ts';
import { type AnswerContent, type CancelSignal, headerOf, type LedgerVersion } from '../../ledger/index.ts';
import type { Count, Span } from '../../metrics/index.ts';
import { type Fleet, LargeAnswerError, type NodeAnswer } from '../../upstream/index.ts';
import { joinFlights } from './fair-flights.ts';
import type { StoredRead } from './audits.ts';
import type { Caller } from './caller.ts';
import { Compressor } from './compressor.ts';
import { entryOf, resultOf, retryAfterOf, type Read, type ReadResult } from './read-result.ts';

/** Parts of a reader. */
export interface ReaderParts extends Pick<Cache, 'memory' | 'tiers' | 'metrics'> {
  readonly fleet: Fleet;
  readonly sender: Fleet['sender'];
  /** Called for each pinned read whose answer from a node is stored. */
  readonly onStored?: (stored: StoredRead) => void;
}

/** Key under which the cache stores an answer of this chain. */
interface CachePlace {
  readonly key: CacheKey;
  readonly chainId: number;
}

/** Answers reads from memory, Redis or the fleet. Rejections are `GatewayError`. */
export class Reader {
  readonly #parts: ReaderParts;
  readonly #codings = new Coalescer<Buffer>();
  readonly #compressor = new Compressor();
  readonly #large = new LRUCache<string, true>({ max: 1_000, ttl: 600_000 });

  constructor(parts: ReaderParts) {
    this.#parts = parts;
  }

  /** `MemoryCache.locate` of the read. A caller that serves the answer counts it by `hitsOf`. */
  locate(read: Read): CacheLocation | undefined {
    const key = this.keyOf(read);
    return key === undefined ? undefined : this.#parts.memory.locate(key);
  }

  /** Whether the list was too large to be read whole a while ago, at some version: it is streamed now. */
  isLarge(read: Read): boolean {
    return this.#large.size > 0 && this.#large.has(itemOf(read));
  }

  /** See `FleetView.generation`. */
  get generation(): number {
    return this.#parts.fleet.generation;
  }

  /** Counts answers from `locate`; `find` counts its own. */
  hitsOf({ operation }: Read): Count {
    return this.#parts.metrics.hitsOf(operation);
  }

  /** Memory's answer. Synchronous: a hit costs no promise. */
  find(read: Read): ReadResult | undefined {
    const key = this.keyOf(read);
    const entry = key === undefined ? undefined : this.#parts.memory.find(key);
    if (entry === undefined) return undefined;
    this.hitsOf(read).inc();
    const { version } = read;
    const isProvisional = this.isProvisional(read);
    return { entry, version, isProvisional, isLatest: false, ageSeconds: 0, source: { kind: 'memory' } };
  }

  /** See `ReadResult.isProvisional`, of memory's answer. */
  isProvisional(read: Read): boolean {
    const key = this.keyOf(read);
    return key !== undefined && this.#parts.tiers.isProvisional(key);
  }

  /**
   * Reads from Redis or the fleet; concurrent callers of the same read share one load. `min`: version that the answer to
   * a read of history must not be older than; absent for state, whose version decides it.
   */
  async load(read: Read, caller: Caller, min?: LedgerVersion): Promise<ReadResult> {
    const key = this.keyOf(read);
    const { chainId, generation } = this.#parts.fleet;
    if (key === undefined || chainId === undefined) return this.ask(read, caller);
    const { tiers, metrics } = this.#parts;
    metrics.miss(read.operation);
    const flight = `|${generation}${flightOf(read, min)}`;
    const place = { key, chainId };
    const atMin = min === undefined ? read : { ...read, need: { kind: 'head', min } as const };
    const isAtHead = read.need.kind === 'head';
    const load = async (signal: CancelSignal, span: Span | undefined): Promise<Loaded> => {
      const own = { client: caller.client, signal, span };
      const loaded = await this.#fetch(isAtHead ? atMin : read, place, own);
      // A node that holds the start of a list, or of a block, may be behind the version that the client has seen.
      const isOlder = min !== undefined && loaded.answer.lifetimeMs === 0 && (loaded.head ?? min) < min;
      return isOlder && !isAtHead ? this.#fetch(atMin, place, own) : loaded;
    };
    // A lease for a long poll would hold up reads of the same hash at other replicas.
    const isLeased = read.atOnce === undefined;
    const join = () => tiers.load(key, flight, caller, load, isLeased);
    const { value, isLeader } = await joinFlights(caller.client, join);
    if (!isLeader) metrics.coalesced.inc();
    return resultOf(read, value, !isLeader);
  }

  /** Asks the fleet for this caller alone; nothing is stored. */
  async ask(read: Read, caller: Caller): Promise<ReadResult> {
    return resultOf(read, await this.#fetch(read, undefined, caller), false);
  }

  /** The body in `coding`, compressed once and stored with the entry in memory. */
  async codedBody({ entry }: ReadResult, coding: ContentCoding, { client, signal }: Caller): Promise<Buffer> {
    const coded = entry.coded[coding];
    if (coded !== undefined) return coded;
    if (entry.digest === '') return this.#compressor.compress(coding, entry.body, { client, signal });
    const { memory } = this.#parts;
    const { value } = await this.#codings.run(`${entry.digest}|${coding}`, signal, async (isWanted) => {
      const body = await this.#compressor.compress(coding, entry.body, { client, signal: isWanted });
      memory.addCoded(entry, coding, body);
      return body;
    });
    return value;
  }

  /** Without a `place` the answer is not stored. */
  async #fetch(read: Read, place: CachePlace | undefined, { client, signal, span, onPlace }: Caller): Promise<Loaded> {
    const { sender, metrics, onStored } = this.#parts;
    const { operation, form, version, need, wire, atOnce } = read;
    const { generation, chainId = -1 } = this.#parts.fleet;
    const isView = operation === 'view';
    const mayStream = kinds[operation].isList === true;
    const isContent = (content: AnswerContent): boolean => isContentOf(read, content);
    const asked = { wire, atOnce, need, promised: form, isContent, isIdempotent: true, isView, mayStream };
    const sent = { ...asked, client, span, onPlace };
    const answer = await sender.whole(sent, signal).catch((error: unknown) => {
      if (error instanceof LargeAnswerError) this.#large.set(itemOf(read), true);
      throw error;
    });
    const facts = { ...answer, contentType: headerOf(answer.headers, 'content-type') };
    const decision = decide(read, facts, { chainId: place?.chainId ?? chainId, head: this.#parts.fleet.head });
    // An answer of an earlier ledger, or of a node whose chain is in doubt, must not be stored for this one.
    const isOfNow = generation === this.#parts.fleet.generation && answer.upstream.chain.doubted === undefined;
    const isForked = isOfFork(answer.upstream, version ?? answer.info?.version);
    const isFinal = decision === 'stored' && place !== undefined && isOfNow && !isForked;
    if (isFinal && isSameAtAllNodes(read)) onStored?.({ read, answer, ...place });
    if (isFinal || decision !== 'stored') metrics.decided(decision);
    const committedAt = operation === 'transaction' ? shownCommitted(decision, facts) : undefined;
    const isState = answer.status < 500 && isOfState(operation);
    const { fleet } = this.#parts;
    const { dialect, head } = fleet;
    // No node could ever satisfy a version above the believed head.
    const isBelieved = committedAt !== undefined && head !== undefined && committedAt <= head.version;
    return {
      answer: entryOf(answer, dialect, {
        committedAt: isBelieved ? committedAt : undefined,
        ownHeaders: fleet.ownHeadersOf(answer),
        lifetimeMs: isFinal ? lifetimeOf(read) : 0,
        isShared: isFinal,
      }),
      awaited: isFinal ? fleet.awaited(answer.upstream, newestIn(read, facts)) : undefined,
      head: answer.info?.version,
      origin: {
        upstream: answer.upstream.name,
        tookMs: answer.tookMs,
        // An unpinned read has the version in the answer's own headers.
        version: isState && version === undefined ? answer.info?.version : undefined,
        retryAfter: retryAfterOf(answer),
      },
    };
  }

  /** Cache key of a pinned read or of history; `undefined` for others, and before the chain id is known. */
  keyOf(read: Read): CacheKey | undefined {
    const { chainId } = this.#parts.fleet;
    const { keyed } = read;
    // A read that was copied from another still has the other's key.
    if (keyed !== undefined && keyed.of === read && keyed.chainId === chainId) return keyed.key;
    const { operation, subject, version, form } = read;
    if (chainId === undefined || (version === undefined && isOfState(operation))) return undefined;
    const key = cacheKey({ chainId, operation, subject, version, form });
    read.keyed = { of: read, chainId, key };
    return key;
  }
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

/**
 * Version of the committed transaction in the answer. For a body without one, or too large to parse, the node's head: a
 * later version promises no less.
 */
function shownCommitted(decision: Decision, { info, json }: AnswerFacts): LedgerVersion | undefined {
  if (decision === 'too large') return info?.version;
  return decision === 'stored' ? (committedVersion(json) ?? info?.version) : undefined;
}
