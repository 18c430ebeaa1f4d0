/**
 * The standing proof of cut pages: transactions of a page are asked for one by one at its node, and bytes are compared. The
 * first confirmed difference ends the use of pages until the restart.
 */
import { setMaxListeners } from 'node:events';
import type { Registry } from 'prom-client';
import { headerOf, type LedgerVersion } from '../../ledger/index.ts';
import type { Fleet, FleetRequest, NodeAnswer } from '../../upstream/index.ts';
import { createPageProofMetrics } from './follower-metrics.ts';
import type { Page } from './push-types.ts';
import { cutPage } from './tail.ts';

/** A transaction that its page and its own answer have in different bytes, for the log. */
export interface PageMismatch {
  readonly upstream: string;
  readonly version: LedgerVersion;
  readonly route: 'by_version' | 'by_hash';
}

/** Transactions that are checked at once. */
const maxChecks = 4;
const timeoutMs = 10_000;

/** Compares transactions of pages. */
export class PageProof {
  readonly #fleet: Pick<Fleet, 'sender' | 'upstreams' | 'ownHeadersOf'>;
  readonly #settings: { readonly share: number };
  readonly #onMismatch: (mismatch: PageMismatch) => void;
  readonly #checked: ReturnType<typeof createPageProofMetrics>;
  readonly #closing = new AbortController();
  #inFlight = 0;
  #isDistrusted = false;

  /** `settings.share`: live; of the transactions, 0 to 1; 0 turns the proof off. `onMismatch` is called once. */
  constructor(
    fleet: Pick<Fleet, 'sender' | 'upstreams' | 'ownHeadersOf'>,
    settings: { readonly share: number },
    registry: Registry,
    onMismatch: (mismatch: PageMismatch) => void,
  ) {
    this.#fleet = fleet;
    this.#settings = settings;
    this.#onMismatch = onMismatch;
    this.#checked = createPageProofMetrics(registry, () => this.#isDistrusted);
    setMaxListeners(0, this.#closing.signal);
  }

  /** Another process has found a difference. */
  distrust(): void {
    this.#isDistrusted = true;
  }

  close(): void {
    this.#closing.abort(new Error('closing'));
  }

  /**
   * Begins checks of a share of the page's last `news` transactions, which no page before it had, and of the last one where
   * it `isFirst`. Never throws.
   */
  consider(page: Page, news: number, isFirst: boolean): void {
    const { share } = this.#settings;
    if (share <= 0 || this.#isDistrusted) return;
    const last = page.hashes.length - 1;
    if (isFirst) this.#begin(page, last);
    for (let index = last - news + 1; index <= last - Number(isFirst); index += 1)
      if (Math.random() < share) this.#begin(page, index);
  }

  #begin(page: Page, index: number): void {
    if (this.#inFlight >= maxChecks || this.#fleet.sender.waiting > 0) return this.#checked('skipped');
    this.#inFlight += 1;
    this.#check(page, index)
      .catch(() => this.#checked('inconclusive'))
      .finally(() => {
        this.#inFlight -= 1;
      });
  }

  async #check(page: Page, index: number): Promise<void> {
    const version = (page.first + BigInt(index)) as LedgerVersion;
    const expected = {
      body: page.body.subarray(page.ranges[2 * index], page.ranges[2 * index + 1]),
      contentType: page.contentType,
      ownHeaders: page.ownHeaders,
    };
    const routes = [
      ['by_version', `/transactions/by_version/${version}`],
      ['by_hash', `/transactions/by_hash/${page.hashes[index]}`],
    ] as const;
    let result: 'equal' | 'inconclusive' = 'equal';
    for (const [route, path] of routes) {
      const answer = await this.#ask(page, version, path);
      if (answer === undefined || isPending(answer)) result = 'inconclusive';
      else if (!isEqual(expected, this.#factsOf(answer))) {
        if (await this.#isExplained(page, version, answer)) result = 'inconclusive';
        else return this.#end({ upstream: page.upstream, version, route });
      }
    }
    this.#checked(result);
  }

  /** The page's own node; `undefined`: it gives no success now. */
  async #ask({ upstream }: Page, version: LedgerVersion, path: string): Promise<NodeAnswer | undefined> {
    const { sender, upstreams } = this.#fleet;
    const request: FleetRequest = {
      wire: { method: 'GET', path, headers: { accept: 'application/json' } },
      need: { kind: 'version', version },
      promised: 'json',
      isIdempotent: true,
    };
    const others = upstreams.filter(({ name }) => name !== upstream);
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(timeoutMs)]);
    const answer = await sender.another(request, others, signal);
    return typeof answer === 'object' && answer.status === 200 ? answer : undefined;
  }

  /**
   * Whether the node's pages have the bytes of `answer` by now: a module that was upgraded in between changes how nodes
   * write a transaction (protocol 1.1). Without a page, nothing is proven.
   */
  async #isExplained(page: Page, version: LedgerVersion, answer: NodeAnswer): Promise<boolean> {
    const again = await this.#ask(page, version, `/transactions?start=${version}&limit=1`);
    const cut = again && (await cutPage(again, version, this.#fleet.ownHeadersOf(again)));
    if (cut === undefined) return true;
    const { body, ranges, contentType, ownHeaders } = cut;
    return isEqual({ body: body.subarray(ranges[0], ranges[1]), contentType, ownHeaders }, this.#factsOf(answer));
  }

  #factsOf(answer: NodeAnswer) {
    const { body, headers } = answer;
    return { body, contentType: headerOf(headers, 'content-type'), ownHeaders: this.#fleet.ownHeadersOf(answer) };
  }

  #end(mismatch: PageMismatch): void {
    this.#checked('mismatch');
    if (this.#isDistrusted) return;
    this.#isDistrusted = true;
    this.#onMismatch(mismatch);
  }
}

/** The parts of an answer that its readers get. */
interface Shown {
  readonly body: Buffer;
  readonly contentType: string | undefined;
  readonly ownHeaders: string | undefined;
}

function isEqual(one: Shown, other: Shown): boolean {
  return one.body.equals(other.body) && one.contentType === other.contentType && one.ownHeaders === other.ownHeaders;
}

/** A node that has committed the transaction may show it as pending for a moment. */
function isPending({ json }: NodeAnswer): boolean {
  return json.members['type'] === 'pending_transaction';
}
