/** Counts of a trace, simulated and played to real gateways. */
import { request } from 'undici';
import { startGateway, type RunningGateway } from '../src/gateway/gateway.ts';
import { createSampleNode, type SampleNode } from '../test/support/sample-node.ts';
import { testConfig } from '../test/support/gateway.ts';
import { freePort } from '../test/support/free-port.ts';
import { ManualClock } from '../test/support/manual-clock.ts';
import { RedisServer } from '../test/support/redis-server.ts';
import { SimulatedLedger } from './ledger.ts';
import { replicasOf } from './run.ts';
import { add, Tally, type Server } from './tally.ts';
import type { Step, Trace } from './trace.ts';
import type { Arrival } from './traffic.ts';

/** Requests by server, and reads of nodes. */
export interface Counts {
  readonly memory: number;
  readonly redis: number;
  readonly node: number;
  readonly fullReads: number;
  readonly archivalReads: number;
}

export function playSimulated({ shape, steps }: Trace, seed: number): Counts {
  const tally = new Tally(-Infinity);
  const replicas = replicasOf(shape, shape.replicas, { seed, tally });
  const servers = new Map<Server, number>();
  for (const { replica, arrival } of steps) {
    const server = replicas[replica]?.serve(arrival);
    if (server !== undefined) add(servers, server);
  }
  const served = (server: Server): number => servers.get(server) ?? 0;
  return {
    memory: served('memory'),
    redis: served('redis') + served('followed'),
    node: served('upstream'),
    fullReads: tally.calls.get('full') ?? 0,
    archivalReads: tally.calls.get('archival') ?? 0,
  };
}

/** Plays the trace to gateways in this process, in front of sample nodes. */
export async function playReal(trace: Trace): Promise<Counts> {
  const { shape, steps } = trace;
  const closing: (() => Promise<unknown>)[] = [];
  try {
    const ledger = new SimulatedLedger(shape.ledger);
    const clock = clockAt(ledger, steps[0]?.arrival.atMs ?? 0);
    const full = await createSampleNode({ clock });
    const archive = await createSampleNode({ clock: new ManualClock({ head: clock.head, oldest: 0n }) });
    closing.push(
      () => full.close(),
      () => archive.close(),
    );
    const redis = shape.redis === undefined ? undefined : await startRedis();
    if (redis !== undefined) closing.push(() => redis.kill());
    const gateways = await Promise.all(
      Array.from({ length: shape.replicas }, () => startOne(trace, [full, archive], redis)),
    );
    closing.unshift(...gateways.map((gateway) => () => gateway.close()));
    const nodes = [full, archive] as const;
    const sources = new Map<string, number>();
    for (const step of steps) {
      for (const { clock } of nodes) clock.head = headAt(ledger, step);
      add(sources, await play((gateways[step.replica] as RunningGateway).url, step.arrival, ledger));
    }
    return {
      memory: sources.get('memory') ?? 0,
      redis: sources.get('redis') ?? 0,
      node: sources.get('node') ?? 0,
      fullReads: readsOf(full),
      archivalReads: readsOf(archive),
    };
  } finally {
    for (const close of closing) await close();
  }
}

function clockAt(ledger: SimulatedLedger, atMs: number): ManualClock {
  const block = ledger.blockAt(atMs);
  const { version, oldestVersion } = ledger.infoAt(block, ledger.oldestOf(block));
  return new ManualClock({ head: version, oldest: oldestVersion });
}

function headAt(ledger: SimulatedLedger, { arrival }: Step): bigint {
  return ledger.versionOf(ledger.blockAt(arrival.atMs));
}

async function startRedis(): Promise<RedisServer> {
  const server = new RedisServer(await freePort(), ['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']);
  await server.start();
  return server;
}

async function startOne({ shape }: Trace, [full, archive]: readonly SampleNode[], redis: RedisServer | undefined) {
  if (full === undefined || archive === undefined) throw new Error('two nodes are needed');
  const memory = { maxBytes: shape.memoryBytes };
  const shared = redis && {
    target: { kind: 'single', url: redis.url } as const,
    keyPrefix: 'lg',
    timeoutMs: 1_000,
    ttlMs: 60_000,
  };
  const config = testConfig({
    full: [full],
    archival: [archive],
    config: {
      cache: shared === undefined ? { memory } : { memory, redis: shared },
      // A busy machine is no reason to give up. Reads ahead of clients come when a shared state is replaced, which is a matter
      // of time.
      latest: { waitForVersionMs: 5_000, maxStalenessMs: 3_600_000 },
      upstream: { timeoutMs: 20_000, deadlineMs: 20_000 },
    },
  });
  return startGateway(config, { drainDelayMs: 0 });
}

/** Asks as a client does; where the answer came from. */
async function play(
  url: string,
  { shape, subject, block, minBlock }: Arrival,
  ledger: SimulatedLedger,
): Promise<string> {
  const query = block === undefined ? '' : `?ledger_version=${ledger.versionOf(block)}`;
  const headers = minBlock === undefined ? {} : { 'ledgergate-min-version': String(ledger.versionOf(minBlock)) };
  const {
    statusCode,
    headers: told,
    body,
  } = await request(
    url + pathOf(subject) + query,
    subject?.operation === 'view'
      ? { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: subject.wire }
      : { method: 'GET', headers },
  );
  await body.dump();
  if (statusCode !== 200) throw new Error(`${statusCode} for ${shape.route} ${subject?.text ?? ''}${query}`);
  const status = String(told['cache-status'] ?? '');
  if (status.includes('detail=memory')) return 'memory';
  if (status.includes('detail=redis')) return 'redis';
  return 'node';
}

function pathOf(subject: Arrival['subject']): string {
  if (subject === undefined) return '/-/healthy';
  return subject.operation === 'view' ? '/view' : subject.wire;
}

function readsOf(node: SampleNode): number {
  return node.requestsTo('resource') + node.requestsTo('view') + node.requestsTo('healthy');
}
