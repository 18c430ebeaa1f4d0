/**
 * Servers measured side by side. A round measures each of them once, the next round in the opposite order, so that
 * whatever else the machine does falls on all alike; ratios are taken within a round and only then summed up.
 */
import { measure, type Load, type Measured } from './load.ts';
import type { BenchOptions } from './options.ts';
import type { ServerProcess } from './process-under-test.ts';

/** Servers run on the one core, load and the nodes behind them on the other. */
export const serverCpu = 0;
export const loadCpu = 1;

/** A request to every server; the title is that of its table. */
export interface Request extends Omit<Load, 'connections' | 'seconds'> {
  readonly title: string;
  /** Default: as the options have it. */
  readonly connections?: number;
}

/** The part of a request that tables and rounds need. */
export type Titled = Pick<Request, 'title' | 'connections'>;

export interface Contest<R extends Titled = Request> {
  readonly options: BenchOptions;
  readonly requests: readonly R[];
  /** Fresh processes, always in the same order, and the one the others are measured against first. */
  readonly start: () => Promise<readonly ServerProcess[]>;
  /** Before the warm-up of a request: fills caches. */
  readonly prepare?: (server: ServerProcess, request: R) => Promise<void>;
  /** Reads that have come to nodes. */
  readonly reads?: () => number;
}

/** Measures each of `all` once a round, the next round in the opposite order. */
export async function inTurns<T, M>(
  all: readonly T[],
  rounds: number,
  measureOne: (one: T, round: number) => Promise<M>,
): Promise<ReadonlyMap<T, readonly M[]>> {
  const done = new Map<T, M[]>(all.map((one) => [one, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const one of round % 2 === 0 ? all : all.toReversed()) done.get(one)?.push(await measureOne(one, round));
  }
  return done;
}

/** A contest whose load is not that of load.lua. */
export interface MeasuredContest<R extends Titled> extends Contest<R> {
  /** One measurement; a warm-up is one too, and its result is dropped. */
  readonly measure: (
    server: ServerProcess,
    request: R,
    load: Pick<BenchOptions, 'connections' | 'seconds'>,
  ) => Promise<Measured>;
}

/** Results of one server by round, in one order for all servers of a request. */
export interface Standing {
  readonly name: string;
  readonly measured: readonly Measured[];
}

/** For each request the standings of all servers, in the order of `start`. */
export function runContest<R extends Request>(contest: Contest<R>): Promise<ReadonlyMap<R, Standing[]>> {
  return runMeasuredContest({
    ...contest,
    measure: (server, request, { connections, seconds }) =>
      measure(server, { connections, ...request, seconds }, loadCpu),
  });
}

/** The same with a measurement of the caller's. */
export async function runMeasuredContest<R extends Titled>(
  contest: MeasuredContest<R>,
): Promise<ReadonlyMap<R, Standing[]>> {
  const { options, requests, start } = contest;
  const done = new Map<R, Standing[]>();
  for (let run = 0; run < options.starts; run += 1) {
    const servers = await start();
    for (const [index, request] of requests.entries()) {
      // The compiler has settled after the first.
      const warmUp = index === 0 ? options.warmUp : 1;
      const standings = await runRounds(servers, request, { ...contest, options: { ...options, warmUp } });
      const before = done.get(request);
      done.set(
        request,
        standings.map(({ name, measured }, at) => ({
          name,
          measured: [...(before?.[at]?.measured ?? []), ...measured],
        })),
      );
    }
    for (const server of servers) server.stop();
  }
  return done;
}

async function runRounds<R extends Titled>(
  servers: readonly ServerProcess[],
  request: R,
  { options, prepare, reads, measure: measureOne }: MeasuredContest<R>,
): Promise<Standing[]> {
  const load = { connections: request.connections ?? options.connections, seconds: options.seconds };
  process.stderr.write(`${request.title}\n`);
  for (const server of servers) {
    await prepare?.(server, request);
    await measureOne(server, request, { ...load, seconds: options.warmUp });
  }
  const standings = await inTurns(servers, options.rounds, async (server) => {
    const before = reads?.();
    const measured = await measureOne(server, request, load);
    return { ...measured, ...(before === undefined ? {} : { upstreamReads: (reads?.() ?? 0) - before }) };
  });
  return [...standings].map(([{ name }, measured]) => ({ name, measured }));
}

/** Throws when a server that was to answer from its cache asked a node. */
export function requireHits(standings: ReadonlyMap<Titled, readonly Standing[]>): void {
  for (const [{ title }, servers] of standings) {
    for (const { name, measured } of servers) {
      const reads = measured.reduce((sum, { upstreamReads = 0 }) => sum + upstreamReads, 0);
      if (reads > 0) throw new Error(`${title}: ${name} asked the node ${reads} times while hits were measured`);
    }
  }
}
