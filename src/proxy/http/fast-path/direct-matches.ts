/** Matches of `POST` targets that no cached read answers: signing messages and submissions. */
import type { Match, Router } from '../../routes/router.ts';
import { ownCopy } from '../target.ts';

/** Clients use a handful of these targets; queries make others. */
const mostKept = 64;

/** Keeps matches by target: the name of a posted read, with its whole body, is not looked up for them. */
export class DirectMatches {
  readonly #router: Router;
  readonly #kept = new Map<string, Match>();

  constructor(router: Router) {
    this.#router = router;
  }

  find(target: string): Match | undefined {
    return this.#kept.get(target);
  }

  /** Keeps a match without a fault, of a route whose answers are not cached. */
  add({ route, fault, method, target }: Match): void {
    if (fault !== undefined || (route.kind !== 'encode' && route.kind !== 'submit')) return;
    if (this.#kept.size >= mostKept) this.#kept.clear();
    // A slice would keep the text of the received bytes in memory.
    const own = ownCopy(target);
    this.#kept.set(own, this.#router.match(method, own));
  }
}
