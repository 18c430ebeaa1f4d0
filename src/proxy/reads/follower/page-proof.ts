/**
 * The standing proof of cut pages: transactions of a page are asked for one by one at its node, and bytes are compared. The
 * first confirmed difference ends the use of pages until the restart.
 */
import type { Registry } from 'prom-client';
import { headerOf, type LedgerVersion } from '../../../ledger/index.ts';
import { Counter, Gauge } from '../../../metrics/index.ts';
import type { Fleet, FleetRequest, NodeAnswer } from '../../../upstream/index.ts';
import { StandingChecks } from '../audits.ts';
import { cutPage, Items, type Page } from './page.ts';
import type { Tail } from './tail.ts';

/** A transaction that its page and its own answer have in different bytes, for the log. */
export interface PageMismatch {
  readonly upstream: string;
  readonly version: LedgerVersion;
  readonly route: 'by_version' | 'by_hash';
}

/** The parts of an answer that its readers get. */
interface Shown {
  readonly body: Buffer;
  readonly contentType: string | undefined;
  readonly ownHeaders: string | undefined;
}

/** The proof of one process. */
export type PageProof = ReturnType<typeof createPageProof>;

/** `settings.share`: live; of the transactions, 0 to 1; 0 turns the proof off. `onMismatch` is called once. */
export function createPageProof(
  fleet: Pick<Fleet, 'sender' | 'upstreams' | 'ownHeadersOf'>,
  tail: Pick<Tail, 'isDistrusted' | 'distrust'>,
  settings: { readonly share: number },
  registry: Registry,
  onMismatch: (mismatch: PageMismatch) => void,
) {
  const checked = createPageProofMetrics(registry, () => tail.isDistrusted);
  const checks = new StandingChecks(fleet.sender, checked);
  /** The answer of the page's own node; `undefined`: it gives no success now. */
  const ask = async ({ upstream }: Page, version: LedgerVersion, path: string): Promise<NodeAnswer | undefined> => {
    const request: FleetRequest = {
      wire: { method: 'GET', path, headers: { accept: 'application/json' } },
      need: { kind: 'version', version },
      promised: 'json',
      isIdempotent: true,
    };
    const others = fleet.upstreams.filter(({ name }) => name !== upstream);
    const answer = await checks.ask(request, others);
    return typeof answer === 'object' && answer.status === 200 ? answer : undefined;
  };
  const shownOf = (answer: NodeAnswer): Shown => {
    const { body, headers } = answer;
    return { body, contentType: headerOf(headers, 'content-type'), ownHeaders: fleet.ownHeadersOf(answer) };
  };
  /**
   * Whether the node's pages have the bytes of `answer` by now: a module that was upgraded in between changes how nodes
   * write a transaction (protocol 1.1). Without a page, nothing is proven.
   */
  const isExplained = async (page: Page, version: LedgerVersion, answer: NodeAnswer): Promise<boolean> => {
    const again = await ask(page, version, `/transactions?start=${version}&limit=1`);
    const cut = again && (await cutPage(again, version, fleet.ownHeadersOf(again)));
    return cut === undefined || isEqual(shownIn(cut, version), shownOf(answer));
  };
  const end = (mismatch: PageMismatch): void => {
    checked('mismatch');
    if (tail.isDistrusted) return;
    tail.distrust();
    onMismatch(mismatch);
  };
  const check = async (page: Page, index: number): Promise<void> => {
    const version = (page.first + BigInt(index)) as LedgerVersion;
    const routes = [
      ['by_version', `/transactions/by_version/${version}`],
      ['by_hash', `/transactions/by_hash/${page.hashes[index]}`],
    ] as const;
    let result: 'equal' | 'inconclusive' = 'equal';
    for (const [route, path] of routes) {
      const answer = await ask(page, version, path);
      if (answer === undefined || isPending(answer)) result = 'inconclusive';
      else if (!isEqual(shownIn(page, version), shownOf(answer))) {
        if (await isExplained(page, version, answer)) result = 'inconclusive';
        else return end({ upstream: page.upstream, version, route });
      }
    }
    checked(result);
  };
  return {
    /** Begins checks of a share of the last `news` transactions, and of the last one where it `isFirst`. Never throws. */
    consider(page: Page, news: number, isFirst: boolean): void {
      const { share } = settings;
      if (share <= 0 || tail.isDistrusted) return;
      const last = page.hashes.length - 1;
      if (isFirst) checks.begin(() => check(page, last));
      for (let index = last - news + 1; index <= last - Number(isFirst); index += 1)
        if (Math.random() < share) checks.begin(() => check(page, index));
    },
    close: () => checks.close(),
  };
}

function shownIn(page: Page, version: LedgerVersion): Shown {
  const { contentType, ownHeaders } = page;
  return { body: new Items(page).bytesOf(version), contentType, ownHeaders };
}

function isEqual(one: Shown, other: Shown): boolean {
  return one.body.equals(other.body) && one.contentType === other.contentType && one.ownHeaders === other.ownHeaders;
}

/** A node that has committed the transaction may show it as pending for a moment. */
function isPending({ json }: NodeAnswer): boolean {
  return json.members['type'] === 'pending_transaction';
}

/** Registers the families of the proof, and returns the counter of checks; `readDistrusted` is called at each scrape. */
export function createPageProofMetrics(registry: Registry, readDistrusted: () => boolean) {
  new Gauge(registry, {
    name: 'ledgergate_follower_distrusted',
    help: '1 once a transaction of a page has differed from its own answer of the same upstream: nothing is answered by the follower until the restart.',
    join: 'max',
    read: () => Number(readDistrusted()),
  });
  return new Counter(registry, {
    name: 'ledgergate_follower_checks_total',
    help: 'Transactions of pages that were compared with their own answers of the same upstream, by result; mismatch must stay 0.',
    // `inconclusive`: no final answer, or modules were upgraded in between. `skipped`: too many are in flight.
    labels: { result: ['equal', 'mismatch', 'inconclusive', 'skipped'] },
  }).by('result');
}
