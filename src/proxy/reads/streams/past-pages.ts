/** Pages of past transactions, for streams that are behind: read once for all of them, and cut into frames. */
import { LRUCache } from 'lru-cache';
import type { AdmittedRequest } from '../../../access/index.ts';
import { findU64, LedgerVersion } from '../../../ledger/index.ts';
import { LargeAnswerError } from '../../../upstream/index.ts';
import { Items, rangesIn, skim } from '../follower/page.ts';
import type { Tail } from '../follower/tail.ts';
import { chargeFailure, chargeRead } from '../push.ts';
import type { Caller, Read, ReadResult } from '../read.ts';
import type { Reader } from '../reader.ts';

/** Lengths of pages. A page ends at a multiple of its length: streams that resume at different versions share the next. */
const lengths = [100, 10, 1];
/** Most bytes of the pages that are kept. */
const keptBytes = 16 * 1024 * 1024;
const acceptJson = Object.freeze({ accept: 'application/json' });

type PageReads = Pick<Reader, 'find' | 'load' | 'isLarge' | 'generation' | 'purges'>;

/** Pages of one process. */
export class PastPages {
  readonly #reader: PageReads;
  readonly #tail: Pick<Tail, 'hashOf'>;
  /** Final pages by purge and place. */
  readonly #kept = new LRUCache<string, Items>({ maxSize: keptBytes, sizeCalculation: ({ bytes }) => 2 * bytes });
  #clears = 0;
  /** By body: callers of one flight share its cut. */
  readonly #cuts = new WeakMap<Buffer, Promise<Items | undefined>>();

  constructor(reader: PageReads, tail: Pick<Tail, 'hashOf'>) {
    this.#reader = reader;
    this.#tail = tail;
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
  ): Promise<Items | ReadResult | undefined> {
    const { generation, purges } = this.#reader;
    const clears = this.#clears;
    // A purge alone takes no answer from those who wait for it, as everywhere.
    const isOfNow = (): boolean => generation === this.#reader.generation && clears === this.#clears;
    for (const length of lengths) {
      const limit = length - Number(cursor % BigInt(length));
      const key = `${purges}|${cursor}|${limit}`;
      const kept = this.#kept.get(key);
      if (kept !== undefined) return kept;
      const read = pageRead(cursor, limit);
      const isLast = length === 1;
      if (!isLast && this.#reader.isLarge(read)) continue;
      try {
        const newest = cursor + BigInt(limit) - 1n;
        // A node that lags has a part of the page; the same floor for all who read the page lets them share a flight.
        const min = LedgerVersion.of(newest < reached ? newest : reached - 1n);
        const served = await this.#load(read, min, caller, payer);
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
    min: LedgerVersion,
    caller: Caller,
    payer: AdmittedRequest | undefined,
  ): Promise<ReadResult | undefined> {
    const hit = this.#reader.find(read);
    if (hit !== undefined) return hit;
    const taken = payer?.again(caller.signal);
    const admitted = taken instanceof Promise ? await taken : taken;
    if (payer !== undefined && admitted === undefined) return undefined;
    try {
      const served = await this.#reader.load(read, caller, min);
      chargeRead(admitted, served);
      return served;
    } catch (error) {
      chargeFailure(admitted, error);
      throw error;
    }
  }

  #cut(body: Buffer, first: LedgerVersion, client: string): Promise<Items | undefined> {
    const known = this.#cuts.get(body);
    if (known !== undefined) return known;
    const cut = itemsIn(body, first, client);
    this.#cuts.set(body, cut);
    return cut;
  }

  /** Hashes cover all that is ahead of them: the newest one that both know proves one history. */
  async #isOfTail(items: Items, client: string): Promise<boolean> {
    for (let version = items.end - 1n; version >= items.first; version -= 1n) {
      const hash = this.#tail.hashOf(version);
      if (hash !== undefined) return hash === (await skim(items.bytesOf(version), client))['hash'];
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

/** The transactions of a list; `undefined`: the body is no list that begins with the one at `first`. */
async function itemsIn(body: Buffer, first: LedgerVersion, client: string): Promise<Items | undefined> {
  const ranges = await rangesIn(body, client);
  if (ranges === undefined) return undefined;
  const items = new Items({ first, body, ranges });
  const { version } = await skim(items.bytesOf(first), client);
  return typeof version === 'string' && findU64(version) === first ? items : undefined;
}
