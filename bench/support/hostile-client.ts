/**
 * One hostile client in a process of its own: `node bench/support/hostile-client.ts TITLE URL OPERATIONS_URL`. Runs until
 * it is killed, and writes its count of requests each second.
 */
import { connect, type Socket } from 'node:net';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { frame, headOf } from '../../test/support/h2-frames.ts';
import { hostilePatterns, type NumberedBytes } from './hostile-patterns.ts';

const [, , title = '', clientsUrl = '', operationsUrl = ''] = process.argv;
const pattern = hostilePatterns.find((one) => one.title === title);
if (pattern === undefined) throw new Error(`no pattern ${title}`);
const url = new URL(pattern.isAdmin === true ? operationsUrl : clientsUrl);
const port = Number(url.port);
let sent = 0;
process.stdout.on('error', () => process.exit(1));

async function open(): Promise<Socket> {
  const tcp = connect(port, '127.0.0.1');
  const isTls = url.protocol === 'https:';
  const protocol = pattern?.kind === 'resets' ? 'h2' : 'http/1.1';
  const socket = isTls ? connectTls({ socket: tcp, rejectUnauthorized: false, ALPNProtocols: [protocol] }) : tcp;
  socket.on('error', () => undefined);
  await next(socket, isTls ? 'secureConnect' : 'connect');
  return socket;
}

/** Resolves with the event, or when the connection ends without it. */
function next(socket: Socket, event: string): Promise<void> {
  if (socket.closed) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      socket.off(event, done).off('close', done);
      resolve();
    };
    socket.on(event, done).on('close', done);
  });
}

/** Writes as fast as the gateway reads, and at most so many bytes a second. */
async function flood(bytesOf: NumberedBytes, mostPerSecond: number, from: number): Promise<void> {
  const startedMs = performance.now();
  let bytes = 0;
  for (let n = from; ;) {
    const socket = await open();
    socket.resume();
    while (!socket.closed) {
      const request = bytesOf(n);
      n += 1;
      sent += 1;
      bytes += request.length;
      if (!socket.write(request)) await next(socket, 'drain');
      const aheadMs = (bytes / mostPerSecond) * 1000 - (performance.now() - startedMs);
      if (aheadMs > 5) await sleep(aheadMs);
    }
  }
}

/** Sends a request after each whole answer. */
async function again(bytesOf: NumberedBytes, from: number): Promise<void> {
  for (let n = from; ;) {
    const socket = await open();
    while (!socket.closed) {
      socket.write(bytesOf(n));
      n += 1;
      sent += 1;
      await wholeAnswer(socket);
    }
  }
}

function wholeAnswer(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    let head = '';
    let left = Infinity;
    const onData = (chunk: Buffer): void => {
      if (left === Infinity) {
        head += chunk.toString('latin1');
        const end = head.indexOf('\r\n\r\n') + 4;
        if (end < 4) return;
        left = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0) - (head.length - end);
      } else left -= chunk.length;
      if (left > 0) return;
      done();
    };
    const done = (): void => {
      socket.off('data', onData).off('close', done);
      resolve();
    };
    socket.on('data', onData).on('close', done);
  });
}

/** Begins and resets streams of HTTP/2 until the gateway ends the connection; then the next one. */
async function resets(pathOf: (n: number) => string, from: number): Promise<void> {
  for (let n = from; ;) {
    const socket = await open();
    socket.resume();
    socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0, Buffer.alloc(0))]));
    for (let id = 1; !socket.closed;) {
      const frames: Buffer[] = [];
      for (let count = 0; count < 500; count += 1, id += 2, n += 1) {
        frames.push(frame(1, 5, id, headOf(pathOf(n))), frame(3, 0, id, Buffer.from([0, 0, 0, 8])));
      }
      sent += frames.length / 2;
      if (!socket.write(Buffer.concat(frames))) await next(socket, 'drain');
    }
  }
}

setInterval(() => process.stdout.write(`${sent}\n`), 1_000);
await Promise.all(
  Array.from({ length: pattern.connections }, (_, at) => {
    const from = at * 10_000_000 + (Date.now() % 1_000_000);
    if (pattern.kind === 'flood') return flood(pattern.bytes, pattern.bytesPerSecond ?? Infinity, from);
    return pattern.kind === 'again' ? again(pattern.bytes, from) : resets(pattern.path, from);
  }),
);
