/** Clients that ask and ask, each over a connection of its own, and every request of theirs that failed. */
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request as send } from 'undici';
import { Random } from './random.ts';
import { watchStalls, type Stalls } from './stalls.ts';

export interface Failed {
  readonly client: number;
  readonly path: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly why: string;
}

export interface CrowdOptions {
  readonly url: string;
  readonly clients: number;
  /** Whether every request has a connection of its own. Default false. */
  readonly shortLived?: boolean;
  /** Between two requests of a client, on average. Default 60: more of them would only measure the machine. */
  readonly restMs?: number;
  /** Versions from here up are read, and every one of them is held. */
  readonly from: number;
}

/** Longer than a gateway may take for anything, with as much again for a busy machine. */
const patienceMs = 10_000;
/** What gateways call late: where this process was as late, they may have been, and refuse what needs a node. */
const lateMs = 100;

export class Crowd {
  answered = 0;
  /** Refused by a gateway whose event loop was late on a machine where everybody's was: nobody's failure. */
  shed = 0;
  readonly failed: Failed[] = [];
  readonly #stalls: Stalls;
  readonly #options: CrowdOptions;
  readonly #agents: readonly Agent[];
  readonly #lives: Promise<unknown>;
  #version: number;
  #isOver = false;

  constructor(t: TestContext, options: CrowdOptions) {
    this.#options = options;
    this.#stalls = watchStalls(t);
    this.#version = options.from;
    this.#agents = Array.from({ length: options.clients }, () => new Agent({ connections: 1, pipelining: 1 }));
    this.#lives = Promise.all(this.#agents.map((agent, client) => this.#live(client, agent)));
    t.after(async () => {
      await this.end();
      await Promise.all(this.#agents.map((agent) => agent.destroy()));
    });
  }

  /** Resolves when every client's last request is over. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#lives;
  }

  /** Resolves when so many more requests were answered. */
  async answer(count: number): Promise<void> {
    const wanted = this.answered + count;
    while (this.answered < wanted && !this.#isOver) await sleep(10);
  }

  async #live(client: number, agent: Agent): Promise<void> {
    const random = new Random(client);
    const { restMs = 60 } = this.#options;
    while (!this.#isOver) {
      await this.#ask(client, agent, this.#pathFor(random));
      await sleep(random.below(2 * restMs));
    }
  }

  async #ask(client: number, agent: Agent, path: string): Promise<void> {
    const { url, shortLived = false } = this.#options;
    const startMs = performance.now();
    const fail = (why: string): void => {
      this.failed.push({ client, path, startMs, endMs: performance.now(), why });
    };
    try {
      const { statusCode, body } = await send(url + path, {
        dispatcher: agent,
        reset: shortLived,
        signal: AbortSignal.timeout(patienceMs),
      });
      const text = await body.text();
      if (statusCode === 200) this.answered += 1;
      else if (text.includes('the gateway is overloaded') && this.#stalls.longestMs > lateMs) this.shed += 1;
      else fail(`${statusCode} ${text}`);
    } catch (error) {
      fail(String(error));
    }
  }

  /** Mostly reads that no cache has yet, some that all have, and some that are passed through. */
  #pathFor(random: Random): string {
    const probe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=';
    if (random.chance(4)) return `${probe}${this.#options.from}`;
    this.#version += 1;
    return random.chance(5) ? `/blocks/by_version/${this.#version}?x=1` : `${probe}${this.#version}`;
  }
}
