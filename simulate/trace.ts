/** Traces without any effect of time, that a simulated and a real deployment must serve alike. */
import { SimulatedLedger } from './ledger.ts';
import { randomOf } from './random.ts';
import { blockMs, shapeOf, usualTraffic, type Shape } from './shape.ts';
import type { RequestShape } from './shapes.ts';
import { TrafficSource, type Arrival } from './traffic.ts';

/** A request to one of the replicas, by turns; the next one begins when it is answered. */
export interface Step {
  readonly replica: number;
  readonly arrival: Arrival;
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
}

/** Reads that sample nodes answer; no submissions, which change later answers. */
const requests: readonly RequestShape[] = [
  { route: 'resource', share: 0.76, subjects: { kind: 'state', of: 300, pinned: 0.5, deep: 0.16 }, bytes: 400 },
  { route: 'view', share: 0.2, subjects: { kind: 'state', of: 300, pinned: 0.5, deep: 0 }, bytes: 120 },
  { route: 'estimateGasPrice', share: 0.04, subjects: { kind: 'passed' }, bytes: 90 },
];

/** The ledger moves by a block for so many steps. */
const stepsPerBlock = 40;

export function traceOf(name: string, options: TraceOptions): Trace {
  const { seed, steps, replicas, memoryBytes } = options;
  const usual = shapeOf(name, 1_000);
  const shape: Shape = {
    ...usual,
    traffic: {
      ...usualTraffic,
      rate: 1_000,
      requests,
      accounts: 300,
      links: 400,
      types: usual.traffic.types.slice(0, 3),
    },
    ledger: { ...usual.ledger, writesPerSecond: Infinity },
    // Nothing takes time, so that nothing depends on it; what is asked at once is still under way.
    nodes: { full: 1, archival: 1, readMs: 1e-6, lookMs: 0, lagMs: 0 },
    replicas,
    redis: options.redis ? { shards: 1, rttMs: 0, historyMs: 0, news: 'version' } : undefined,
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
      return { replica: step % replicas, arrival: upToDate(arrival, ledger) };
    }),
  };
}

/** Reads of "latest" have to show the newest block, however long a machine took to get there. */
function upToDate(arrival: Arrival, ledger: SimulatedLedger): Arrival {
  return arrival.isLatest === true ? { ...arrival, minBlock: ledger.blockAt(arrival.atMs) } : arrival;
}
