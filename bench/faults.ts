/**
 * Effect of failing nodes on clients: three equal nodes of limited strength, one gateway, an open loop of reads that
 * are nearly all misses, and a stream of hits beside it.
 *
 *     npm run bench:faults -- [--rounds N] [--seconds S]
 *
 * Writes its section of RESULTS.md. Each line has a gateway process of its own; variants that are compared take turns.
 */
import { parseArgs } from 'node:util';
import type { NodeSettings } from './support/capacity-node.ts';
import { openLoop, type Sample, type Stream } from './support/open-loop.ts';
import { startGateway } from './support/gateway.ts';
import { faultLine, faultHeads, overloadHeads, overloadLine, type Observed } from './support/fault-report.ts';
import { table } from './support/report.ts';
import { writeSection } from './support/results-section.ts';
import { anyCpu, strainedFleet, type StrainedFleet } from './support/strained-fleet.ts';

const flag = { type: 'string' } as const;
const { values } = parseArgs({ options: { rounds: flag, seconds: flag } });
const rounds = Number(values.rounds ?? 3);
/** Under the fault, after the warm-up. */
const usualSeconds = Number(values.seconds ?? 8);
const warmUpMs = 5_000;
/** A gateway is slow at first: the load comes by and by, or it would begin with a jam. */
const rampMs = 3_000;
const watchMs = 100;
/** A third of what three nodes of 8 places and 20 ms can do. */
const perSecond = 400;
const hitsPerSecond = 50;
/** Weak nodes, so that four times their strength is a load that this machine can make. */
const weak = { places: 2, serviceMs: 40 } as const;

interface Scenario {
  readonly title: string;
  readonly nodes?: Partial<NodeSettings>;
  /** Done to the first node after the warm-up. */
  readonly fault?: Partial<NodeSettings>;
  readonly rate?: (atMs: number) => number;
  /** Under the fault, where the usual time is too short. */
  readonly seconds?: number;
  /** Keys of the section `upstream` of the config. */
  readonly upstream?: Readonly<Record<string, unknown>>;
}

async function observe(scenario: Scenario): Promise<Observed> {
  const fleet = await strainedFleet(scenario.nodes);
  const upstreams = fleet.nodes.map(({ url }, index) => ({ name: `node-${index}`, url }));
  const config = { upstreams, upstream: scenario.upstream ?? {}, log: { level: 'error' } };
  try {
    const gateway = await startGateway({ name: 'ledgergate', nodeUrl: '', cpu: anyCpu, config });
    try {
      return await load(gateway, fleet, scenario);
    } finally {
      gateway.stop();
    }
  } finally {
    fleet.stop();
  }
}

async function load(
  gateway: { readonly url: string; residentMiB(): number },
  fleet: StrainedFleet,
  { fault, rate = () => perSecond, seconds = usualSeconds }: Scenario,
): Promise<Observed> {
  const watched: { atMs: number; reads: readonly number[] }[] = [];
  let residentBefore = 0;
  let residentMost = 0;
  const lastMs = warmUpMs + seconds * 1000;
  const events = [{ atMs: warmUpMs, do: () => fault !== undefined && fleet.nodes[0]?.set(fault) }];
  for (let atMs = warmUpMs; atMs < lastMs; atMs += watchMs) {
    const watch = async (): Promise<void> => {
      residentMost = Math.max(residentMost, gateway.residentMiB());
      if (atMs === warmUpMs) residentBefore = residentMost;
      watched.push({ atMs: atMs - warmUpMs, reads: await fleet.reads() });
    };
    // Not awaited by the loop: a node that is asked for its counts must not hold up the load.
    events.push({ atMs, do: () => void watch() });
  }
  const samples = await openLoop({
    url: gateway.url,
    seconds: lastMs / 1000,
    streams: [misses((atMs) => rate(atMs) * Math.max(0.1, Math.min(1, atMs / rampMs))), hits],
    events,
  });
  const before = watched[0]?.reads ?? [];
  const after = await fleet.reads();
  return {
    samples: samples.filter(({ atMs }) => atMs >= warmUpMs).map((sample) => shifted(sample)),
    watched,
    nodeReads: after.map((reads, index) => reads - (before[index] ?? 0)),
    seconds,
    residentMiB: { before: residentBefore, most: residentMost, after: gateway.residentMiB() },
  };
}

function shifted(sample: Sample): Sample {
  return { ...sample, atMs: sample.atMs - warmUpMs };
}

const pathAt = (version: number): string =>
  `/v1/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=${version}`;

const containsAt = (version: number): string => `"ledger_version":"${version}"`;

/** Every read at a version of its own. */
function misses(rate: Stream['rate']): Stream {
  let version = 1_000_000;
  const next = (): ReturnType<Stream['next']> => {
    version += 1;
    return { path: pathAt(version), contains: containsAt(version) };
  };
  return { kind: 'miss', rate, next };
}

const hits: Stream = {
  kind: 'hit',
  rate: () => hitsPerSecond,
  next: () => ({ path: pathAt(7), contains: containsAt(7) }),
};

/** Variants take turns, so that what else the machine does falls on all alike; `undefined`: the config is refused. */
async function contest(variants: readonly Scenario[]): Promise<ReadonlyMap<string, Observed[]>> {
  const done = new Map<string, Observed[]>();
  const refused = new Set<string>();
  for (let round = 0; round < rounds; round += 1) {
    for (const variant of round % 2 === 0 ? variants : variants.toReversed()) {
      if (refused.has(variant.title)) continue;
      process.stderr.write(`${variant.title}, round ${round + 1} of ${rounds}\n`);
      try {
        const observed = await observe(variant);
        done.set(variant.title, [...(done.get(variant.title) ?? []), observed]);
      } catch (error) {
        if (!/upstream\.hedge/.test(String(error))) throw error;
        refused.add(variant.title);
        process.stderr.write(`${variant.title}: left out, this build does not take upstream.hedge\n`);
      }
    }
  }
  return done;
}

const slow = { places: 8, serviceMs: 200 } as const;
const faults = await contest([
  { title: 'all well' },
  { title: 'one hangs', fault: { hangs: 'all' } },
  { title: 'one hangs, but reports its ledger', fault: { hangs: 'reads' } },
  { title: 'one answers 20 % errors', fault: { errors: 0.2 } },
  { title: 'one 10 times slower', fault: slow },
  { title: 'one 10 times slower, hedge: false', fault: slow, upstream: { hedge: false } },
]);
const capacity = (3 * weak.places * 1000) / weak.serviceMs;
const overload = await contest([
  {
    title: 'four times the capacity',
    nodes: weak,
    // Longer than the gateway's deadline.
    seconds: usualSeconds + 10,
    rate: (atMs) => (atMs < warmUpMs ? capacity / 2 : capacity * 4),
  },
]);

const text = `Three equal nodes in processes of their own, 8 reads at once, 20 ms each (exponential, seeded), the others wait; open loop of ${perSecond} different pinned reads a second (a third of what the nodes can do) and ${hitsPerSecond} hits, ${rounds} rounds of ${usualSeconds} s under the fault, each with a fresh gateway, in turns. Times count from when a request was due, failed ones included. Extra load: reads that came to nodes beyond those that clients asked. Two noisy cores for everything.

${table(
  faultHeads,
  [...faults].flatMap(([title, rounds]) => faultLine(title, rounds)),
)}
Overload: nodes of ${weak.places} reads at once, ${weak.serviceMs} ms each (together ${capacity} a second), four times as many asked.

${table(
  overloadHeads,
  [...overload].map(([title, rounds]) => overloadLine(title, rounds, capacity)),
)}`;
process.stdout.write(`${text}\n`);
writeSection('Faults: `npm run bench:faults`', text);
