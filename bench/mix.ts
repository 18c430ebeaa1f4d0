/**
 * The traffic of clients as `simulate/shapes.ts` has it: how many requests need a node, and what one costs, in all and
 * by route. Beside it, round by round: with `--against DIR` the package of another checkout, with `--follow` a gateway that
 * always follows the ledger, whose pages count as calls.
 */
import { requestShapes, type Route } from '../simulate/shapes.ts';
import { shapes, usualTraffic } from '../simulate/shape.ts';
import { inTurns, serverCpu } from './support/contest.ts';
import { median, spreadOf } from './support/figures.ts';
import { sendMix } from './support/mix-load.ts';
import { MixSource } from './support/mix-source.ts';
import { startMixWorld, type MixWorld } from './support/mix-world.ts';
import { optionsOf, type Flags, type MixOptions, type Part } from './support/options.ts';
import { table } from './support/report.ts';

interface Round {
  readonly requestsPerSecond: number;
  readonly callsPerRequest: number;
  readonly looksPerSecond: number;
  readonly cpuMicros: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Share of requests that the gateway refused with 503. */
  readonly shed: number;
  /** Calls for each request of a route. */
  readonly routes: ReadonlyMap<Route, number>;
}

interface Side {
  readonly name: string;
  readonly world: MixWorld;
  readonly rounds: Round[];
  /** Costs and calls of routes that are sent alone. */
  readonly alone: Map<Route, Round>;
}

/** Requests of a route that is sent alone. */
const aloneRequests = { usual: 1_000, quick: 200 } as const;
const aloneConnections = 16;

/** The rate at which 1,000 requests a second read the newest state. */
const usualRate = shapes[0]?.traffic.rate ?? 1_000;
/** The default of `latest.maxStaleness`, in ms. */
const usualStaleness = 200;

export const mix: Part = {
  name: 'mix',
  heading: 'The mix of clients',
  async run(flags: Flags) {
    const options = optionsOf(flags, { starts: 1, rounds: 3, seconds: 20, warmUp: 10 });
    const { requests, seed = 1, slow = 1, staleness = usualStaleness } = flags.mix;
    const clients = Math.round((flags.mix.rate ?? usualRate) / usualTraffic.clientRate);
    const rate = Math.round((flags.mix.rate ?? usualRate) / slow);
    const isClosed = requests !== undefined;
    const load = {
      connections: options.connections,
      rate: isClosed ? Infinity : rate,
      requests: requests ?? rate * options.seconds,
      clients,
    };
    const sides = await startSides(flags.mix, { slow, stalenessMs: staleness });
    for (const { world } of sides) {
      await send(world, { ...load, rate, requests: rate * options.warmUp, seed: seed * 1_000 });
    }
    await inTurns(sides, options.rounds, async ({ name, world, rounds }, round) => {
      process.stderr.write(`round ${round + 1}: ${name}\n`);
      rounds.push(await send(world, { ...load, seed: seed * 1_000 + round + 1 }));
    });
    const count = flags.isQuick ? aloneRequests.quick : aloneRequests.usual;
    const alone = { connections: aloneConnections, rate: Infinity, requests: count, clients };
    for (const { route } of requestShapes) {
      process.stderr.write(`alone: ${route}\n`);
      for (const side of sides) side.alone.set(route, await send(side.world, { ...alone, seed, only: route }));
    }
    for (const { world } of sides) await world.stop();
    const pace = isClosed ? 'in a closed loop' : `at ${rate.toLocaleString('en')} requests a second`;
    return `${load.requests.toLocaleString('en')} requests ${pace} in each of ${options.rounds} rounds, of ${clients.toLocaleString('en')} clients behind a proxy, at most ${options.connections} in flight, with ${staleness} ms of staleness, to the built package in front of a full and an archival sample node whose ledger moves by 25 blocks a second${slow === 1 ? '' : `, all of it ${slow} times slower`}. The nodes count the calls; looks at the head and probes are apart. "No node": requests beyond the number of calls. Costs of a route are of ${count.toLocaleString('en')} requests that are sent alone, ${aloneConnections} in flight, after the mix.

${allTable(sides)}
${routeTable(sides)}`;
  },
};

async function startSides(
  { against, follow }: MixOptions,
  world: Parameters<typeof startMixWorld>[1],
): Promise<readonly Side[]> {
  const gateways = [
    { name: 'ledgergate', config: follow ? { follow: { mode: 'off' } } : {} },
    ...(against === undefined ? [] : [{ name: 'the other', checkout: against }]),
    ...(follow ? [{ name: 'follow: always', config: { follow: { mode: 'always' } } }] : []),
  ];
  const sides: Side[] = [];
  for (const gateway of gateways) {
    const started = await startMixWorld({ ...gateway, cpu: serverCpu }, world);
    sides.push({ name: gateway.name, world: started, rounds: [], alone: new Map() });
  }
  return sides;
}

interface Sent {
  readonly connections: number;
  readonly rate: number;
  readonly requests: number;
  readonly clients: number;
  readonly seed: number;
  readonly only?: Route;
}

async function send(world: MixWorld, { seed, only, ...load }: Sent): Promise<Round> {
  const { server, ledger } = world;
  const source = new MixSource({ seed, ledger, ...(only === undefined ? {} : { only }) });
  const routes = requestShapes.map(({ route }) => route);
  const before = new Map(routes.map((route) => [route, world.callsOf(route)]));
  const [calls, looks, cpu] = [world.calls(), world.looks(), server.cpuMicros()];
  const answers = await sendMix({ url: server.url, source, ...load });
  return {
    requestsPerSecond: load.requests / answers.seconds,
    callsPerRequest: (world.calls() - calls) / load.requests,
    looksPerSecond: (world.looks() - looks) / answers.seconds,
    cpuMicros: (server.cpuMicros() - cpu) / load.requests,
    p50Ms: answers.p50Ms,
    p99Ms: answers.p99Ms,
    shed: answers.shed / load.requests,
    routes: new Map(
      routes.flatMap((route) => {
        const asked = answers.requests.get(route) ?? 0;
        return asked === 0 ? [] : [[route, (world.callsOf(route) - (before.get(route) ?? 0)) / asked] as const];
      }),
    ),
  };
}

function allTable(sides: readonly Side[]): string {
  const rows = sides.map(({ name, rounds }) => [
    name,
    Math.round(median(rounds.map(({ requestsPerSecond }) => requestsPerSecond))).toLocaleString('en'),
    spreadOf(rounds, ({ callsPerRequest }) => noNode(callsPerRequest), 1),
    spreadOf(rounds, ({ callsPerRequest }) => callsPerRequest, 3),
    spreadOf(rounds, ({ looksPerSecond }) => looksPerSecond, 1),
    spreadOf(rounds, ({ cpuMicros }) => cpuMicros, 1),
    spreadOf(rounds, ({ p50Ms }) => p50Ms, 2),
    spreadOf(rounds, ({ p99Ms }) => p99Ms, 1),
    spreadOf(rounds, ({ shed }) => shed * 100, 1),
  ]);
  const costs = ['node calls a request', 'looks/s', 'CPU µs a request', 'p50 ms', 'p99 ms', 'shed %'];
  return table(['', 'requests/s', 'no node %', ...costs], rows);
}

function routeTable(sides: readonly Side[]): string {
  const titles = ['calls a request', 'alone: CPU µs', 'alone: calls'];
  const rows = requestShapes.map(({ route, share }) => {
    const cells = sides.flatMap(({ rounds, alone }) => {
      const calls = median(rounds.flatMap(({ routes }) => routes.get(route) ?? []));
      const own = alone.get(route);
      return [
        noNode(calls).toFixed(0),
        calls.toFixed(2),
        own?.cpuMicros.toFixed(0) ?? '',
        own?.routes.get(route)?.toFixed(2) ?? '',
      ];
    });
    return [route, (share * 100).toFixed(1)].concat(cells);
  });
  return table(['route', 'share %', ...sides.flatMap(({ name }) => [`${name}: no node %`, ...titles])], rows);
}

/** A request may cost two calls, of a full node and an archival one. */
function noNode(callsPerRequest: number): number {
  return Math.max(0, 1 - callsPerRequest) * 100;
}
