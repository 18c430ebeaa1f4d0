/** Cross-origin headers of prepared hits as text, made once for the answers of a page. */
import type { Cors } from '../cors.ts';
import { fieldLines } from './head-text.ts';

/** Pages whose lines are kept. */
const mostKnown = 64;

/** Makes the lines that `Cors.headers` yields for an answer. */
export class CorsLines {
  readonly #cors: Cors;
  /** By exposed names and origin. */
  readonly #known = new Map<string, string>();
  #ledger: readonly string[] = [];
  /** Names of `#ledger` that CORS exposes. */
  #ofLedger = '';

  constructor(cors: Cors) {
    this.#cors = cors;
  }

  /** `exposed`: of the answer's own head (`Cors.furtherIn`); `ledger`: the live headers, names and values in turn. */
  of(origin: string, exposed: string, ledger: readonly string[]): string {
    if (ledger !== this.#ledger) {
      this.#ledger = ledger;
      this.#ofLedger = this.#cors.furtherIn(ledger);
    }
    const further = exposed + this.#ofLedger;
    // An origin holds no line feed.
    const name = `${further}\n${origin}`;
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const lines = fieldLines(this.#cors.grant(origin, further));
    if (this.#known.size >= mostKnown) this.#known.clear();
    this.#known.set(name, lines);
    return lines;
  }
}
