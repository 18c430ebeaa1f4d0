/**
 * Loaded into a gateway with `--import turn-meter.ts?file=FILE`: appends the processor time of the first thread in each
 * turn of its event loop to the file, in milliseconds, one a line. Another client waits for a turn or two; a busy machine adds
 * nothing to these times.
 */
import { appendFileSync } from 'node:fs';
import process from 'node:process';

const file = new URL(import.meta.url).searchParams.get('file') ?? '';
const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};
let lines = '';
let lastMs = cpuMs();
/** A timer runs once a turn; turns below a millisecond count together. */
setInterval(() => {
  const nowMs = cpuMs();
  lines += `${(nowMs - lastMs).toFixed(2)}\n`;
  lastMs = nowMs;
}, 1).unref();
setInterval(() => {
  appendFileSync(file, lines);
  lines = '';
  lastMs = cpuMs();
}, 500).unref();
