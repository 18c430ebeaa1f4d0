/** What one worker learns and all should know: passed on by the primary, which also says who asks quiet nodes. */
import { DistrustedFunctions, type Distrusted } from '../encode/distrusted.ts';
import type { Crew } from './crew.ts';
import type { Member, Services } from './forked.ts';
import type { Found } from './protocol.ts';

/** A worker that does not say in this time that it knows of a submission is not waited for. */
const takenMs = 200;

/** What was told of a node longer ago than so many intervals says nothing of it now. */
const freshIntervals = 3;

export class Relay {
  readonly #crew: () => Crew;
  /** Functions that nodes encode from now on, also when a worker is started again. */
  readonly #distrusted = new DistrustedFunctions();
  #onDuty: Member | undefined;
  /** What was found last of each node, and when the node told it. */
  readonly #found = new Map<string, Found & { readonly toldAtMs: number }>();
  #startedOverAtMs = -Infinity;
  readonly #freshMs: number;

  constructor(crew: () => Crew, probeIntervalMs: number) {
    this.#crew = crew;
    this.#freshMs = freshIntervals * probeIntervalMs;
  }

  /** The ledger is another one: what nodes told before says nothing of it, also where it comes here only later. */
  startOver(): void {
    this.#startedOverAtMs = performance.now();
  }

  /**
   * What is known of the nodes, for a worker that begins. A head that others contradict comes after what contradicts
   * it, so that it is not believed first.
   */
  known(): readonly Found[] {
    const nowMs = performance.now();
    const sinceMs = Math.max(this.#startedOverAtMs, nowMs - this.#freshMs);
    return [...this.#found.values()]
      .filter(({ toldAtMs }) => toldAtMs > sinceMs)
      .map(({ upstream, finding, toldAtMs }) => ({ upstream, finding: { ...finding, ageMs: nowMs - toldAtMs } }))
      .toSorted((one, other) => Number(versionOf(one) - versionOf(other)));
  }

  get distrusted(): Distrusted {
    return this.#distrusted.all;
  }

  servicesFor(member: Member): Pick<Services, 'found' | 'taken' | 'distrusted' | 'dropped'> {
    return {
      found: (news) => {
        this.#found.set(news.upstream, { ...news, toldAtMs: performance.now() - news.finding.ageMs });
        for (const { channel } of this.#others(member)) channel.tell('found', news);
      },
      taken: async (news) => {
        const told = this.#others(member).map(async ({ channel, isServing }) => {
          // Who does not serve yet hears of it when it does, and asks nobody before.
          if (isServing) await channel.call('taken', news, takenMs);
          else channel.tell('taken', news);
        });
        await Promise.allSettled(told);
      },
      distrusted: (functionId) => {
        this.#distrusted.add(functionId);
        for (const { channel } of this.#others(member)) channel.tell('distrusted', functionId);
      },
      dropped: (key) => {
        for (const { channel } of this.#others(member)) channel.tell('dropped', key);
      },
    };
  }

  /** One worker asks quiet nodes, for as long as it serves. */
  assignDuty(): void {
    if (this.#onDuty?.isServing === true) return;
    [this.#onDuty] = this.#crew().serving;
    this.#onDuty?.channel.tell('duty', true);
  }

  #others(member: Member): readonly Member[] {
    return this.#crew().members.filter((other) => other !== member);
  }
}

function versionOf({ finding: { info } }: Found): bigint {
  return info?.version ?? -1n;
}
