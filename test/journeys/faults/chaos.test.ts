// Three nodes, a Redis and two gateway processes, all failing by turns while clients ask; at every moment one node is
// left alone. test/support/chaos/tally.ts checks the answers that clients get.
//
// LEDGERGATE_CHAOS_SECONDS sets the duration, LEDGERGATE_CHAOS_SEED the faults: `npm run chaos` runs ten minutes with a
// seed of its own, which is printed, with all events after a violation.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import { watchStalls } from '../../support/stalls.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { ChaosClient } from '../../support/chaos/client.ts';
import { Schedule } from '../../support/chaos/schedule.ts';
import { Tally } from '../../support/chaos/tally.ts';
import { chaosWorld, type ChaosGateway, type ChaosWorld } from '../../support/chaos/world.ts';
import { noRedis } from '../../support/redis-server.ts';

const seconds = Number(process.env['LEDGERGATE_CHAOS_SECONDS'] ?? 6);
const seed = Number(process.env['LEDGERGATE_CHAOS_SEED'] ?? 1);
/** Fewer in the short run of CI. */
const clients = seconds < 60 ? 12 : 24;
const restMs = 60;
/** A gateway process with 16 MiB of answers: memory of Node itself, and of requests in flight. */
const mostResidentMiB = 320;
/** Of reads while the only able node has just come back: a gateway finds it within a second. */
const mostRefusedEarly = 0.001;
/** The most that this process, which has as much to do as a gateway, may have stood still. */
const longestStallMs = 300;
/** Connections of an idle gateway: listeners, Redis, and the probes of each node. */
const mostIdleSockets = 16;

const options = { skip: noRedis, timeout: (seconds + 60) * 1000 };

test(`${seconds} s of chaos, seed ${seed}: nothing wrong, nothing back, nothing refused`, options, async (t) => {
  const world = await chaosWorld(t);
  const tally = new Tally(world);
  const schedule = new Schedule(world, { seed, seconds });
  const stalls = watchStalls(t);
  const all = Array.from({ length: clients }, (_, index) => new ChaosClient(world, tally, seed * 1_000 + index));
  t.after(() => Promise.all(all.map((client) => client.close())));

  await Promise.all([schedule.run(), ...all.map((client) => client.live(() => schedule.isOver, restMs))]);

  const resident = world.gateways.map(({ process }) => residentMiB(process.pid));
  await Promise.all(all.map((client) => client.close()));
  report(t, { tally, schedule, resident, stallMs: stalls.longestMs });
  const faults = [...tally.violations, ...tally.errors];
  if (faults.length > 0) t.diagnostic(['', ...tally.samples, '', ...schedule.events].join('\n'));

  assert.deepEqual([...tally.violations], []);
  assert.deepEqual(strangeLines(world), []);
  assert.deepEqual(
    world.gateways.map(({ process }) => world.secrets.filter((secret) => process.err().includes(secret))),
    [[], []],
  );
  assert.ok(!schedule.events.some((event) => event.includes('ended with')), 'a gateway exits with 0 after SIGTERM');
  assert.ok(Math.max(...resident) < mostResidentMiB, `${resident.join(' and ')} MiB`);
  for (const gateway of world.gateways) assert.ok((await idleSockets(gateway)) <= mostIdleSockets, 'sockets are left');
  assert.ok(tally.answered > seconds * 20, `${tally.answered} answers`);
  // A machine that stands still for so long keeps no gateway from refusing, and no claim is made for it.
  if (stalls.longestMs > longestStallMs) t.diagnostic('a busy machine: refusals are not judged');
  else
    assert.ok(
      tally.errorCount === 0 && tally.early <= Math.max(2, tally.answered * mostRefusedEarly),
      `refused while a node was able: ${list(tally.errors)}, ${tally.early} while it had just come back`,
    );
});

interface Outcome {
  readonly tally: Tally;
  readonly schedule: Schedule;
  readonly resident: readonly number[];
  readonly stallMs: number;
}

function report(t: TestContext, { tally, schedule, resident, stallMs }: Outcome): void {
  const { answered, errorCount, early, excused, cut, failedOver } = tally;
  const tookMs = [...tally.tookMs].sort((a, b) => a - b);
  const at = (share: number): string => (tookMs[Math.floor(tookMs.length * share)] ?? 0).toFixed(1);
  const asked = answered + errorCount + early + excused;
  t.diagnostic(`seed ${seed}, ${seconds} s, ${asked} asked: ${list(tally.right)}`);
  t.diagnostic(`${errorCount} refused while a node was able for a second, ${early} while one had just come back`);
  t.diagnostic(`${excused} refused while none was, ${cut} cut off by kills, ${failedOver} failed over`);
  t.diagnostic(
    `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, p99.9 ${at(0.999)} ms; longest stall here ${stallMs.toFixed(0)} ms`,
  );
  t.diagnostic(`gateways: ${resident.join(' and ')} MiB resident; faults: ${list(schedule.counts)}`);
  if (errorCount > 0) t.diagnostic(`errors: ${list(tally.errors)}`);
  if (tally.violations.size > 0) t.diagnostic(`violations: ${list(tally.violations)}`);
}

function list(counts: ReadonlyMap<string, number>): string {
  return [...counts].map(([what, count]) => `${count} ${what}`).join(', ');
}

/** Lines of stderr that are no log line, or one of an unexpected fault. */
function strangeLines({ gateways }: ChaosWorld): readonly string[] {
  const lines = gateways.flatMap(({ process }) => process.err().split('\n').filter(Boolean));
  return lines.filter((line) => !isLogLine(line) || /unhandled|uncaught|MaxListeners/i.test(line));
}

function isLogLine(line: string): boolean {
  try {
    return typeof (JSON.parse(line) as { readonly level?: unknown }).level === 'number';
  } catch {
    return false;
  }
}

function residentMiB(pid: number): number {
  const kib = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Math.round(Number(kib) / 1024);
}

/** Idle connections close after four seconds: the number that stays after a while. */
async function idleSockets({ process }: ChaosGateway): Promise<number> {
  let left = Infinity;
  for (let tries = 0; tries < 100 && left > mostIdleSockets; tries += 1) {
    left = socketsOf(process.pid);
    await sleep(100);
  }
  return left;
}

function socketsOf(pid: number): number {
  const folder = `/proc/${pid}/fd`;
  const targets = readdirSync(folder).map((fd) => {
    try {
      return readlinkSync(`${folder}/${fd}`);
    } catch {
      // Closed meanwhile.
      return '';
    }
  });
  return targets.filter((target) => target.startsWith('socket:')).length;
}
