/**
 * Everything side by side on one machine, in interleaved rounds: prints tables, and writes them into RESULTS.md.
 *
 *     npm run bench -- [--only hits,misses] [--loads TEXT] [--quick] [--write]
 *                      [--starts N] [--rounds N] [--seconds S] [--connections N] [--warm-up S]
 *                      [--rate N] [--requests N] [--seed N] [--slow N] [--staleness MS] [--against DIR] [--follow]
 *
 * Servers on core 0, load and nodes on core 1. `--quick` shows in short rounds whether it runs, and writes nothing
 * unless `--write` is there too; `--loads` leaves out loads that have none of its texts, parted by semicolons, in their title.
 * The last line of flags is of `mix`: a rate or a closed loop, and another checkout to measure beside this one, which
 * `shapes`, `polls` and `push-waits` take too.
 */
import { spawnSync } from 'node:child_process';
import { cpus } from 'node:os';
import { coalescing } from './coalescing.ts';
import { encode } from './encode.ts';
import { fixedRate } from './fixed-rate.ts';
import { growth } from './growth.ts';
import { hits } from './hits.ts';
import { idleTls } from './idle-tls.ts';
import { latest } from './latest.ts';
import { memory } from './memory.ts';
import { misses } from './misses.ts';
import { mix } from './mix.ts';
import { polls } from './polls.ts';
import { pruned } from './pruned.ts';
import { pushTransactions } from './push-transactions.ts';
import { pushWaits } from './push-waits.ts';
import { redis } from './redis.ts';
import { shapes } from './shapes.ts';
import { startUp } from './start-up.ts';
import { tokens } from './tokens.ts';
import { workers } from './workers.ts';
import { loadCpu } from './support/contest.ts';
import { readFlags, type Part } from './support/options.ts';
import { requirePrograms } from './support/process-under-test.ts';
import { writeSection } from './support/results-section.ts';

const all: readonly Part[] = [
  hits,
  fixedRate,
  misses,
  coalescing,
  pruned,
  latest,
  polls,
  pushWaits,
  pushTransactions,
  mix,
  shapes,
  tokens,
  encode,
  redis,
  memory,
  idleTls,
  startUp,
  growth,
  workers,
];

const flags = readFlags();
const names = all.map(({ name }) => name);
const unknown = flags.only.filter((name) => !names.includes(name));
if (unknown.length > 0) throw new Error(`no part ${unknown.join(', ')}; there are ${names.join(', ')}`);
requirePrograms();
if (cpus().length < 2) throw new Error('two cores are needed: one for servers, one for their clients');
// This process is part of the load.
spawnSync('taskset', ['-a', '-p', '-c', String(loadCpu), String(process.pid)]);

const failed: string[] = [];
for (const part of all) {
  const { name, heading } = part;
  if (flags.only.length > 0 && !flags.only.includes(name)) continue;
  process.stderr.write(`\n${name}\n`);
  try {
    const text = await part.run(flags);
    const section = `\`npm run bench -- --only ${name}\`\n\n${text.trim()}`;
    process.stdout.write(`\n## ${heading}\n\n${section}\n`);
    if (flags.isWritten) writeSection(heading, section);
  } catch (error) {
    // The others are worth having.
    failed.push(name);
    process.stderr.write(`\n!!! ${name} FAILED: ${error instanceof Error ? error.stack : String(error)}\n\n`);
  }
}
if (failed.length > 0) process.stderr.write(`\n!!! FAILED: ${failed.join(', ')}\n`);
process.exit(failed.length > 0 ? 1 : 0);
