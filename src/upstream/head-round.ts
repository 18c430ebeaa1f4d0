/**
 * Looks at the heads of all nodes at one moment, so that the freshest can be told. Heads that were told at different
 * moments cannot be compared: a node that is behind and was asked later seems ahead.
 */
import type { Fleet } from './fleet.ts';
import type { Upstream } from './upstream.ts';

/** For so long the comparison of a round holds: nodes keep their order, and each round costs every node a look. */
const roundMs = 250;
/** A node that takes longer to tell its head is no good choice, and must not hold up every read. */
const longestMs = 100;

export class HeadRound {
  readonly #fleet: Pick<Fleet, 'upstreams'>;
  readonly #look: (upstream: Upstream) => Promise<unknown>;
  #tookAtMs = -Infinity;
  #round: Promise<void> | undefined;

  /** `look`: asks one node for its ledger info; never rejects. */
  constructor(fleet: Pick<Fleet, 'upstreams'>, look: (upstream: Upstream) => Promise<unknown>) {
    this.#fleet = fleet;
    this.#look = look;
  }

  /** Resolves when the heads can be compared, after 100 ms at most. `undefined`: they can, or there is one node only. */
  take(): Promise<void> | undefined {
    if (this.#round !== undefined || performance.now() - this.#tookAtMs < roundMs) return this.#round;
    const nodes = this.#fleet.upstreams.filter(({ health, isSuspect }) => health === 'usable' && !isSuspect);
    if (nodes.length < 2) return undefined;
    const looks = Promise.all(nodes.map((upstream) => this.#look(upstream)));
    this.#round = within(looks, longestMs).finally(() => {
      this.#tookAtMs = performance.now();
      this.#round = undefined;
    });
    return this.#round;
  }
}

function within(done: Promise<unknown>, ms: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    done.finally(() => clearTimeout(timer)).then(() => resolve(), reject);
  });
}
