/**
 * Extra work that may not exceed a share of the ordinary work: each request earns a part of one retry (or hedge), so
 * when everything fails at once, nodes get the share on top and not a multiple.
 */
export interface TrafficShareOptions {
  /** What one request earns, in parts of one. */
  readonly share: number;
  /** What time earns, so that a quiet gateway has some too. Default 0. */
  readonly perSecond?: number;
  /** What can be saved up: the largest burst, and what there is at the start. */
  readonly most: number;
}

export class TrafficShare {
  readonly #options: Required<TrafficShareOptions>;
  #saved: number;
  #atMs: number | undefined;

  constructor({ share, perSecond = 0, most }: TrafficShareOptions) {
    this.#options = { share, perSecond, most };
    this.#saved = most;
  }

  /** An ordinary request is made. `share`: where it is not always the same. */
  earn(share = this.#options.share): void {
    this.#saved = Math.min(this.#options.most, this.#saved + share);
  }

  /** Takes one, if there is one. `nowMs`: of a clock that only goes forward. */
  spend(nowMs: number): boolean {
    const { perSecond, most } = this.#options;
    this.#saved = Math.min(most, this.#saved + ((nowMs - (this.#atMs ?? nowMs)) / 1000) * perSecond);
    this.#atMs = nowMs;
    if (this.#saved < 1) return false;
    this.#saved -= 1;
    return true;
  }
}
