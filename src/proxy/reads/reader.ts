/**
 * Reads of ledger state: the one place where cache and upstream meet.
 *
 * A pinned read is looked for in memory; a miss is shared by all who ask for it at the moment and goes to a node; the
 * policy decides whether the answer stays.
 */
import { Coalescer } from '../../cache/coalesce.ts';
import { contentDigest, nothingCoded, type CachedResponse, type ContentCoding } from '../../cache/entry.ts';
import { cacheKey, type CacheKey } from '../../cache/key.ts';
import type { CacheLocation, MemoryCache } from '../../cache/memory/memory.ts';
import { committedVersion, decide, type AnswerFacts, type Decision } from '../../cache/policy.ts';
import type { Load, Loaded, ReadThrough } from '../../cache/read-through.ts';
import type { LedgerVersion } from '../../ledger/version.ts';
import type { CancelSignal } from '../../ledger/stop.ts';
import type { CacheMetrics } from '../../metrics/cache-metrics.ts';
import { retryOwnFlight } from '../../upstream/dispatch/queue.ts';
import type { NodeAnswer } from '../../upstream/dispatch/exchange.ts';
import type { Fleet } from '../../upstream/fleet.ts';
import type { Sender } from '../../upstream/dispatch/sender.ts';
import type { Stored } from './audits.ts';
import type { Caller } from '../http/exchange.ts';
import { compress } from '../http/negotiate.ts';
import { resultOf, type Origin, type Read, type ReadResult } from './read-result.ts';

/** Parts of a reader. */
export interface ReaderParts {
  readonly fleet: Fleet;
  readonly sender: Sender;
  readonly memory: MemoryCache;
  readonly tiers: ReadThrough<Origin>;
  readonly metrics: CacheMetrics;
  /** Called with every pinned read whose answer from a node is kept. */
  readonly onStored?: (stored: Stored) => void;
}

/** Where an answer is kept, and the chain that it must be of for that. */
interface Keep {
  readonly key: CacheKey;
  readonly chainId: number;
}

/** Answers reads from memory, Redis or the fleet. */
export class Reader {
  readonly #parts: ReaderParts;
  readonly #codings = new Coalescer<Buffer>();

  constructor(parts: ReaderParts) {
    this.#parts = parts;
  }

  /** Where memory has the answer of the read: see `MemoryCache.locate`. Whoever gives it to a client counts it (`noteHit`). */
  locate(read: Read): CacheLocation | undefined {
    const key = this.keyOf(read);
    return key === undefined ? undefined : this.#parts.memory.locate(key);
  }

  /** See `FleetView.generation`. */
  get generation(): number {
    return this.#parts.fleet.generation;
  }

  noteHit(): void {
    this.#parts.metrics.hit();
  }

  /** What memory holds of the read. Nothing is waited for, so a hit costs no promise. */
  find(read: Read): ReadResult | undefined {
    const key = this.keyOf(read);
    const entry = key === undefined ? undefined : this.#parts.tiers.find(key);
    if (entry === undefined) return undefined;
    this.#parts.metrics.hit();
    return {
      entry,
      version: read.version,
      isFinal: true,
      isLatest: false,
      ageSeconds: 0,
      source: { kind: 'memory' },
    };
  }

  /** Looks in the shared tier and asks the fleet, together with everyone who asks for the same now. */
  async load(read: Read, caller: Caller): Promise<ReadResult> {
    const key = this.keyOf(read);
    const { chainId, generation } = this.#parts.fleet;
    if (key === undefined || chainId === undefined) return this.ask(read, caller);
    const { tiers, metrics } = this.#parts;
    metrics.miss();
    const flight = `|${generation}${flightOf(read)}`;
    const keep = { key, chainId };
    const load: Load<Origin> = (signal, span) => this.#fetch(read, keep, { client: caller.client, signal, span });
    for (let flights = 1; ; flights += 1) {
      try {
        const { value, isLeader } = await tiers.load(key, flight, caller, load);
        if (!isLeader) metrics.coalesced.inc();
        return resultOf(read, value, !isLeader);
      } catch (error) {
        // The first of the followers to come back leads.
        if (!retryOwnFlight(error, caller.client) || flights === maxFlights) throw error;
      }
    }
  }

  /** Asks the fleet for this client alone, and keeps nothing. */
  async ask(read: Read, caller: Caller): Promise<ReadResult> {
    return resultOf(read, await this.#fetch(read, undefined, caller), false);
  }

  /** The entry's body in `coding`: compressed once, and kept with the entry while that is in memory. */
  async codedBody({ entry, isFinal }: ReadResult, coding: ContentCoding, signal: CancelSignal): Promise<Buffer> {
    const known = entry.coded[coding];
    if (known !== undefined) return known;
    if (!isFinal) return compress(coding, entry.body);
    const { memory } = this.#parts;
    const { value } = await this.#codings.run(`${entry.digest}|${coding}`, signal, async () => {
      const body = await compress(coding, entry.body);
      memory.addCoded(entry, coding, body);
      return body;
    });
    return value;
  }

  /** `keep`: the chain that the answer must be of to be kept, and where; `undefined`: it is not kept. */
  async #fetch(read: Read, keep: Keep | undefined, { client, signal, span, onPlace }: Caller): Promise<Loaded<Origin>> {
    const { sender, metrics, onStored } = this.#parts;
    const { chainId } = keep ?? {};
    const { operation, form, version, need } = read;
    const { generation } = this.#parts.fleet;
    const { wire, atOnce } = read;
    const isView = operation === 'view';
    const request = { wire, atOnce, need, promised: form, isIdempotent: true, isView, client, span, onPlace };
    const answer = await sender.whole(request, signal);
    const facts = {
      ...answer,
      contentType: header(answer, 'content-type'),
    };
    const decision = decide({ operation, form, version, chainId: chainId ?? this.#parts.fleet.chainId ?? -1 }, facts);
    // An answer of the ledger before, or of a node whose chain is in doubt, must not be kept as one of the ledger now.
    const isOfNow = generation === this.#parts.fleet.generation && answer.upstream.chain.doubted === undefined;
    const isFinal = decision === 'stored' && keep !== undefined && isOfNow;
    if (isFinal && version !== undefined) onStored?.({ read, answer, ...keep });
    if (isFinal || decision !== 'stored') metrics.decided(decision);
    const committedAt = operation === 'transaction' ? shownCommitted(decision, facts) : undefined;
    const isState = answer.status < 500 && operation !== 'transaction';
    return {
      answer: this.#entryOf(read, answer, isFinal, committedAt),
      isFinal,
      head: answer.info?.version,
      origin: {
        upstream: answer.upstream.name,
        tookMs: answer.tookMs,
        // An unpinned read is of the state at the head that the answer's own headers tell.
        version: isState && version === undefined ? answer.info?.version : undefined,
      },
    };
  }

  #entryOf(read: Read, answer: NodeAnswer, isFinal: boolean, committedAt: LedgerVersion | undefined): CachedResponse {
    const { dialect, head } = this.#parts.fleet;
    const content = {
      status: answer.status,
      contentType: header(answer, 'content-type') ?? 'application/octet-stream',
      body: answer.body,
      // A version that no believed node has got to would be a promise that cannot be kept, for ever.
      committedAt:
        committedAt !== undefined && head !== undefined && committedAt <= head.version ? committedAt : undefined,
      gasUsed: header(answer, dialect.gasUsed),
      cursor: header(answer, dialect.cursor),
      isImmutable: isFinal && read.version !== undefined,
    };
    return { ...content, digest: isFinal ? contentDigest(content) : '', coded: nothingCoded };
  }

  /** A read has a key when its answer can be final: pinned, or of a transaction; and the chain must be known. */
  keyOf(read: Read): CacheKey | undefined {
    const { chainId } = this.#parts.fleet;
    const { keyed } = read;
    // A read that was made of another has that one's.
    if (keyed !== undefined && keyed.of === read && keyed.chainId === chainId) return keyed.key;
    const { operation, subject, version, form } = read;
    if (chainId === undefined || (version === undefined && operation !== 'transaction')) return undefined;
    const key = cacheKey({ chainId, operation, subject, version, form });
    read.keyed = { of: read, chainId, key };
    return key;
  }
}

/** Flights of other clients that one read follows, one after another, when their clients exceed the queue. */
const maxFlights = 3;

/**
 * Who may share an upstream read: a look-up that began before the submission, and asks other nodes first, is no answer
 * to one that knows which node took it.
 */
function flightOf({ need }: Read): string {
  return need.kind === 'transaction' && need.submittedTo !== undefined ? `|${need.submittedTo}` : '';
}

/**
 * The version from which on a client that is given this answer has seen a transaction committed; the head of the node
 * where the answer does not tell, or is too large to be looked into: a later version promises no less.
 */
function shownCommitted(decision: Decision, { info, json }: AnswerFacts): LedgerVersion | undefined {
  if (decision === 'too large') return info?.version;
  return decision === 'stored' ? (committedVersion(json) ?? info?.version) : undefined;
}

function header(answer: NodeAnswer, name: string): string | undefined {
  const value = answer.headers[name];
  return typeof value === 'string' ? value : undefined;
}
