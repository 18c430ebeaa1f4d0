/**
 * Shares of a turn of the event loop. Node reads up to 2 MiB of one connection in a row, and one read can hold hundreds of
 * requests: without shares, a client that pipelines delays the others by seconds. Work above its client's share waits for
 * the next turn, behind the client's other connections; none is refused.
 */

/** Input of one connection that can be worked off in pieces. */
export interface PacedWork {
  /** Network of the client, whose connections have one share. */
  readonly client: string;
  /** Does pieces until `isOver` or nothing is left; whether it wants another turn. Never throws. */
  work(isOver: () => boolean): boolean;
}

/** A client with work in this turn. */
interface ClientShare {
  usedMs: number;
  readonly waiting: PacedWork[];
}

/** Time of one client in one turn. Work within one piece goes on, and callbacks that it causes are not measured. */
const shareMs = 2;
/** Time of all waiting work in one turn: with many clients the shares are smaller. */
const turnMs = 8;
/** Time of one connection before the next one of the same client. */
const connectionMs = 0.5;

/** The shares of all clients in the current turn. */
export class TurnShares {
  readonly #clients = new Map<string, ClientShare>();
  readonly #now: () => number;
  #shareMs = shareMs;
  #isTurnBegun = false;

  /** `now`: monotonic, in milliseconds. */
  constructor(now = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Does `work` now, within its client's share, and the rest in later turns. Call it when input arrives and none waits.
   */
  begin(work: PacedWork): void {
    const client = this.#clientOf(work.client);
    if (client.waiting.length === 0 && client.usedMs < this.#shareMs && !this.#workOff(client, work)) return;
    client.waiting.push(work);
  }

  /** Does `work` in the next turn, or in a later one. */
  defer(work: PacedWork): void {
    this.#clientOf(work.client).waiting.push(work);
  }

  /** Counts work of `name` that is not measured. False: its share is used up. */
  charge(name: string, ms: number): boolean {
    const client = this.#clientOf(name);
    client.usedMs += ms;
    return client.usedMs < this.#shareMs && client.waiting.length === 0;
  }

  #clientOf(name: string): ClientShare {
    const known = this.#clients.get(name);
    if (known !== undefined) return known;
    const client = { usedMs: 0, waiting: [] };
    this.#clients.set(name, client);
    this.#beginTurn();
    return client;
  }

  #beginTurn(): void {
    if (!this.#isTurnBegun) setImmediate(this.#nextTurn);
    this.#isTurnBegun = true;
  }

  readonly #nextTurn = (): void => {
    this.#isTurnBegun = false;
    for (const [name, client] of this.#clients) {
      if (client.waiting.length === 0) this.#clients.delete(name);
      else client.usedMs = 0;
    }
    this.#shareMs = Math.min(shareMs, turnMs / Math.max(1, this.#clients.size));
    if (this.#clients.size > 0) this.#beginTurn();
    for (const client of this.#clients.values()) {
      while (client.waiting.length > 0 && client.usedMs < this.#shareMs) {
        const work = client.waiting.shift();
        if (work !== undefined && this.#workOff(client, work)) client.waiting.push(work);
      }
    }
  };

  #workOff(client: ClientShare, work: PacedWork): boolean {
    const startedMs = this.#now();
    const endMs = startedMs + Math.min(connectionMs, this.#shareMs - client.usedMs);
    const isUnfinished = work.work(() => this.#now() >= endMs);
    client.usedMs += this.#now() - startedMs;
    return isUnfinished;
  }
}
