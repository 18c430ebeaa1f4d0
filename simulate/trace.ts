/** Traces without any effect of time, that a simulated and a real deployment must serve alike. */
import { SimulatedLedger } from './ledger.ts';
import { randomOf } from './random.ts';
import { blockMs, type Mix, type RedisShape, type Shape } from './shape.ts';
import { shapeOf, usualTraffic } from './shapes.ts';
import { TrafficSource, type Arrival, type Kind } from './traffic.ts';

/** Some requests that are made at once, by turns of the replicas; the next begin when all are answered. */
export interface Step {
  readonly replica: number;
  readonly arrivals: readonly Arrival[];
}

export interface Trace {
  readonly name: string;
  readonly shape: Shape;
  readonly steps: readonly Step[];
}

export interface TraceOptions {
  readonly seed: number;
  readonly steps: number;
  readonly replicas: number;
  readonly memoryBytes: number;
  readonly redis: boolean;
  /** Equal requests to a step. */
  readonly atOnce?: number;
}

/** What sample nodes answer; no submissions, which change what they answer next. */
const mix: Mix = {
  latest: 0.38,
  latestView: 0.1,
  head: 0.2,
  headView: 0.1,
  recent: 0.06,
  deep: 0.12,
  hash: 0,
  pending: 0,
  submit: 0,
  encode: 0,
};

const redis: RedisShape = {
  shards: 1,
  scope: 'region',
  nearMs: 0,
  farMs: 0,
  timeoutMs: 1_000,
  historyMs: 0,
};

/** The ledger moves by a block for so many steps. */
const stepsPerBlock = 40;

export function traceOf(name: string, options: TraceOptions): Trace {
  const { seed, steps, replicas, memoryBytes, atOnce = 1 } = options;
  const usual = shapeOf(name, 1_000);
  const shape: Shape = {
    ...usual,
    traffic: { ...usualTraffic, rate: 1_000, mix, accounts: 300, links: 400, types: usual.traffic.types.slice(0, 3) },
    ledger: { ...usual.ledger, writesPerSecond: Infinity },
    // Nothing takes time, so that nothing depends on it; what is asked at once is still under way.
    nodes: { full: 1, archival: 1, readMs: 1e-6, lookMs: 0, probeMs: Infinity, lagMs: 0 },
    replicas,
    redis: options.redis ? redis : undefined,
    memoryBytes,
  };
  const ledger = new SimulatedLedger(shape.ledger);
  const source = new TrafficSource(shape, ledger);
  const random = randomOf(seed);
  const every = blockMs(shape.ledger);
  return {
    name,
    shape,
    steps: Array.from({ length: steps }, (_, step) => {
      const block = Math.floor(step / stepsPerBlock);
      const atMs = every * (block + 0.1 + (0.8 * (step % stepsPerBlock)) / stepsPerBlock);
      const arrival = source.arrival(atMs, random);
      return { replica: step % replicas, arrivals: Array.from({ length: atOnce }, () => upToDate(arrival, ledger)) };
    }),
  };
}

const latest: ReadonlySet<Kind> = new Set(['latest', 'latestView']);

/** Reads of "latest" have to show the newest block, however long a machine took to get there. */
function upToDate(arrival: Arrival, ledger: SimulatedLedger): Arrival {
  return latest.has(arrival.kind) ? { ...arrival, minBlock: ledger.blockAt(arrival.atMs) } : arrival;
}
