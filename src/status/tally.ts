/** Counts of a closed set of things, over the windows and since the start. */
import { Windows, type WindowTold } from './windows.ts';

/** Requests and connections that were turned away, by why. */
export const refusals = [
  'no key',
  'bad key',
  'misplaced key',
  'unread',
  'operation',
  'origin',
  'limit',
  'not counted',
  'event loop',
  'answers on their way',
  'queue full',
  'queue late',
  'connections',
] as const;
export type Refusal = (typeof refusals)[number];

/** Signing messages: who made them, and what comparing them with nodes showed. */
export const encodings = ['local', 'forwarded', 'refused', 'equal', 'mismatch', 'inconclusive', 'skipped'] as const;
export type Encoding = (typeof encodings)[number];

/** What becomes of requests on the way to nodes and to the cache. */
export const repairs = ['pruned repaired', 'retried', 'hedged', 'hedge won', 'evicted'] as const;
export type Repair = (typeof repairs)[number];

export interface TallyTold {
  readonly names: readonly string[];
  readonly windows: readonly WindowTold[];
  /** Since the start, in the order of the names. */
  readonly all: readonly number[];
}

export class Tally<Name extends string> {
  readonly windows: Windows;
  readonly #names: readonly Name[];
  readonly #index: ReadonlyMap<string, number>;

  /** `nowMs`: of the clock that the windows are rolled by. */
  constructor(names: readonly Name[], nowMs: number) {
    this.#names = names;
    this.#index = new Map(names.map((name, index) => [name, index]));
    this.windows = new Windows(names.length, nowMs);
  }

  count(name: Name, times = 1): void {
    const cell = this.#index.get(name);
    if (cell === undefined) return;
    this.windows.second[cell] = (this.windows.second[cell] ?? 0) + times;
  }

  told(nowMs: number): TallyTold {
    return { names: this.#names, windows: this.windows.told(nowMs), all: this.windows.all };
  }
}
