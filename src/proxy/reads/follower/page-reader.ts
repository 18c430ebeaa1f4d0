/** Pages of transactions from the freshest believed node, for the follower: read, cut, and cut off where belief ends. */
import type { Cache } from '../../../cache/index.ts';
import { type AnswerContent, type CancelSignal, GatewayError, type LedgerVersion } from '../../../ledger/index.ts';
import { type Fleet, type FleetRequest, LargeAnswerError, type NodeAnswer } from '../../../upstream/index.ts';
import { type AskedRead, isContentOf } from '../asked-content.ts';
import { cutPage, type Page } from './page.ts';

/**
 * Why there is no page. `not reached`: no node that is trusted has its first version. `other history`: the node's first transaction has
 * another hash. `not believed`: the node is on a fork or suspect, or the ledger was replaced or the cache purged meanwhile.
 * `unreadable`: the node's transactions lack a version or hash, or come in another order.
 */
export type NoPage = 'not reached' | 'too large' | 'other history' | 'not believed' | 'unreadable' | 'failed';

/** A larger page is asked for again in parts: offsets in it are 32 bits, and every worker gets a copy. */
const largestPage = 8 * 1024 * 1024;

/** At most `limit` transactions from `first` on, up to the believed head. `hash`: of the first one, if known. */
export type ReadPage = (
  first: LedgerVersion,
  limit: number,
  hash: string | undefined,
  signal: CancelSignal,
) => Promise<Page | NoPage>;

/**
 * Reads pages of nodes. A node that contradicts the hash, is not believed itself, or has an unreadable page may answer other
 * reads as well as the others, so it is no failure of an attempt, which would eject the node: another one is asked.
 */
export function pageReader(
  fleet: Pick<Fleet, 'sender' | 'head' | 'upstreams' | 'ownHeadersOf'>,
  tiers: Pick<Cache['tiers'], 'purges'>,
): ReadPage {
  const pageOf = async (answer: NodeAnswer, first: LedgerVersion, hash: string | undefined): Promise<Page | NoPage> => {
    if (answer.status !== 200) return 'failed';
    if (answer.body.length > largestPage) return 'too large';
    const page = await cutPage(answer, first, fleet.ownHeadersOf(answer));
    if (page === undefined) return 'unreadable';
    if (!isBelieved(answer.upstream, first + BigInt(page.hashes.length) - 1n)) return 'not believed';
    return hash !== undefined && hash !== page.hashes[0] ? 'other history' : page;
  };
  const ask: ReadPage = async (first, limit, hash, signal) => {
    const { sender, upstreams } = fleet;
    const request = requestOf(first, limit);
    let answer: NodeAnswer;
    try {
      answer = await sender.whole(request, signal);
    } catch (error) {
      return reasonOf(error);
    }
    const page = await pageOf(answer, first, hash);
    if (page !== 'other history' && page !== 'not believed' && page !== 'unreadable') return page;
    const notOf = upstreams.filter((node) => node === answer.upstream || !isBelieved(node, first));
    const other = await sender.another({ ...request, need: { kind: 'version', version: first } }, notOf, signal);
    const ofOther = typeof other === 'string' ? page : await pageOf(other, first, hash);
    return typeof ofOther === 'string' ? page : ofOther;
  };
  return async (first, limit, hash, signal) => {
    // Without a request: while the nodes that were ahead are away, each of the others would be asked many times a second.
    if (!fleet.upstreams.some((node) => node.isTrusted && node.head >= first)) return 'not reached';
    const { purges } = tiers;
    const page = await ask(first, limit, hash, signal);
    if (purges !== tiers.purges) return 'not believed';
    if (typeof page === 'string') return page;
    // The head is read after the page: its answer may have moved it.
    const { head } = fleet;
    if (head === undefined) return 'not reached';
    const last = head.version < page.info.version ? head.version : page.info.version;
    return last < first ? 'not reached' : upTo(page, Number(last - first) + 1);
  };
}

/** `min` and `first`: one transaction is known, so that no node up to date answers that the start is above its head. */
function requestOf(first: LedgerVersion, limit: number): FleetRequest {
  const extent = { kind: 'list', first, limit } as const;
  const read: AskedRead = { operation: 'transactions', subject: '', version: undefined, extent };
  const path = `/transactions?start=${first}&limit=${limit}`;
  return {
    wire: { method: 'GET', path, headers: { accept: 'application/json' } },
    need: { kind: 'head', min: first, isChosen: true },
    promised: 'json',
    isIdempotent: true,
    mayStream: true,
    isContent: (content: AnswerContent) => isContentOf(read, content),
  };
}

/** Whether the node's transactions up to `version` are those of the fleet's ledger, as far as it is known. */
function isBelieved({ isSuspect, forkedAt, chain }: NodeAnswer['upstream'], version: bigint): boolean {
  return !isSuspect && chain.doubted === undefined && (forkedAt === undefined || version < forkedAt);
}

/** Throws what is no fault that a client could get. */
function reasonOf(error: unknown): NoPage {
  if (error instanceof LargeAnswerError) return 'too large';
  if (!(error instanceof GatewayError)) throw error;
  return error.reason === 'not reached' ? 'not reached' : 'failed';
}

/** The first `count` transactions of the page. */
function upTo(page: Page, count: number): Page {
  if (count >= page.hashes.length) return page;
  // A copy: a view would travel to other processes with the whole array behind it.
  return { ...page, ranges: page.ranges.slice(0, 2 * count), hashes: page.hashes.slice(0, count) };
}
