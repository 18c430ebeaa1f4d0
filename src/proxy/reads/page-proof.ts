/** The standing proof of cut pages: a share of their transactions is compared with the answers of the page's node. */
import type { Fleet } from '../../upstream/index.ts';
import type { Page } from './push-types.ts';

/** Compares transactions of pages; the first confirmed difference is reported. */
export class PageProof {
  /** `settings`: the live share of transactions. */
  // oxlint-disable-next-line no-useless-constructor -- the parts come with issue 37
  constructor(_fleet: Fleet, _settings: { readonly share: number }, _onMismatch: (page: Page) => void) {}

  /** Compares a page, or skips it. Never throws. */
  consider(_page: Page): void {}
}
