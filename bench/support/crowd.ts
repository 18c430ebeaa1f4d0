/** A crowd of connections in a process of its own: `node bench/support/crowd.ts KIND COUNT URL`. Runs until it is killed. */
import { connect, type Socket } from 'node:net';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';

/** Milliseconds between two things that one connection does. */
const pauseMs = 5_000;

/** The work of each connection; `turn` counts its earlier requests. */
const kinds: Readonly<Record<string, (socket: Socket, request: string, turn: number) => void>> = {
  idle: (socket, request, turn) => void (turn === 0 && socket.write(request)),
  hits: (socket, request) => void socket.write(request),
  'slow heads': (socket, request, turn) => void socket.write(turn === 0 ? request.slice(0, -2) : 'X'),
  unread: (socket, request, turn) => {
    socket.pause();
    if (turn === 0) socket.write(request.repeat(120));
  },
};

const [, , kind = '', count = '0', address = ''] = process.argv;
const act = kinds[kind];
if (act === undefined) throw new Error(`kinds: ${Object.keys(kinds).join(', ')}`);
const url = new URL(address);
const request = `GET ${url.pathname}${url.search} HTTP/1.1\r\nHost: ${url.host}\r\n\r\n`;

/** One place in the crowd, taken anew whenever its connection is closed. */
async function stand(first: () => void): Promise<void> {
  for (;;) {
    const socket = connect(Number(url.port), url.hostname);
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    socket.on('error', () => undefined).resume();
    let turn = 0;
    const next = (): void => {
      act?.(socket, request, turn);
      turn += 1;
    };
    socket.once('connect', () => {
      next();
      first();
    });
    const timer = setInterval(next, pauseMs);
    await closed;
    clearInterval(timer);
    await sleep(100);
  }
}

let standing = 0;
for (let place = 0; place < Number(count); place += 1) {
  void stand(() => {
    standing += 1;
    if (standing === Number(count)) process.stdout.write('all are there\n');
  });
  // Listeners queue 511 at most.
  if (place % 100 === 99) await sleep(20);
}
