/** Pages of past transactions, for streams that are behind: read once for all of them, and cut into frames. */
import { LRUCache } from 'lru-cache';
import type { AdmittedRequest } from '../../access/index.ts';
import type { Cache } from '../../cache/index.ts';
import { findU64, JsonBody, LedgerVersion } from '../../ledger/index.ts';
import { LargeAnswerError } from '../../upstream/index.ts';
import { eventFrame } from './event-frame.ts';
import { chargeFailure, chargeRead, type Filter, type TransactionFacts } from './push-types.ts';
import type { Caller, Read, ReadResult } from './read.ts';
import type { Reader } from './reader.ts';
import { factsOf, type Frames, type Tail } from './tail.ts';

/** Lengths of pages. A page ends at a multiple of its length: streams that resume at different versions share the next. */
const lengths = [100, 10, 1];
/** Most bytes of the pages that are kept. */
const keptBytes = 16 * 1024 * 1024;
const acceptJson = Object.freeze({ accept: 'application/json' });

/** Pages of one process. */
export class PastPages {
  readonly #reader: Pick<Reader, 'find' | 'load' | 'isLarge' | 'generation'>;
  readonly #tail: Tail;
  readonly #tiers: Pick<Cache['tiers'], 'purges'>;
  /** Final pages by generation, purge and place. */
  readonly #kept = new LRUCache<string, PastPage>({ maxSize: keptBytes, sizeCalculation: ({ bytes }) => 2 * bytes });
  #clears = 0;
  /** By body: callers of one flight share its cut. */
  readonly #cuts = new WeakMap<Buffer, Promise<PastPage | undefined>>();

  constructor(
    reader: Pick<Reader, 'find' | 'load' | 'isLarge' | 'generation'>,
    tail: Tail,
    tiers: Pick<Cache['tiers'], 'purges'>,
  ) {
    this.#reader = reader;
    this.#tail = tail;
    this.#tiers = tiers;
  }

  /** See `FleetView.generation`. */
  get generation(): number {
    return this.#reader.generation;
  }

  /**
   * The page at `cursor`, which is below `reached`, the version behind the shared state; or the answer to its read, where
   * that is no success. `undefined`: try again later. `payer`: is charged for a node's read once more; absent: the caller
   * has paid. Rejects with `GatewayError`, or `LargeAnswerError` for a transaction that no answer can hold.
   */
  async at(
    cursor: LedgerVersion,
    reached: LedgerVersion,
    caller: Caller,
    payer?: AdmittedRequest,
  ): Promise<PastPage | ReadResult | undefined> {
    const { generation } = this;
    const clears = this.#clears;
    const isOfNow = (): boolean => generation === this.generation && clears === this.#clears;
    for (const length of lengths) {
      const limit = length - Number(cursor % BigInt(length));
      const key = `${generation}|${this.#tiers.purges}|${cursor}|${limit}`;
      const kept = this.#kept.get(key);
      if (kept !== undefined) return kept;
      const read = pageRead(cursor, limit);
      const isLast = length === 1;
      if (!isLast && this.#reader.isLarge(read)) continue;
      try {
        const served = await this.#load(read, reached, limit, caller, payer);
        if (served === undefined || !isOfNow()) return undefined;
        if (served.entry.status !== 200) return served;
        const page = await this.#cut(served.entry.body, cursor, caller.client);
        if (page === undefined || !(await this.#isOfTail(page, caller.client)) || !isOfNow()) return undefined;
        // An answer that is not final may be a fork's.
        if (served.entry.lifetimeMs > 0 && !served.isProvisional) this.#kept.set(key, page);
        return page;
      } catch (error) {
        if (isLast || !(error instanceof LargeAnswerError)) throw error;
      }
    }
    return undefined;
  }

  /** Drops the pages: no stream is left, or their history is another. */
  clear(): void {
    this.#clears += 1;
    this.#kept.clear();
  }

  async #load(
    read: Read,
    reached: LedgerVersion,
    limit: number,
    caller: Caller,
    payer: AdmittedRequest | undefined,
  ): Promise<ReadResult | undefined> {
    const hit = this.#reader.find(read);
    if (hit !== undefined) return hit;
    const taken = payer?.again(caller.signal);
    const admitted = taken instanceof Promise ? await taken : taken;
    if (payer !== undefined && admitted === undefined) return undefined;
    const { extent } = read;
    const first = extent?.kind === 'list' ? extent.first : 0n;
    const newest = first + BigInt(limit) - 1n;
    // A node that lags has a part of the page; the same floor for all who read the page lets them share a flight.
    const min = LedgerVersion.of(newest < reached ? newest : reached - 1n);
    try {
      const served = await this.#reader.load(read, caller, min);
      chargeRead(admitted, served);
      return served;
    } catch (error) {
      chargeFailure(admitted, error);
      throw error;
    }
  }

  #cut(body: Buffer, first: LedgerVersion, client: string): Promise<PastPage | undefined> {
    const known = this.#cuts.get(body);
    if (known !== undefined) return known;
    const cut = PastPage.cut(body, first, client);
    this.#cuts.set(body, cut);
    return cut;
  }

  /** Hashes cover all that is ahead of them: the newest one that both know proves one history. */
  async #isOfTail(page: PastPage, client: string): Promise<boolean> {
    for (let version = page.next - 1n; version >= page.first; version -= 1n) {
      const hash = this.#tail.hashOf(version as LedgerVersion);
      if (hash !== undefined) return hash === (await page.hashOf(version as LedgerVersion, client));
    }
    return true;
  }
}

/** A read of transactions, equal to that of a client (proxy/routes: parse-history.ts). */
function pageRead(first: LedgerVersion, limit: number): Read {
  const query = `?start=${first}&limit=${limit}`;
  const wire = { method: 'GET', path: `/transactions${query}`, headers: acceptJson } as const;
  const extent = { kind: 'list', first, limit } as const;
  const need = { kind: 'version', version: first } as const;
  return { operation: 'transactions', subject: query, version: undefined, form: 'json', wire, need, extent };
}

/** Consecutive transactions. */
export class PastPage {
  readonly first: LedgerVersion;
  /** In memory. */
  readonly bytes: number;
  readonly #items: readonly Buffer[];
  readonly #facts: TransactionFacts[] = [];
  /** Frames of the whole page, which all streams without a filter get. */
  #whole: Buffer | undefined;

  constructor(first: LedgerVersion, items: readonly Buffer[]) {
    this.first = first;
    this.#items = items;
    this.bytes = items.reduce((sum, { length }) => sum + length, 0);
  }

  /** `undefined`: the body is no list that begins with the transaction at `first`. */
  static async cut(body: Buffer, first: LedgerVersion, client: string): Promise<PastPage | undefined> {
    const ranges = (await JsonBody.items(body, client)) ?? [];
    const [head, ...rest] = ranges.map(([, from, to]) => body.subarray(from, to));
    if (head === undefined) return undefined;
    const { version } = await membersOf(head, client);
    return typeof version === 'string' && findU64(version) === first ? new PastPage(first, [head, ...rest]) : undefined;
  }

  /** The version behind the page. */
  get next(): LedgerVersion {
    return LedgerVersion.of(this.first + BigInt(this.#items.length));
  }

  async hashOf(version: LedgerVersion, client: string): Promise<unknown> {
    const item = this.#items[Number(version - this.first)];
    return item === undefined ? undefined : (await membersOf(item, client))['hash'];
  }

  /** Frames of [from, next), at most up to `upTo` and of some `mostBytes` of transactions, but of one at least. */
  frames(
    from: LedgerVersion,
    upTo: LedgerVersion,
    filter: Filter | undefined,
    mostBytes: number,
  ): Frames & { readonly next: LedgerVersion } {
    const { first } = this;
    const end = upTo < this.next ? upTo : this.next;
    const isWhole = from === first && end === this.next && filter === undefined && this.bytes <= mostBytes;
    if (isWhole && this.#whole !== undefined) {
      return { frames: this.#whole, events: this.#items.length, next: end };
    }
    const frames: Buffer[] = [];
    let version: bigint = from;
    // A transaction that does not pass the filter costs its parse.
    let bytes = 0;
    while (version < end && bytes < mostBytes) {
      const index = Number(version - first);
      const item = this.#items[index] as Buffer;
      bytes += item.length;
      const isPassed = filter === undefined || filter.matches((this.#facts[index] ??= factsOf(item)));
      if (isPassed) frames.push(eventFrame('transaction', LedgerVersion.of(version), item));
      version += 1n;
    }
    const joined = Buffer.concat(frames);
    if (isWhole) this.#whole = joined;
    return { frames: joined, events: frames.length, next: LedgerVersion.of(version) };
  }
}

/** Members of a transaction of any size. */
async function membersOf(item: Buffer, client: string): Promise<JsonBody['members']> {
  const facts = await JsonBody.skim(item, client);
  return facts?.members ?? {};
}
