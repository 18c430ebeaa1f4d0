/**
 * A crowd of connections in a process of its own: `node bench/support/crowd.ts KIND COUNT URL`. Runs until it is killed.
 * `PLACE` in the address becomes 500 to 1499, by the place of the connection.
 * An https address makes TLS connections of HTTP/1.1; NODE_EXTRA_CA_CERTS names the root that they trust.
 */
import { connect, type Socket } from 'node:net';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';

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
  'slow readers': (socket, request, turn) => {
    socket.pause();
    if (turn === 0) socket.write(request);
    else socket.read();
  },
};

const [, , kind = '', count = '0', address = ''] = process.argv;
const act = kinds[kind];
if (act === undefined) throw new Error(`kinds: ${Object.keys(kinds).join(', ')}`);
const url = new URL(address);
const isTls = url.protocol === 'https:';
const request = `GET ${url.pathname}${url.search} HTTP/1.1\r\nHost: ${url.host}\r\n\r\n`;
const requestOf = (place: number): string => request.replace('PLACE', String(500 + (place % 1_000)));

function connectOnce(): Socket {
  const where = { port: Number(url.port), host: url.hostname };
  return isTls ? connectTls({ ...where, ALPNProtocols: ['http/1.1'] }) : connect(where);
}

/** One place in the crowd, taken anew whenever its connection is closed; `first` is called once, after the handshake. */
async function stand(own: string, first: () => void): Promise<void> {
  let hasStood = false;
  for (;;) {
    const socket = connectOnce();
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    socket.on('error', () => undefined).resume();
    let turn = 0;
    const next = (): void => {
      act?.(socket, own, turn);
      turn += 1;
    };
    socket.once(isTls ? 'secureConnect' : 'connect', () => {
      next();
      if (!hasStood) first();
      hasStood = true;
    });
    const timer = setInterval(next, pauseMs);
    await closed;
    clearInterval(timer);
    await sleep(100);
  }
}

/** Listeners queue 511 at most, and a handshake that waits behind a thousand others is out of time. */
const atOnce = 100;
const coming: Promise<void>[] = [];
for (let place = 0; place < Number(count); place += 1) {
  coming.push(new Promise((resolve) => void stand(requestOf(place), resolve)));
  if (coming.length === atOnce) await Promise.all(coming.splice(0));
}
await Promise.all(coming);
process.stdout.write('all are there\n');
