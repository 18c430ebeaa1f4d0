/** The deployments of docs/scaling.md. */
import type { CdnShape, RedisShape, Shape, Traffic } from './shape.ts';

/** Wallets: mostly the latest state of accounts, and what a page reads beside it. */
export const usualTraffic: Omit<Traffic, 'rate'> = {
  mix: {
    latest: 0.5,
    latestView: 0.1,
    head: 0.12,
    headView: 0.03,
    recent: 0.04,
    deep: 0.06,
    hash: 0.06,
    pending: 0.02,
    submit: 0.01,
    encode: 0.02,
  },
  accounts: 1_000_000,
  accountSkew: 1.1,
  types: [
    { bytes: 400, share: 0.75 },
    { bytes: 1_000, share: 0.17 },
    { bytes: 4_000, share: 0.075 },
    { bytes: 60_000, share: 0.005 },
  ],
  headAgeMs: 1_000,
  links: 200_000,
  linkSkew: 1,
  hashAgeMs: 5_000,
  commitSeenMs: 500,
  modules: 50,
};

const redis: RedisShape = {
  shards: 1,
  scope: 'region',
  nearMs: 0.5,
  farMs: 80,
  timeoutMs: 50,
  historyMs: 3_600_000,
};

const cluster = (shards: number): RedisShape => ({ ...redis, shards });
const cdn: CdnShape = { places: 20, historyMs: 3_600_000 };

/** A deployment with everything at its usual value. */
export function shapeOf(name: string, rate: number, changes: Partial<Shape> = {}): Shape {
  return {
    name,
    traffic: { ...usualTraffic, rate },
    ledger: { blocksPerSecond: 25, versionsPerBlock: 20, writesPerSecond: 1_000, retentionMs: 2 * 3_600_000 },
    nodes: { full: 6, archival: 2, readMs: 8, lookMs: 2, probeMs: 1_000, lagMs: 30 },
    replicas: 1,
    regions: 1,
    memoryBytes: 256 * 1024 * 1024,
    maxStalenessMs: 200,
    news: 'first tells',
    ...changes,
  };
}

const million = 1_000_000;
const wide = { replicas: 1_000, regions: 5 } as const;

const best = { ...wide, redis: cluster(6), cdn, news: 'none' } as const;

const inStep = { ...wide, redis: cluster(6), cdn } as const;

/** Nobody needs to see at once what they have committed, so that replicas move on by their timers, in step. */
const reading: Traffic = { ...usualTraffic, rate: million, mix: { ...usualTraffic.mix, submit: 0 } };

/** Clients that read a page at the version that its first read was of. */
const pinning: Traffic = {
  ...usualTraffic,
  rate: million,
  mix: { ...usualTraffic.mix, latest: 0.15, head: usualTraffic.mix.head + 0.35 },
};

export const shapes: readonly Shape[] = [
  shapeOf('one process', 10_000),
  shapeOf('10 processes', 100_000, { replicas: 10 }),
  shapeOf('10 processes, one Redis', 100_000, { replicas: 10, redis }),
  shapeOf('100 processes', million, { replicas: 100 }),
  shapeOf('100 processes, one Redis', million, { replicas: 100, redis }),
  shapeOf('100 processes, Cluster of 12', million, { replicas: 100, redis: cluster(12) }),
  shapeOf('1,000 processes, 5 regions', million, wide),
  shapeOf('the same, a Cluster of 6 for each region', million, { ...wide, redis: cluster(6) }),
  shapeOf('the same, and each told what it shows', million, { ...wide, redis: cluster(6), news: 'each tells' }),
  shapeOf('5 regions, Cluster of 6, CDN', million, { ...wide, redis: cluster(6), cdn }),
  shapeOf('5 regions, CDN, no Redis', million, { ...wide, cdn }),
  shapeOf('5 regions, one Cluster of 30 for all', million, { ...wide, redis: { ...cluster(30), scope: 'global' } }),
  shapeOf('5 regions, Cluster of 6, CDN, no news', million, best),
  shapeOf('the same, 1 s of staleness', million, { ...best, maxStalenessMs: 1_000 }),
  { ...shapeOf('the same, and clients pin more', million, { ...best, maxStalenessMs: 1_000 }), traffic: pinning },
  { ...shapeOf('5 regions, Cluster of 6, CDN, nobody submits', million, inStep), traffic: reading },
  { ...shapeOf('the same, 1 s of staleness', million, { ...inStep, maxStalenessMs: 1_000 }), traffic: reading },
];
