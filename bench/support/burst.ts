/** Many clients that ask for the same at the same moment. */
import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { quantile } from './figures.ts';

export interface Burst {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly longestMs: number;
}

const giveUpMs = 15_000;
/** Listeners queue no more than some hundreds. */
const connectsAtOnce = 50;

/** Connects `clients` times, then sends all requests in one go; times count from the first. Throws for what is not 200. */
export async function askAtOnce(url: string, path: string, clients: number): Promise<Burst> {
  const { hostname, port, host } = new URL(url);
  const sockets: Socket[] = [];
  while (sockets.length < clients) {
    const some = Array.from({ length: Math.min(connectsAtOnce, clients - sockets.length) }, () =>
      connect({ host: hostname, port: Number(port), noDelay: true }),
    );
    await Promise.all(some.map((socket) => once(socket, 'connect')));
    sockets.push(...some);
  }
  // Until the server has taken them all.
  await sleep(300);
  const request = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\naccept: application/json\r\n\r\n`;
  const answers = sockets.map(wholeAnswer);
  const startMs = performance.now();
  for (const socket of sockets) socket.write(request);
  const tookMs = (await Promise.all(answers)).map((atMs) => atMs - startMs);
  return { p50Ms: quantile(tookMs, 0.5), p99Ms: quantile(tookMs, 0.99), longestMs: Math.max(...tookMs) };
}

/** When the answer was there to its end, `performance.now()`. Closes the connection. */
function wholeAnswer(socket: Socket): Promise<number> {
  return new Promise((resolve, reject) => {
    let text = '';
    const timer = setTimeout(() => reject(new Error(`no answer after ${giveUpMs} ms`)), giveUpMs);
    const end = (done: () => void): void => {
      clearTimeout(timer);
      socket.destroy();
      done();
    };
    socket.on('error', (error) => end(() => reject(error)));
    socket.on('close', () => end(() => reject(new Error(`closed after: ${text}`))));
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (!isWhole(text)) return;
      const atMs = performance.now();
      end(() => (text.startsWith('HTTP/1.1 200') ? resolve(atMs) : reject(new Error(text))));
    });
  });
}

function isWhole(text: string): boolean {
  const body = text.indexOf('\r\n\r\n') + 4;
  if (body < 4) return false;
  const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, body))?.[1];
  return length === undefined ? text.endsWith('0\r\n\r\n') : text.length - body >= Number(length);
}
