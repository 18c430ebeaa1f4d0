/**
 * Short shares: answers that all clients share for a moment, such as the gas price or an account's newest
 * transactions. Callers share one request to a node, and its answer for the time of their kind. Memory alone holds them.
 */
import { LRUCache } from 'lru-cache';
import { isContentOf, type AskedRead } from './asked-content.ts';
import { type Cache, Coalescer, type Loaded, ownBytes } from '../../cache/index.ts';
import type { AnswerContent, AnswerForm, CancelSignal, LedgerVersion } from '../../ledger/index.ts';
import type { Span } from '../../metrics/index.ts';
import type { Fleet, FleetRequest, Need } from '../../upstream/index.ts';
import type { Freshness } from './freshness.ts';
import { type Caller, type DemandingCaller, entryOf, retryAfterOf, type ReadResult, resultOf } from './read.ts';

/**
 * Time for which an answer is shared. `latest`: while the shared latest version is the same, so that the demands of
 * clients hold (docs/consistency.md). `gas price`: `cache.gasPriceTtl`. `build`: 10 s, of the node's software.
 */
export type ShareTime = 'latest' | 'gas price' | 'build';

/** A parsed request for a short share. `wire` is made from its canonical parts alone. */
export interface SharedRead {
  readonly shared: ShareTime;
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
  readonly #tiers: Pick<Cache['tiers'], 'purges'>;
  readonly #gasPriceTtlMs: number;
  readonly #held = new LRUCache<string, SharedAnswer>({
    max: bounds.entries,
    maxSize: bounds.all,
    maxEntrySize: bounds.one,
    sizeCalculation: ({ answer }, name) => answer.body.length + name.length + 1_000,
  });
  readonly #flights = new Coalescer<SharedAnswer>();

  /** `tiers`: count the purges, which drop short shares as well. */
  constructor(fleet: Fleet, freshness: Freshness, tiers: Pick<Cache['tiers'], 'purges'>, gasPriceTtlMs: number) {
    this.#fleet = fleet;
    this.#freshness = freshness;
    this.#tiers = tiers;
    this.#gasPriceTtlMs = gasPriceTtlMs;
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
    const time = min === undefined ? '' : String(min);
    // The name counts purges: a later request neither gets an earlier answer nor joins its flight.
    const name = `${this.#fleet.generation}|${this.#tiers.purges}|${time}|${read.form ?? ''}|${read.wire.path}`;
    const ttl = this.#ttlMs(read.shared);
    const held = this.#held.get(name);
    if (held !== undefined && performance.now() - held.askedAtMs < ttl)
      return { ...sharedResultOf(held, false), source: { kind: 'memory' } };
    const { client } = caller;
    const lead = async (signal: CancelSignal, span: Span | undefined): Promise<SharedAnswer> => {
      const answer = await this.#ask(read, { kind: 'head', min, isChosen: true }, { client, signal, span });
      if (answer.answer.digest !== '' && ttl > 0) this.#held.set(name, answer);
      return answer;
    };
    return this.#flights.run(name, caller, lead, (answer, isLeader) => sharedResultOf(answer, !isLeader));
  }

  #ttlMs(time: ShareTime): number {
    if (time === 'build') return buildMs;
    return time === 'latest' ? latestMs : this.#gasPriceTtlMs;
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
    const isContent = asked === undefined ? undefined : (content: AnswerContent) => isContentOf(asked, content);
    const sent = { wire, need, promised, isContent, isIdempotent: true, mayStream: true } as const;
    const request = { ...sent, client, span, onPlace };
    const answer = await fleet.sender.whole(request, signal);
    // A success alone has a digest, by which clients revalidate it; nothing else is shared after its flight.
    const isShared = answer.status === 200 && answer.coding === undefined && answer.isFramed;
    const entry = entryOf(fleet, { ...answer, body: ownBytes(answer.body) }, { lifetimeMs: 0, isShared });
    const { upstream, tookMs } = answer;
    const origin = { upstream: upstream.name, tookMs, version: undefined, retryAfter: retryAfterOf(answer) };
    return { answer: entry, origin, askedAtMs };
  }
}

function sharedResultOf(shared: SharedAnswer, isCollapsed: boolean): ReadResult {
  const ageSeconds = Math.max(0, Math.floor((performance.now() - shared.askedAtMs) / 1000));
  return { ...resultOf({ version: undefined }, shared, isCollapsed), isLatest: true, ageSeconds };
}
