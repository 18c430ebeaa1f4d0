/** A client of a chaos run: one request after the other at either gateway, with the newest version it saw as token. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request as send } from 'undici';
import { Random } from '../random.ts';
import { nextRequest, type ChaosRequest } from './requests.ts';
import { startHead } from './ledger.ts';
import { Answerable, type ClientAnswer, type Tally } from './tally.ts';
import type { ChaosGateway, ChaosWorld } from './world.ts';

/** The gateways' deadline, the wait for a version, and the delays of a busy machine. */
const patienceMs = 8_000;
/** A gateway that refused a connection is not asked again for so long. */
const avoidMs = 300;

export class ChaosClient {
  readonly #world: ChaosWorld;
  readonly #tally: Tally;
  readonly #random: Random;
  readonly #agent = new Agent({ connections: 1, pipelining: 1 });
  #seen = startHead - 20n;
  readonly #avoidUntilMs = new Map<ChaosGateway, number>();
  /** The last version in the headers of each gateway process. */
  readonly #head = new Map<number, bigint>();

  constructor(world: ChaosWorld, tally: Tally, seed: number) {
    this.#world = world;
    this.#tally = tally;
    this.#random = new Random(seed);
  }

  /** Asks until `isOver`, resting up to `restMs` in between. */
  async live(isOver: () => boolean, restMs: number): Promise<void> {
    while (!isOver()) {
      await this.operate();
      await sleep(this.#random.below(restMs));
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  /** One request, judged. */
  async operate(): Promise<void> {
    const asked = nextRequest({ world: this.#world, random: this.#random, seen: this.#seen });
    const answerable = new Answerable(this.#world.nodes, asked);
    // Both may seem closed for a moment, while one is starting and the other is still avoided.
    for (let tries = 0; tries < 20; tries += 1) {
      const gateway = this.#choose();
      const outcome = await this.#ask(gateway, asked);
      if (outcome === 'refused') {
        this.#tally.failedOver += 1;
        this.#avoidUntilMs.set(gateway, performance.now() + avoidMs);
        await sleep(tries === 0 ? 0 : 50);
        continue;
      }
      if (outcome !== 'cut') this.#judge(asked, outcome, { answerable, gateway });
      return;
    }
    this.#tally.violate('lost', `no gateway took ${asked.path}`);
  }

  #choose(): ChaosGateway {
    const nowMs = performance.now();
    const { gateways } = this.#world;
    const open = gateways.filter((gateway) => !gateway.isLeaving && nowMs >= (this.#avoidUntilMs.get(gateway) ?? 0));
    return this.#random.pick(open.length > 0 ? open : gateways);
  }

  async #ask(gateway: ChaosGateway, { path, body }: ChaosRequest): Promise<ClientAnswer | 'refused' | 'cut'> {
    const { timesKilled, isDying } = gateway;
    const startMs = performance.now();
    let hasBegun = false;
    try {
      const {
        statusCode,
        headers,
        body: answer,
      } = await send(gateway.process.url + path, {
        dispatcher: this.#agent,
        method: body === undefined ? 'GET' : 'POST',
        headers: { 'content-type': 'application/json', 'ledgergate-min-version': String(this.#seen) },
        body: body ?? null,
        signal: AbortSignal.timeout(patienceMs),
      });
      hasBegun = true;
      const text = await answer.text();
      const tookMs = performance.now() - startMs;
      const served = findVersion(headers['ledgergate-served-version']);
      const head = findVersion(headers['x-node-ledger-version']);
      return { status: statusCode, text, tookMs, headers, served, head };
    } catch (error) {
      const { code, name } = error as NodeJS.ErrnoException;
      if (code === 'ECONNREFUSED') return 'refused';
      const took = `after ${Math.round(performance.now() - startMs)} ms: ${String(code)} ${String(error)}`;
      const isLate = name === 'TimeoutError' || name === 'AbortError';
      const violation = isLate ? 'too late' : hasBegun ? 'broken off' : 'lost';
      if (isDying || gateway.timesKilled !== timesKilled) this.#tally.cut += 1;
      else this.#tally.violate(violation, `${gateway.name} ${path} ${took}`);
      return 'cut';
    }
  }

  #judge(
    asked: ChaosRequest,
    answer: ClientAnswer,
    by: { readonly answerable: Answerable; readonly gateway: ChaosGateway },
  ): void {
    const { answerable, gateway } = by;
    this.#tally.take(asked, answer, { answerable, through: gateway.name });
    const { head, served, status } = answer;
    const { pid } = gateway.process;
    if (head !== undefined && head < (this.#head.get(pid) ?? 0n)) {
      this.#tally.violate('headers went backward', `${gateway.name}: ${this.#head.get(pid)}, then ${head}`);
    }
    if (status === 200 && asked.isLatest && served !== undefined && served < this.#seen) {
      this.#tally.violate('state went backward', `${gateway.name} ${asked.path}: saw ${this.#seen}, then ${served}`);
    }
    if (status === 200 && asked.isLatest && head !== undefined && head < this.#seen) {
      this.#tally.violate('headers went backward', `${gateway.name}: saw ${this.#seen}, then ${head}`);
    }
    if (head !== undefined) this.#head.set(pid, head);
    for (const version of [head, served]) if (version !== undefined && version > this.#seen) this.#seen = version;
  }
}

function findVersion(header: string | string[] | undefined): bigint | undefined {
  return typeof header === 'string' && /^\d{1,20}$/.test(header) ? BigInt(header) : undefined;
}
