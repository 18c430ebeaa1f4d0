/** The reports of several processes as one. */
import { mergeEvents } from './events.ts';
import type { DisagreementFacts, Ejected, NodeStatus, ProcessStatus } from './facts.ts';
import { mergeCounts } from './counts.ts';
import { mergeWindows } from './windows.ts';

/** Best first. A node that one process reaches is there; a node of another chain is so for everybody. */
const ranks = { usable: 0, unproven: 1, down: 2, foreign: 3 } as const;

/** `reports`: of the processes that answered. `undefined`: none did. */
export function mergeStatus(reports: readonly ProcessStatus[]): ProcessStatus | undefined {
  const [first] = reports;
  if (first === undefined) return undefined;
  const newest = reports.reduce((found, other) => (versionOf(other.head) > versionOf(found.head) ? other : found));
  const deepest = reports.reduce((found, other) => (isDeeper(other.oldest, found.oldest) ? other : found));
  const isReady = reports.some((one) => one.isReady);
  const sum = (read: (one: ProcessStatus) => number): number => reports.reduce((total, one) => total + read(one), 0);
  return {
    startedAtMs: Math.min(...reports.map(({ startedAtMs }) => startedAtMs)),
    isReady,
    outageSince: isReady ? undefined : latest(reports.map(({ outageSince }) => outageSince)),
    chainId: newest.chainId,
    head: newest.head,
    oldest: deepest.oldest,
    headSpeed: newest.headSpeed,
    nodes: namesOf(reports).map((name) =>
      mergeNode(reports.flatMap(({ nodes }) => nodes.filter((node) => node.name === name))),
    ),
    windows: mergeWindows(reports.map(({ windows }) => windows)),
    total: mergeCounts(reports.map(({ total }) => total)),
    cache: {
      entries: sum(({ cache }) => cache.entries),
      bytes: sum(({ cache }) => cache.bytes),
      maxBytes: sum(({ cache }) => cache.maxBytes),
    },
    redis: first.redis && {
      trouble: reports.map(({ redis }) => redis?.trouble).find((trouble) => trouble !== undefined),
    },
    isEncoding: first.isEncoding,
    distrusted: [...new Set(reports.flatMap(({ distrusted }) => distrusted))],
    disagreements: mergeDisagreements(reports.flatMap(({ disagreements }) => disagreements)),
    load: {
      connections: sum(({ load }) => load.connections),
      maxConnections: sum(({ load }) => load.maxConnections),
      loopLagMs: Math.max(...reports.map(({ load }) => load.loopLagMs)),
      isOverloaded: reports.some(({ load }) => load.isOverloaded),
      waiting: sum(({ load }) => load.waiting),
    },
    certificateExpiresMs: earliest(reports.map(({ certificateExpiresMs }) => certificateExpiresMs)),
    events: mergeEvents([
      ...reports.map(({ events }) => events.filter(({ kind }) => kind !== 'edge moved')),
      // Each tells of the same steps, put together at other moments.
      first.events.filter(({ kind }) => kind === 'edge moved'),
    ]),
  };
}

/** In the order of the config; a node that some have not heard of yet comes last. */
function namesOf(reports: readonly ProcessStatus[]): readonly string[] {
  return [...new Set(reports.flatMap(({ nodes }) => nodes.map(({ name }) => name)))];
}

/** The word of the process that thinks best of the node, the newest of equals. Not empty. */
function mergeNode(words: readonly NodeStatus[]): NodeStatus {
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

function isBetter(word: NodeStatus, other: NodeStatus): boolean {
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
