/**
 * Plays traces to real gateways as well as to simulated ones. They have no effect of time in them but one, so the counts
 * have to be equal: which reads memory still holds, who reads for whom, and how often nodes are asked. Which of two nodes
 * is asked for the newest state depends on how fast their heads seem to move, and so on the clock: a few reads in a
 * hundred may be of the other one.
 */
import { playReal, playSimulated, type Counts } from './played.ts';
import { traceOf, type Trace } from './trace.ts';

const mebibyte = 2 ** 20;

/** Traces of about `steps` steps; `withRedis`: those that need a redis-server as well. */
export function checkedTraces(seed: number, steps: number, withRedis: boolean): readonly Trace[] {
  const one = { seed, steps, replicas: 1, redis: false } as const;
  return [
    traceOf('one gateway, memory for everything', { ...one, memoryBytes: 64 * mebibyte }),
    traceOf('one gateway, memory for a part', { ...one, memoryBytes: mebibyte / 4 }),
    ...(withRedis
      ? [traceOf('three gateways, one Redis', { ...one, replicas: 3, redis: true, memoryBytes: mebibyte / 4 })]
      : []),
  ];
}

/** Most reads that may be of the other node, of all that nodes are asked for. */
const otherNode = 0.03;

/** Why the simulated and the real counts are not those of one deployment; `undefined` when they are. */
export function differenceOf(simulated: Counts, real: Counts): string | undefined {
  const { fullReads, archivalReads } = simulated;
  const reads = fullReads + archivalReads;
  const names = ['memory', 'redis', 'node'] as const;
  const unequal = names.filter((name) => simulated[name] !== real[name]);
  if (unequal.length > 0) return `not equal: ${unequal.join(', ')}`;
  if (real.fullReads + real.archivalReads !== reads) return 'not as many reads of nodes';
  return Math.abs(real.archivalReads - archivalReads) > reads * otherNode ? 'other nodes are asked' : undefined;
}

/** Prints both sides of every trace; whether all come to the same. */
export async function check(seed: number, print: (line: string) => void): Promise<boolean> {
  let isEqual = true;
  for (const trace of checkedTraces(seed, 2_000, true)) {
    const [simulated, real] = [playSimulated(trace, seed), await playReal(trace)];
    const difference = differenceOf(simulated, real);
    print(`${trace.name}: ${difference ?? 'equal'}\n  simulated ${text(simulated)}\n  real      ${text(real)}`);
    isEqual &&= difference === undefined;
  }
  return isEqual;
}

function text(counts: Counts): string {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ');
}
