/** What one worker learns and all should know: passed on by the primary, which also says who asks quiet nodes. */
import type { Crew, Member, Services } from './crew.ts';

/** A worker that does not say in this time that it knows of a submission is not waited for. */
const takenMs = 200;
/** As many as make an encoder give up altogether (`ShadowProof`). */
const maxDistrusted = 1_000;

export class Relay {
  readonly #crew: () => Crew;
  /** Functions that nodes encode from now on, also when a worker is started again. */
  readonly #distrusted = new Set<string>();
  #onDuty: Member | undefined;

  constructor(crew: () => Crew) {
    this.#crew = crew;
  }

  get distrusted(): readonly string[] {
    return [...this.#distrusted];
  }

  servicesFor(member: Member): Pick<Services, 'found' | 'taken' | 'distrusted' | 'dropped'> {
    return {
      found: (news) => {
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
        if (this.#distrusted.size < maxDistrusted) this.#distrusted.add(functionId);
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
