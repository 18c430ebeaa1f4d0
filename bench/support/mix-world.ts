/** A gateway with nodes of its own that count the calls: a full node and an archival one, of a ledger that moves. */
import { usualTraffic, shapeOf } from '../../simulate/shape.ts';
import type { Route } from '../../simulate/shapes.ts';
import { advancingClock } from '../../src/sample/ledger-clock.ts';
import { Mempool } from '../../src/sample/mempool.ts';
import type { SampleRouteName } from '../../src/sample/routes.ts';
import { createSampleNode, type SampleNode } from '../../test/support/sample-node.ts';
import { startGateway, type BenchedGateway } from './gateway.ts';
import type { MixLedger } from './mix-source.ts';
import type { ServerProcess } from './process-under-test.ts';

export interface MixWorld {
  readonly server: ServerProcess;
  readonly ledger: MixLedger;
  /** Calls that nodes have received of requests of this route. */
  callsOf(route: Route): number;
  /** All calls but those of ledger info and health. */
  calls(): number;
  /** Calls of ledger info and health: looks at the head, and probes. */
  looks(): number;
  stop(): Promise<void>;
}

/** The routes of sample nodes that answer a route of the mix, where names differ. */
const others: Readonly<Partial<Record<Route, readonly SampleRouteName[]>>> = {
  blockWithTransactions: ['blockByVersion'],
  events: ['eventsByNumber'],
  other: ['info', 'specJson'],
  // Calls of ledger info are looks of the gateway, whatever its clients ask.
  ledgerInfo: [],
};

const { ledger: pace, nodes: nodeTimes } = shapeOf('', usualTraffic.accounts);
/** As fast as the simulation's. */
const versionsPerSecond = pace.blocksPerSecond * pace.versionsPerBlock;
const startHead = 2_000_000_000n;
/** Each request names its client, as behind a proxy (`sendMix`). */
const access = { trustedProxies: ['127.0.0.1/32'], anonymous: 'open', plans: { open: {} } };
const pendingMs = 300;
/** A few minutes. */
const window = 100_000n;

const isLook = ({ route }: { readonly route: string }): boolean => route === 'ledgerInfo' || route === 'healthy';

/**
 * `stalenessMs`: bound of reads of the newest state. `slow`: all of it is so many times slower than usual. `config`: further
 * sections of the gateway's config.
 */
export async function startMixWorld(
  { config = {}, ...gateway }: Omit<BenchedGateway, 'nodeUrl'>,
  { slow, stalenessMs }: { readonly slow: number; readonly stalenessMs: number },
): Promise<MixWorld> {
  const clock = { startHead, versionsPerSecond: Math.round(versionsPerSecond / slow) };
  const mempool = new Mempool({ pendingForMs: pendingMs * slow });
  const node = { mempool, keepRequests: 1, compression: false };
  const full = await createSampleNode({ ...node, clock: advancingClock({ ...clock, window }) });
  const archival = await createSampleNode({ ...node, clock: advancingClock(clock) });
  const nodes: readonly SampleNode[] = [full, archival];
  // While nodes answer at once, hardly a reader meets another's read.
  for (const { faults } of nodes) {
    faults.add({ kind: 'latency', ms: nodeTimes.lookMs * slow }, { when: isLook });
    faults.add({ kind: 'latency', ms: nodeTimes.readMs * slow }, { when: (request) => !isLook(request) });
  }
  const upstreams = [
    { name: 'full', url: full.url },
    { name: 'archival', url: archival.url, tier: 'archival' },
  ];
  const server = await startGateway({
    ...gateway,
    nodeUrl: [],
    config: { upstreams, access, latest: { maxStaleness: `${stalenessMs * slow}ms` }, ...config },
  });
  const sum = (of: (one: SampleNode) => number): number => nodes.reduce((all, one) => all + of(one), 0);
  const callsOf = (route: Route): number => {
    const names = others[route] ?? [route as SampleRouteName];
    return sum((one) => names.reduce((all, name) => all + one.requestsTo(name), 0));
  };
  return {
    server,
    ledger: { headAgo: (ms) => full.ledger(BigInt(Math.round((ms * versionsPerSecond) / 1000))).version },
    callsOf,
    calls: () => sum((one) => one.reads),
    looks: () => sum((one) => one.requests - one.reads),
    async stop() {
      server.stop();
      await Promise.all(nodes.map((one) => one.close()));
    },
  };
}
