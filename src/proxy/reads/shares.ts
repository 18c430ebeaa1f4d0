/**
 * Short shares: answers that all clients share for a moment, such as the gas price or an account's newest
 * transactions. Callers share one request to a node, and its answer for the time of their kind. Memory alone holds them.
 */
import { LRUCache } from 'lru-cache';
import { Coalescer, type Loaded, ownBytes } from '../../cache/index.ts';
import type { AnswerContent, AnswerForm, CancelSignal, LedgerVersion } from '../../ledger/index.ts';
import type { Span } from '../../metrics/index.ts';
import type { Fleet, FleetRequest, Need } from '../../upstream/index.ts';
import { type AskedRead, isContentOf } from './asked-content.ts';
import type { Freshness } from './freshness.ts';
import type { Caller, DemandingCaller, ReadResult } from './read.ts';
import { entryOf, type Reader, resultOf, retryAfterOf } from './reader.ts';

/** A parsed request for a short share. `wire` is made from its canonical parts alone. */
export interface SharedRead {
  /**
   * Time for which an answer is shared. `latest`: while the shared latest version is the same, so that the demands of
   * clients hold (docs/consistency.md). `gas price`: `cache.gasPriceTtl`. `build`: 10 s, of the node's software.
   */
  readonly shared: 'latest' | 'gas price' | 'build';
  readonly wire: FleetRequest['wire'];
  /** `undefined`: any media type, without ledger headers. */
  readonly form: AnswerForm | undefined;
  /** The read, where its answer names its item. */
  readonly asked?: AskedRead;
}

/** A node's answer, and the time of its request in ms of `performance.now()`. */
interface SharedAnswer extends Loaded {
  readonly askedAtMs: number;
}

const buildMs = 10_000;
/** Longest life of an answer that is shared while the latest version stands. */
const latestMs = 10_000;
/** Bounds of all held answers, and of one, in bytes. */
const bounds = { all: 16 * 1024 * 1024, one: 2 * 1024 * 1024, entries: 10_000 };

/** Answers requests for short shares. Rejections are `GatewayError`. */
export class Shares {
  readonly #fleet: Fleet;
  readonly #freshness: Freshness;
  readonly #reader: Pick<Reader, 'purges'>;
  readonly #ttlMs: Readonly<Record<SharedRead['shared'], number>>;
  readonly #held = new LRUCache<string, SharedAnswer>({
    max: bounds.entries,
    maxSize: bounds.all,
    maxEntrySize: bounds.one,
    sizeCalculation: ({ answer }, name) => answer.body.length + name.length + 1_000,
  });
  readonly #flights = new Coalescer<SharedAnswer>();

  /** `reader`: counts the purges, which drop short shares as well. */
  constructor(fleet: Fleet, freshness: Freshness, reader: Pick<Reader, 'purges'>, gasPriceTtlMs: number) {
    this.#fleet = fleet;
    this.#freshness = freshness;
    this.#reader = reader;
    this.#ttlMs = { latest: latestMs, 'gas price': gasPriceTtlMs, build: buildMs };
  }

  /** The held answer, or one that is read for all callers who wait. */
  async load(read: SharedRead, exchange: DemandingCaller): Promise<ReadResult> {
    const { latest } = this.#fleet;
    const freshness = this.#freshness;
    if (read.shared !== 'latest') return this.#loadAt(read, undefined, exchange);
    const demand = freshness.demandOf(exchange, { operation: exchange.route });
    if (demand.maxStalenessMs > 0)
      return latest.at(demand, exchange, async ({ info: { version } }) => {
        const answer = await this.#loadAt(read, version, exchange);
        freshness.recordSeen(exchange, version, true);
        return answer;
      });
    // Each such caller wants the state at its own call.
    const answer = await latest.aboveFloor(demand, exchange.signal, (min, isChosen) =>
      this.#ask(read, { kind: 'head', min, isChosen }, exchange),
    );
    return sharedResultOf(answer, false);
  }

  async #loadAt(read: SharedRead, min: LedgerVersion | undefined, caller: Caller): Promise<ReadResult> {
    // The name counts purges: a later request neither gets an earlier answer nor joins its flight.
    const name = `${this.#reader.purges}|${min ?? ''}|${read.form ?? ''}|${read.wire.path}`;
    const ttl = this.#ttlMs[read.shared];
    const held = this.#held.get(name);
    if (held !== undefined && performance.now() - held.askedAtMs < ttl)
      return { ...sharedResultOf(held, false), source: 'memory' };
    const { client } = caller;
    const lead = async (signal: CancelSignal, span: Span | undefined): Promise<SharedAnswer> => {
      const answer = await this.#ask(read, { kind: 'head', min, isChosen: true }, { client, signal, span });
      if (answer.answer.digest !== '' && ttl > 0) this.#held.set(name, answer);
      return answer;
    };
    return this.#flights.run(name, caller, lead, (answer, isLeader) => sharedResultOf(answer, !isLeader));
  }

  async #ask(
    { wire, form, asked }: SharedRead,
    need: Need,
    { client, span, onPlace, signal }: Caller,
  ): Promise<SharedAnswer> {
    const fleet = this.#fleet;
    const askedAtMs = performance.now();
    // Some nodes have no BCS for these, and answer in JSON.
    const promised = form === undefined ? undefined : 'either';
    const isContent = asked && ((content: AnswerContent) => isContentOf(asked, content));
    const request = {
      wire,
      need,
      promised,
      isContent,
      isIdempotent: true,
      mayStream: true,
      client,
      span,
      onPlace,
    } as const;
    const answer = await fleet.sender.whole(request, signal);
    const { status, headers, coding, isFramed, upstream, tookMs } = answer;
    // A success alone has a digest, by which clients revalidate it; nothing else is shared after its flight.
    const isShared = status === 200 && coding === undefined && isFramed;
    const own = { status, headers, body: ownBytes(answer.body) };
    const entry = entryOf(fleet, own, fleet.ownHeadersOf(answer), { lifetimeMs: 0, isShared });
    const origin = { upstream: upstream.name, tookMs, version: undefined, retryAfter: retryAfterOf(answer) };
    return { answer: entry, origin, askedAtMs };
  }
}

function sharedResultOf(shared: SharedAnswer, isCollapsed: boolean): ReadResult {
  const ageSeconds = Math.max(0, Math.floor((performance.now() - shared.askedAtMs) / 1000));
  return { ...resultOf(undefined, shared, isCollapsed), isLatest: true, ageSeconds };
}
