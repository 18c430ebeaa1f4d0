/** Sample reports of a process, for tests of the status page. */
import type { GatewayStatus, NodeStatus, ProcessStatus } from '../../src/proxy/operations/status/report.ts';
import { factsOf, type StatusFacts } from '../../src/proxy/operations/status/present.ts';
import type { Counts } from '../../src/proxy/operations/status/counts.ts';
import type { WindowCounts } from '../../src/proxy/operations/status/windows.ts';

/** `ejected` may hold any text, as of a hostile process. */
type KnownNode = Partial<Omit<NodeStatus, 'ejected'>> & { readonly ejected?: readonly object[] };

export function nodeStatus({ ejected = [], ...known }: KnownNode = {}): NodeStatus {
  return {
    name: 'full-a',
    tier: 'full',
    state: 'usable',
    reason: undefined,
    since: undefined,
    isDrained: false,
    forkedAt: undefined,
    isSuspect: false,
    lower: undefined,
    warning: undefined,
    chainId: 1,
    oldest: '3322670000',
    head: '3412674839',
    lag: '0',
    lagSeconds: 0,
    isLagging: false,
    edgeSpeed: 190,
    edgeMargin: '1200',
    inFlight: 2,
    limit: 128,
    ejected: ejected as NodeStatus['ejected'],
    ...known,
  };
}

export function processStatus(known: Partial<ProcessStatus> = {}): ProcessStatus {
  return {
    startedAtMs: 1_000,
    isReady: true,
    outage: undefined,
    chainId: 1,
    head: '3412674839',
    oldest: '0',
    headSpeed: 190,
    nodes: [nodeStatus()],
    windows: windowsOf(new Map(), 0),
    trend: [],
    total: new Map(),
    store: undefined,
    cache: { entries: 10, bytes: 1_000, maxBytes: 4_000 },
    redis: undefined,
    isEncoding: true,
    lost: undefined,
    certificateRefused: undefined,
    distrusted: [],
    disagreements: [],
    load: {
      connections: 1,
      maxConnections: 100,
      streams: 1,
      maxStreams: 50,
      loopLagMs: 0,
      isOverloaded: false,
      waiting: 0,
    },
    certificateExpiresMs: undefined,
    pendingRenewals: [],
    follower: { state: 'idle', next: undefined, lagSeconds: 0 },
    events: [],
    ...known,
  };
}

/** Three windows of the same seconds and counts. */
export function windowsOf(counts: Counts, coveredSeconds: number): readonly WindowCounts[] {
  return [10, 100, 1_000].map((seconds) => ({ seconds, coveredSeconds, counts }));
}

export function factsFrom(known: Partial<ProcessStatus> = {}, gateway: Partial<GatewayStatus> = {}): StatusFacts {
  return factsOf(processStatus(known), {
    version: '1.2.3',
    nowMs: 61_000,
    isDraining: false,
    reload: undefined,
    ...gateway,
  });
}
