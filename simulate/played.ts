/** What a trace comes to, simulated and played to real gateways. */
import { request } from 'undici';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { startGateway, type RunningGateway } from '../src/gateway.ts';
import { ManualClock } from '../src/sample/ledger-clock.ts';
import { createSampleNode, type SampleNode } from '../src/sample/sample-node.ts';
import { testConfig } from '../test/support/gateway.ts';
import { freePort } from '../test/support/free-port.ts';
import { RedisServer } from '../test/support/redis-server.ts';
import { SimulatedLedger } from './ledger.ts';
import { World } from './run.ts';
import { add, Tally } from './tally.ts';
import type { Step, Trace } from './trace.ts';
import type { Arrival } from './traffic.ts';

/** Who answered, and what nodes were asked. */
export interface Counts {
  readonly memory: number;
  /** Joined a read that was under way. */
  readonly joined: number;
  readonly redis: number;
  readonly node: number;
  readonly fullReads: number;
  readonly archivalReads: number;
}

export function playSimulated({ shape, steps }: Trace, seed: number): Counts {
  const tally = new Tally(-Infinity, 1);
  const { replicas } = new World(shape, { seed, sample: shape.replicas, requests: 0 }, tally);
  for (const { replica, arrivals } of steps) for (const arrival of arrivals) replicas[replica]?.serve(arrival);
  const served = (server: Parameters<typeof tally.served.get>[0]): number => tally.served.get(server) ?? 0;
  return {
    memory: served('memory'),
    joined: served('flight'),
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
    const clock = clockAt(ledger, steps[0]?.arrivals[0]?.atMs ?? 0);
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
      for (const source of await playStep(gateways[step.replica] as RunningGateway, step, { ledger, nodes }))
        add(sources, source, 1);
    }
    return {
      memory: sources.get('memory') ?? 0,
      joined: sources.get('joined') ?? 0,
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

function headAt(ledger: SimulatedLedger, { arrivals }: Step): bigint {
  return ledger.versionOf(ledger.blockAt(arrivals[0]?.atMs ?? 0));
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
    timeoutMs: shape.redis?.timeoutMs ?? 50,
    ttlMs: 60_000,
  };
  const config = testConfig({
    full: [full],
    archival: [archive],
    config: {
      cache: shared === undefined ? { memory } : { memory, redis: shared },
      // A busy machine is no reason to give up.
      latest: { waitForVersionMs: 5_000 },
      upstream: { timeoutMs: 20_000, deadlineMs: 20_000 },
    },
  });
  return startGateway(config, { log: pino({ level: 'silent' }), drainDelayMs: 0 });
}

interface Around {
  readonly ledger: SimulatedLedger;
  readonly nodes: readonly SampleNode[];
}

async function playStep(gateway: RunningGateway, { arrivals }: Step, { ledger, nodes }: Around): Promise<string[]> {
  const [first] = arrivals;
  if (arrivals.length === 1 && first !== undefined) return [await play(gateway.url, first, ledger)];
  // Nodes answer reads when all requests have come, so that none is too late to join.
  const { promise: isOpen, resolve: open } = Promise.withResolvers<undefined>();
  for (const { faults } of nodes) {
    faults.add({ kind: 'hold', until: isOpen }, { when: ({ route }) => route !== 'ledgerInfo' && route !== 'healthy' });
  }
  const asked = nodes.map(readsOf);
  let answered = 0;
  const answers = arrivals.map(async (arrival) => {
    const source = await play(gateway.url, arrival, ledger);
    answered += 1;
    return source;
  });
  const haveCome = async (): Promise<boolean> => {
    if (answered === arrivals.length) return true;
    const isAsked = nodes.some((node, index) => readsOf(node) > (asked[index] ?? 0));
    return isAsked && answered + (await inFlight(gateway)) >= arrivals.length;
  };
  for (const endMs = performance.now() + longestWaitMs; performance.now() < endMs && !(await haveCome());)
    await sleep(2);
  open(undefined);
  for (const { faults } of nodes) faults.clear();
  return Promise.all(answers);
}

const longestWaitMs = 2_000;

async function inFlight({ operationsUrl }: RunningGateway): Promise<number> {
  const { body } = await request(`${operationsUrl}/metrics`);
  return Number(/^ledgergate_http_in_flight_requests (\d+)/m.exec(await body.text())?.[1] ?? 0);
}

/** Asks as a client does; where the answer came from. */
async function play(
  url: string,
  { kind, subject, block, minBlock }: Arrival,
  ledger: SimulatedLedger,
): Promise<string> {
  const query = block === undefined ? '' : `?ledger_version=${ledger.versionOf(block)}`;
  const headers = minBlock === undefined ? {} : { 'ledgergate-min-version': String(ledger.versionOf(minBlock)) };
  const {
    statusCode,
    headers: told,
    body,
  } = await request(
    url + pathOf(kind, subject) + query,
    subject?.operation === 'view'
      ? { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: subject.wire }
      : { method: 'GET', headers },
  );
  await body.dump();
  if (statusCode !== 200) throw new Error(`${statusCode} for ${kind} ${subject?.text ?? ''}${query}`);
  const status = String(told['cache-status'] ?? '');
  if (status.includes('detail=memory')) return 'memory';
  if (status.includes('detail=redis')) return 'redis';
  return status.includes('; collapsed') ? 'joined' : 'node';
}

function pathOf(kind: Arrival['kind'], subject: Arrival['subject']): string {
  if (subject === undefined) return kind === 'passed' ? '/estimate_gas_price' : '';
  return subject.operation === 'view' ? '/view' : subject.wire;
}

function readsOf(node: SampleNode): number {
  return node.requestsTo('resource') + node.requestsTo('view') + node.requestsTo('estimateGasPrice');
}
