/** What a process might tell of itself. */
import type { NodeTold, StatusFacts, Surroundings, Told } from '../../src/status/facts.ts';
import { factsOf } from '../../src/status/present.ts';
import { encodings, refusals, repairs, Tally } from '../../src/status/tally.ts';
import { Traffic } from '../../src/status/traffic.ts';

export function nodeTold(known: Partial<NodeTold> = {}): NodeTold {
  return {
    name: 'full-a',
    tier: 'full',
    state: 'usable',
    isSuspect: false,
    chainId: 1,
    oldest: '3322670000',
    head: '3412674839',
    lag: '0',
    edgeSpeed: 190,
    edgeMargin: '1200',
    inFlight: 2,
    limit: 128,
    ejected: [],
    latency: [[8, 10]],
    tally: new Tally(['answered', 'failed'], 0).told(0),
    ...known,
  };
}

export function told(known: Partial<Told> = {}): Told {
  return {
    startedAtMs: 1_000,
    isReady: true,
    outageSince: undefined,
    chainId: 1,
    head: '3412674839',
    oldest: '0',
    headSpeed: 190,
    nodes: [nodeTold()],
    traffic: new Traffic(0).windows.told(0),
    refusals: new Tally(refusals, 0).told(0),
    encodings: new Tally(encodings, 0).told(0),
    repairs: new Tally(repairs, 0).told(0),
    cache: { entries: 10, bytes: 1_000, maxBytes: 4_000 },
    redis: undefined,
    isEncoding: true,
    distrusted: [],
    disagreements: [],
    load: { connections: 1, maxConnections: 100, loopLagMs: 0, isOverloaded: false, waiting: 0 },
    certificateExpiresMs: undefined,
    events: [],
    ...known,
  };
}

export function factsFrom(known: Partial<Told> = {}, around: Partial<Surroundings> = {}): StatusFacts {
  return factsOf(told(known), { version: '1.2.3', nowMs: 61_000, isDraining: false, reload: undefined, ...around });
}
