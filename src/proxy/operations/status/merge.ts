/** The reports of several processes as one. */
import { mergeEvents } from './events.ts';
import type { DisagreementFacts, Ejected, NodeTold, Told } from './facts.ts';
import { mergeCounts } from './counts.ts';
import { mergeWindows } from './windows.ts';

/** Best first. A node that one process reaches is there; a node of another chain is so for everybody. */
const ranks = { usable: 0, unproven: 1, down: 2, foreign: 3 } as const;

/** `told`: of the processes that answered. `undefined`: none did. */
export function mergeTold(told: readonly Told[]): Told | undefined {
  const [first] = told;
  if (first === undefined) return undefined;
  const newest = told.reduce((found, other) => (versionOf(other.head) > versionOf(found.head) ? other : found));
  const deepest = told.reduce((found, other) => (isDeeper(other.oldest, found.oldest) ? other : found));
  const isReady = told.some((one) => one.isReady);
  const sum = (read: (one: Told) => number): number => told.reduce((total, one) => total + read(one), 0);
  return {
    startedAtMs: Math.min(...told.map(({ startedAtMs }) => startedAtMs)),
    isReady,
    outageSince: isReady ? undefined : latest(told.map(({ outageSince }) => outageSince)),
    chainId: newest.chainId,
    head: newest.head,
    oldest: deepest.oldest,
    headSpeed: newest.headSpeed,
    nodes: namesOf(told).map((name) =>
      mergeNode(told.flatMap(({ nodes }) => nodes.filter((node) => node.name === name))),
    ),
    windows: mergeWindows(told.map(({ windows }) => windows)),
    total: mergeCounts(told.map(({ total }) => total)),
    cache: {
      entries: sum(({ cache }) => cache.entries),
      bytes: sum(({ cache }) => cache.bytes),
      maxBytes: sum(({ cache }) => cache.maxBytes),
    },
    redis: first.redis && { trouble: told.map(({ redis }) => redis?.trouble).find((trouble) => trouble !== undefined) },
    isEncoding: first.isEncoding,
    distrusted: [...new Set(told.flatMap(({ distrusted }) => distrusted))],
    disagreements: mergeDisagreements(told.flatMap(({ disagreements }) => disagreements)),
    load: {
      connections: sum(({ load }) => load.connections),
      maxConnections: sum(({ load }) => load.maxConnections),
      loopLagMs: Math.max(...told.map(({ load }) => load.loopLagMs)),
      isOverloaded: told.some(({ load }) => load.isOverloaded),
      waiting: sum(({ load }) => load.waiting),
    },
    certificateExpiresMs: earliest(told.map(({ certificateExpiresMs }) => certificateExpiresMs)),
    events: mergeEvents([
      ...told.map(({ events }) => events.filter(({ kind }) => kind !== 'edge moved')),
      // Each tells of the same steps, put together at other moments.
      first.events.filter(({ kind }) => kind === 'edge moved'),
    ]),
  };
}

/** In the order of the config; a node that some have not heard of yet comes last. */
function namesOf(told: readonly Told[]): readonly string[] {
  return [...new Set(told.flatMap(({ nodes }) => nodes.map(({ name }) => name)))];
}

/** The word of the process that thinks best of the node, the newest of equals. Not empty. */
function mergeNode(words: readonly NodeTold[]): NodeTold {
  const best = words.reduce((found, word) => (isBetter(word, found) ? word : found));
  return {
    ...best,
    isSuspect: words.every(({ isSuspect }) => isSuspect),
    inFlight: words.reduce((sum, { inFlight }) => sum + inFlight, 0),
    limit: words.reduce((sum, { limit }) => sum + limit, 0),
    edgeSpeed: Math.max(...words.map(({ edgeSpeed }) => edgeSpeed)),
    ejected: mergeEjected(words.flatMap(({ ejected }) => ejected)),
    usableBy: words.filter(({ state }) => state === 'usable').length,
  };
}

function isBetter(word: NodeTold, other: NodeTold): boolean {
  if (word.state !== other.state) return ranks[word.state] < ranks[other.state];
  return versionOf(word.head) > versionOf(other.head);
}

function mergeEjected(words: readonly Ejected[]): readonly Ejected[] {
  const byClass = new Map(words.toReversed().map((word) => [word.readClass, word]));
  return [...byClass.values()].sort((one, other) => (one.readClass < other.readClass ? -1 : 1));
}

function mergeDisagreements(words: readonly DisagreementFacts[]): readonly DisagreementFacts[] {
  const merged = new Map<string, DisagreementFacts>();
  for (const word of words) {
    const pair = word.upstreams.join(' ');
    const known = merged.get(pair);
    const last = known === undefined || word.last > known.last ? word.last : known.last;
    merged.set(pair, { upstreams: word.upstreams, count: word.count + (known?.count ?? 0), last });
  }
  return [...merged.values()];
}

function versionOf(version: string | undefined): bigint {
  return BigInt(version ?? -1);
}

function isDeeper(oldest: string | undefined, than: string | undefined): boolean {
  return oldest !== undefined && (than === undefined || BigInt(oldest) < BigInt(than));
}

function latest(times: readonly (string | undefined)[]): string | undefined {
  return times.reduce((found, time) => (time !== undefined && (found === undefined || time > found) ? time : found));
}

function earliest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
