/**
 * What clients ask for: by route, by where the answer came from, by how long it took, and by how far behind the head the
 * version was. One request is two additions.
 */
import { outcomes, routes, toldOutcome, type Finished, type Outcome, type RouteName } from '../metrics/http-metrics.ts';
import { bucketCount, bucketOf, countsOf, mergeCounts, totalOf, type LatencyCounts } from './latency.ts';
import { Windows, type WindowTold } from './windows.ts';

/** Versions behind the head, by doublings: 0, 1, 2 to 3, 4 to 7, ... The last bin begins at 2^46. */
export const distanceBins = 48;
/** Behind the counts of latencies: bins of what was held here, then of what a node was asked for. */
const distancesFrom = routes.length * outcomes.length * bucketCount;
const cellCount = distancesFrom + 2 * distanceBins;

const routeIndex = Object.fromEntries(routes.map((route, index) => [route, index])) as Readonly<
  Record<RouteName, number>
>;
const outcomeIndex = Object.fromEntries(outcomes.map((outcome, index) => [outcome, index])) as Readonly<
  Record<Outcome, number>
>;

/** A request that has ended. */
export interface Answered extends Pick<Finished, 'route' | 'outcome' | 'isTold'> {
  /** The ledger version that the answer's body is of. */
  readonly version: bigint | undefined;
}

export class Traffic {
  readonly windows: Windows;
  readonly #second: Uint32Array;
  /** The head of the fleet. A number: a difference of a few versions in 2^53 moves nothing that can be seen. */
  #head = -1;

  /** `nowMs`: of the clock that the windows are rolled by. */
  constructor(nowMs: number) {
    this.windows = new Windows(cellCount, nowMs);
    this.#second = this.windows.second;
  }

  /** To be told each second: requests are not made to look it up. */
  set head(version: bigint | undefined) {
    this.#head = version === undefined ? -1 : Number(version);
  }

  count(request: Answered, seconds: number): void {
    const { route, version } = request;
    const outcomeAt = outcomeIndex[toldOutcome(request)];
    const cell = (routeIndex[route] * outcomes.length + outcomeAt) * bucketCount + bucketOf(seconds);
    const second = this.#second;
    second[cell] = (second[cell] ?? 0) + 1;
    if (version === undefined || this.#head < 0) return;
    const bin = binOf(this.#head - Number(version));
    const at = distancesFrom + (outcomeAt < firstAsked ? bin : distanceBins + bin);
    second[at] = (second[at] ?? 0) + 1;
  }
}

/** Of the outcomes, the first that a node was asked for. */
const firstAsked = outcomes.indexOf('miss');

/** A version that is newer than the head of this second counts as the head. */
export function binOf(distance: number): number {
  if (distance < 1) return 0;
  const bin = (distance < 2 ** 31 ? 31 - Math.clz32(distance) : Math.floor(Math.log2(distance))) + 1;
  return bin < distanceBins ? bin : distanceBins - 1;
}

/** The first distance of a bin, and the first one beyond it. */
export function binBounds(bin: number): readonly [from: number, to: number] {
  return bin === 0 ? [0, 1] : [2 ** (bin - 1), 2 ** bin];
}

export function latencyOf({ cells }: WindowTold, which: { route?: RouteName; outcome?: Outcome }): LatencyCounts {
  const found: LatencyCounts[] = [];
  for (const route of which.route === undefined ? routes : [which.route]) {
    for (const outcome of which.outcome === undefined ? outcomes : [which.outcome]) {
      found.push(countsOf(cells, (routeIndex[route] * outcomes.length + outcomeIndex[outcome]) * bucketCount));
    }
  }
  return mergeCounts(found);
}

export function countOf(window: WindowTold, which: { route?: RouteName; outcome?: Outcome }): number {
  return totalOf(latencyOf(window, which));
}

/** Reads by distance from the head: those that were held here, and those that a node was asked for. */
export function distancesOf({ cells }: WindowTold): readonly { readonly held: number; readonly asked: number }[] {
  return Array.from({ length: distanceBins }, (_, bin) => ({
    held: cells[distancesFrom + bin] ?? 0,
    asked: cells[distancesFrom + distanceBins + bin] ?? 0,
  }));
}
