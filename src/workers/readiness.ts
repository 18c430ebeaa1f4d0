/** What several workers say of readiness, as one. */
import type { Disagreement } from '../proxy/audits.ts';
import type { OutageStatus, Readiness, UpstreamStatus } from '../proxy/health.ts';

/** Best first. A node that one worker reaches is there; a node of another chain is so for everybody. */
const ranks = { usable: 0, unproven: 1, down: 2, foreign: 3 } as const;

/** `told`: of the workers that answered. Ready when one of them is: connections go to those that serve. */
export function mergeReadiness(told: readonly Readiness[], wanted: number): Readiness {
  const [first] = told;
  const ready = told.filter(({ isReady }) => isReady).length;
  const trouble = told.map(({ redis }) => redis?.trouble).find((reason) => reason !== undefined);
  return {
    isReady: ready > 0,
    outage: ready > 0 ? undefined : mergeOutage(told.flatMap(({ outage }) => outage ?? [])),
    upstreams: (first?.upstreams ?? []).map(({ name }) =>
      mergeUpstream(told.flatMap(({ upstreams }) => upstreams.filter((upstream) => upstream.name === name))),
    ),
    distrusted: [...new Set(told.flatMap(({ distrusted }) => distrusted))],
    disagreements: mergeDisagreements(told.flatMap(({ disagreements }) => disagreements)),
    redis: first?.redis === undefined ? undefined : { trouble },
    workers: { wanted, answering: told.length, ready },
  };
}

/** Since the last worker noticed; with the newest head that one of them tells. */
function mergeOutage(words: readonly OutageStatus[]): OutageStatus | undefined {
  const [first] = words;
  if (first === undefined) return undefined;
  return words.reduce((found, { since, head }) => ({
    since: since > found.since ? since : found.since,
    head: BigInt(head ?? -1) > BigInt(found.head ?? -1) ? head : found.head,
  }));
}

function mergeDisagreements(words: readonly Disagreement[]): readonly Disagreement[] {
  const merged = new Map<string, Disagreement>();
  for (const word of words) {
    const pair = word.upstreams.join(' ');
    const known = merged.get(pair);
    merged.set(pair, known === undefined ? word : addDisagreements(known, word));
  }
  return [...merged.values()];
}

function addDisagreements(one: Disagreement, other: Disagreement): Disagreement {
  const lost = Object.entries(one.lost).map(([name, count]) => [name, count + (other.lost[name] ?? 0)] as const);
  return {
    upstreams: one.upstreams,
    count: one.count + other.count,
    lost: Object.fromEntries(lost),
    last: one.last > other.last ? one.last : other.last,
  };
}

/** The word of the worker that thinks best of the node, the newest of equals. Not empty: one told of each node. */
function mergeUpstream(words: readonly UpstreamStatus[]): UpstreamStatus {
  const best = words.reduce((found, word) => (isBetter(word, found) ? word : found));
  return { ...best, usableBy: words.filter(({ state }) => state === 'usable').length };
}

function isBetter(word: UpstreamStatus, other: UpstreamStatus): boolean {
  if (word.state !== other.state) return ranks[word.state] < ranks[other.state];
  return BigInt(word.head ?? -1) > BigInt(other.head ?? -1);
}
