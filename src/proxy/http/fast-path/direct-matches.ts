/** Matches of `POST` targets that no cached read answers: signing messages and submissions. */
import type { MatchedRoute } from '../route.ts';

/** Clients use a handful of these targets; queries make others. */
const mostKept = 64;

/** Keeps matches by target: the name of a posted read, with its whole body, is not looked up for them. */
export class DirectMatches {
  readonly #kept = new Map<string, MatchedRoute>();

  find(target: string): MatchedRoute | undefined {
    return this.#kept.get(target);
  }

  /**
   * Keeps a match without a fault, of a route whose answers are not cached. Its target is a text of its own (`ownCopy`):
   * a slice would keep the text of the received bytes in memory.
   */
  add(match: MatchedRoute): void {
    const { route, fault, target } = match;
    if (fault !== undefined || (route.kind !== 'encode' && route.kind !== 'submit')) return;
    if (this.#kept.size >= mostKept) this.#kept.clear();
    this.#kept.set(target, match);
  }
}
