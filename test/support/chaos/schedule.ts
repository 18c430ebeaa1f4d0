/**
 * The faults of a run: of nodes, gateways and Redis, drawn from one seed. One node at a time is spared, so that a node
 * can always answer; the spared node changes every few seconds, and never before the next one has been well for a while.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../random.ts';
import { get } from '../workers.ts';
import type { ChaosNode } from './node.ts';
import { nodeFaults, type NodeFault } from './node-faults.ts';
import { redisPassword, type ChaosGateway, type ChaosWorld } from './world.ts';

export interface ScheduleOptions {
  readonly seed: number;
  readonly seconds: number;
}

/** A node has been well for this long before the one that was left alone may fail. */
const settledMs = 700;
/** Two probes of a gateway (see world.ts): a shunned node is asked again after a good probe. */
const provenMs = 500;
const commitEveryMs = 500;
/** Balancers have seen the end of readiness by then. */
const detectedMs = 200;

export class Schedule {
  /** Events in order, for the report of a failure. */
  readonly events: string[] = [];
  /** How often each thing happened. */
  readonly counts = new Map<string, number>();
  readonly #world: ChaosWorld;
  readonly #seed: number;
  readonly #startMs = performance.now();
  readonly #endMs: number;
  /** Left alone now; for a moment both the old and the new one are. */
  readonly #spared = new Set<ChaosNode>();

  constructor(world: ChaosWorld, { seed, seconds }: ScheduleOptions) {
    this.#world = world;
    this.#seed = seed;
    this.#endMs = this.#startMs + seconds * 1000;
  }

  get isOver(): boolean {
    return performance.now() >= this.#endMs;
  }

  /** Resolves when the time is over, everything is well again and both gateways serve. */
  async run(): Promise<void> {
    const { nodes } = this.#world;
    this.#spared.add(this.#random(1).pick(nodes));
    await Promise.all([
      this.#rotate(this.#random(2)),
      ...nodes.map((node, index) => this.#torment(node, this.#random(10 + index))),
      this.#tormentGateways(this.#random(3)),
      this.#tormentRedis(this.#random(4)),
      this.#commit(),
    ]);
  }

  #random(part: number): Random {
    return new Random(this.#seed * 101 + part);
  }

  /** Waits for a time between these, and not past the end. */
  #pause(random: Random, leastMs: number, mostMs: number): Promise<void> {
    const ms = leastMs + random.below(mostMs - leastMs);
    return sleep(Math.max(0, Math.min(ms, this.#endMs - performance.now())));
  }

  #note(what: string, who: string): void {
    this.events.push(`${((performance.now() - this.#startMs) / 1000).toFixed(2)} s: ${who} ${what}`);
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  async #rotate(random: Random): Promise<void> {
    while (!this.isOver) {
      await this.#pause(random, 2_500, 6_000);
      const next = random.pick(this.#world.nodes.filter((node) => !this.#spared.has(node)));
      this.#spared.add(next);
      while (next.fault !== undefined) await sleep(20);
      await sleep(settledMs);
      for (const node of this.#spared) if (node !== next) this.#spared.delete(node);
      this.#note('is left alone', next.name);
    }
  }

  async #torment(node: ChaosNode, random: Random): Promise<void> {
    while (!this.isOver) {
      await this.#pause(random, 100, 1_500);
      const fault = random.pick(nodeFaults);
      if (this.isOver || this.#spared.has(node) || !this.#mayBegin(fault)) continue;
      this.#note(fault.name, node.name);
      node.ail(fault.name, fault.leavesAble === true);
      await fault.begin(node, random);
      await this.#pause(random, 300, 4_000);
      await node.heal(fault.shuns === true ? provenMs : 0);
      this.#note('is well', node.name);
    }
  }

  #mayBegin({ isExclusive }: NodeFault): boolean {
    const ailing = this.#world.nodes.map(({ fault }) => nodeFaults.find(({ name }) => name === fault));
    if (isExclusive === true) return ailing.every((fault) => fault === undefined);
    return !ailing.some((fault) => fault?.isExclusive === true);
  }

  /** One after the other, so that one of them always serves. */
  async #tormentGateways(random: Random): Promise<void> {
    while (!this.isOver) {
      await this.#pause(random, 1_500, 4_000);
      if (this.isOver) return;
      const gateway = random.pick(this.#world.gateways);
      if (random.chance(2)) await this.#stop(gateway);
      else await this.#kill(gateway);
      await sleep(random.below(600));
      await gateway.process.restart();
      while ((await get(`${gateway.process.operationsUrl}/readyz`)).status !== 200) await sleep(20);
      gateway.isLeaving = false;
      this.#note('serves again', gateway.name);
    }
  }

  async #stop(gateway: ChaosGateway): Promise<void> {
    this.#note('gets the signal to end', gateway.name);
    const ended = gateway.process.stop();
    await sleep(detectedMs);
    gateway.isLeaving = true;
    const code = await ended;
    if (code !== 0) this.#note(`ended with ${code}`, gateway.name);
  }

  async #kill(gateway: ChaosGateway): Promise<void> {
    this.#note('is killed', gateway.name);
    gateway.timesKilled += 1;
    gateway.isDying = true;
    await gateway.process.kill();
    gateway.isDying = false;
    await sleep(detectedMs);
    gateway.isLeaving = true;
  }

  async #tormentRedis(random: Random): Promise<void> {
    const { redis } = this.#world;
    while (!this.isOver) {
      await this.#pause(random, 500, 3_000);
      if (this.isOver) return;
      const fault = random.pick(['hangs', 'is killed', 'forgets everything'] as const);
      this.#note(`(Redis) ${fault}`, 'redis');
      if (fault === 'forgets everything') {
        await redis.run((client) => client.flushall(), { password: redisPassword });
        continue;
      }
      if (fault === 'hangs') redis.pause();
      else await redis.kill();
      await this.#pause(random, 200, 2_500);
      if (fault === 'hangs') redis.resume();
      else await redis.start();
    }
  }

  async #commit(): Promise<void> {
    for (; !this.isOver; await sleep(commitEveryMs)) this.#world.commit();
  }
}
