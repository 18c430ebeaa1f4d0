/** The flags that all benchmarks take. */
import { parseArgs } from 'node:util';

export interface BenchOptions {
  /** How often all servers are started afresh: what the compiler makes of a server differs from process to process. */
  readonly starts: number;
  /** Rounds per start. */
  readonly rounds: number;
  /** Length of one measurement. */
  readonly seconds: number;
  readonly connections: number;
  /** Load before the first round, in seconds: a cold server costs half as much again per request. */
  readonly warmUp: number;
  /** Where a gateway with so many workers takes part as well: more than 1. */
  readonly workers: number;
}

const usual: BenchOptions = { starts: 3, rounds: 5, seconds: 2, connections: 64, warmUp: 6, workers: 1 };

/** Reads `--starts N --rounds N --seconds S --connections N --warm-up S --workers N` from the command line. */
export function benchOptions(defaults: Partial<BenchOptions> = {}): BenchOptions {
  const flag = { type: 'string' } as const;
  const { values } = parseArgs({
    options: { starts: flag, rounds: flag, seconds: flag, connections: flag, 'warm-up': flag, workers: flag },
  });
  const given = { ...values, warmUp: values['warm-up'] };
  const numberOf = (name: keyof BenchOptions): number => {
    const text = given[name];
    const number = text === undefined ? (defaults[name] ?? usual[name]) : Number(text);
    if (!Number.isSafeInteger(number) || number < 1) throw new Error(`${name} is no whole number above 0: ${text}`);
    return number;
  };
  return {
    starts: numberOf('starts'),
    rounds: numberOf('rounds'),
    seconds: numberOf('seconds'),
    connections: numberOf('connections'),
    warmUp: numberOf('warmUp'),
    workers: numberOf('workers'),
  };
}
