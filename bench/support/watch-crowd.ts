/**
 * Watchers in a process of their own: `node bench/support/watch-crowd.ts COUNT RESOURCES URL SECONDS`. Prints a line when
 * all are there, and `WatchCounts` as JSON after so many seconds behind it.
 */
import { connect, type Socket } from 'node:net';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';

/** Figures of the watchers. */
export interface WatchCounts {
  /** From a change to its event at a watcher, each in ms. */
  readonly delaysMs: readonly number[];
  /** Streams that have ended. */
  readonly ended: number;
}

const [, , count = '0', resources = '1', address = '', seconds = '10'] = process.argv;
const url = new URL(address);
const atOnce = 100;
const delaysMs: number[] = [];
let isMeasured = false;
let ended = 0;

/** Resolves with the stream's first event. */
async function watch(place: number): Promise<Socket> {
  const account = `0x5a${String(place % Number(resources)).padStart(6, '0')}`;
  const path = `/v1/accounts/${account}/resource/0x1::bench::Watched`;
  const socket = connect({ port: Number(url.port), host: url.hostname });
  socket.setEncoding('latin1');
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${url.host}\r\nAccept: text/event-stream\r\n\r\n`);
  await new Promise<void>((resolve, reject) => {
    socket.on('error', reject);
    socket.on('close', () => {
      ended += 1;
      reject(new Error('a stream has ended'));
    });
    socket.on('data', (text: unknown) => {
      const [, changedMs] = /"changed_ms":"([\d.]+)"/.exec(String(text)) ?? [];
      if (changedMs === undefined) return;
      resolve();
      if (isMeasured) delaysMs.push(performance.timeOrigin + performance.now() - Number(changedMs));
    });
  });
  return socket;
}

for (let place = 0; place < Number(count); place += atOnce) {
  await Promise.all(
    Array.from({ length: Math.min(atOnce, Number(count) - place) }, (_, index) => watch(place + index)),
  );
}
process.stdout.write('all are there\n');
// Events of changes from before the last stream count as little as the streams' first ones.
await sleep(2_000);
isMeasured = true;
await sleep(Number(seconds) * 1_000);
isMeasured = false;
const result: WatchCounts = { delaysMs, ended };
process.stdout.write(JSON.stringify(result), () => process.exit(0));
