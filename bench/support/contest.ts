/**
 * Servers measured side by side. A round measures each of them once, the next round in the opposite order, so that
 * whatever else the machine does falls on all alike; ratios are taken within a round and only then summed up.
 */
import { measure, type Load, type Measured } from './load.ts';
import type { BenchOptions } from './options.ts';
import type { ServerProcess } from './process-under-test.ts';

/** Servers run on the one core, wrk and the nodes behind them on the other. */
export const serverCpu = 0;
export const loadCpu = 1;

/** What is asked of every server; the title is that of its table. */
export interface Request extends Pick<Load, 'path' | 'body' | 'byTurns'> {
  readonly title: string;
}

export interface Contest {
  readonly options: BenchOptions;
  readonly requests: readonly Request[];
  /** Fresh processes, always in the same order, and the one the others are measured against first. */
  readonly start: () => Promise<readonly ServerProcess[]>;
}

/** What the rounds gave one server, in their order. */
export interface Standing {
  readonly name: string;
  readonly measured: readonly Measured[];
  /** Of each round: processor time per request, this server's to the first one's. */
  readonly cpuRatios: readonly number[];
}

/** For each request the standings of all servers, in the order of `start`. */
export async function runContest({ options, requests, start }: Contest): Promise<ReadonlyMap<Request, Standing[]>> {
  const rounds = new Map<Request, Round[]>(requests.map((request) => [request, []]));
  let names: readonly string[] = [];
  for (let run = 0; run < options.starts; run += 1) {
    const servers = await start();
    names = servers.map(({ name }) => name);
    for (const [request, done] of rounds) done.push(...(await runRounds(servers, request, options)));
    for (const server of servers) server.stop();
  }
  return new Map([...rounds].map(([request, done]) => [request, names.map((name, at) => standingOf(name, at, done))]));
}

/** One measurement of each server, in the order of `start`. */
type Round = readonly Measured[];

async function runRounds(
  servers: readonly ServerProcess[],
  { title: _, ...load }: Request,
  { rounds, connections, seconds, warmUp }: BenchOptions,
): Promise<Round[]> {
  const asked = { connections, ...load };
  for (const server of servers) await measure(server, { ...asked, seconds: warmUp }, loadCpu);
  const done: Round[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const measured = new Map<ServerProcess, Measured>();
    for (const server of round % 2 === 0 ? servers : servers.toReversed()) {
      measured.set(server, await measure(server, { ...asked, seconds }, loadCpu));
    }
    done.push(servers.flatMap((server) => measured.get(server) ?? []));
  }
  return done;
}

function standingOf(name: string, at: number, rounds: readonly Round[]): Standing {
  const measured = rounds.flatMap((round) => round[at] ?? []);
  const cpuRatios = rounds.flatMap((round) => {
    const [first, own] = [round[0], round[at]];
    return first === undefined || own === undefined ? [] : own.cpuMicrosPerRequest / first.cpuMicrosPerRequest;
  });
  return { name, measured, cpuRatios };
}
