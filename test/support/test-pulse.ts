/** Beats of streams, and the parts of their worlds that tests set. */
import type { Pulse, PulseListener } from '../../src/proxy/reads/streams/pulse.ts';
import { stateAt } from './states.ts';

/** An object whose members are read anew at each use. */
export function live<T>(members: { readonly [Name in keyof T]: () => T[Name] }): T {
  const names = Object.keys(members) as (keyof T & string)[];
  return Object.defineProperties({}, Object.fromEntries(names.map((name) => [name, { get: members[name] }]))) as T;
}

/** A pulse that beats when the test says. */
export class TestPulse {
  readonly pulse: Pulse;
  listener: PulseListener | undefined;

  constructor(generation: () => number) {
    this.pulse = live({
      generation,
      join: () => (listener: PulseListener) => {
        const isNew = this.listener === undefined;
        this.listener = listener;
        return isNew;
      },
      leave: () => () => (this.listener = undefined),
    }) as unknown as Pulse;
  }

  get isListening(): boolean {
    return this.listener !== undefined;
  }

  beat(version: bigint): void {
    this.listener?.onBeat(stateAt(version));
  }
}
