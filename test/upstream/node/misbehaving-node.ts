/**
 * A node in a process of its own, which misbehaves while the process that asks it is busy. A request for `/first?WAY` is
 * answered `first`. Then, 20 ms later, its connection gets the bytes or the end that the way names: `says 408`, `ends`,
 * `resets`, `says an answer`, `says the start of an answer`; with `says too much` a second answer follows the first at
 * once. Every other request is answered with its path. Sends its port to the parent process.
 */
import { createServer, type Socket } from 'node:net';

const misbehavesAfterMs = 20;

createServer((socket) => {
  socket.on('error', () => undefined);
  socket.on('data', (chunk) => {
    const [, path = '', way = ''] = /^\w+ ([^? ]+)\??(\S*)/.exec(chunk.toString('latin1')) ?? [];
    if (path !== '/first') socket.write(answerOf(path));
    else if (way === 'says%20too%20much') sayTooMuch(socket);
    else {
      socket.write(answerOf('first'));
      setTimeout(() => misbehave(socket, decodeURIComponent(way)), misbehavesAfterMs);
    }
  });
}).listen(0, '127.0.0.1', function (this: ReturnType<typeof createServer>) {
  process.send?.((this.address() as { readonly port: number }).port);
});

function misbehave(socket: Socket, way: string): void {
  if (way === 'says 408') {
    socket.end('HTTP/1.1 408 Request Timeout\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbye');
  } else if (way === 'says an answer') socket.write(answerOf('STRAY'));
  else if (way === 'says the start of an answer') socket.write(answerOf('STRAY').slice(0, 20));
  else if (way === 'resets') socket.resetAndDestroy();
  else socket.end();
}

/** An answer that fills one read of a socket to the last byte, and another one behind it. */
function sayTooMuch(socket: Socket): void {
  const size = 64 * 1024;
  const bytes = size - headOf(size - 100).length;
  socket.write(`${headOf(bytes)}${'x'.repeat(bytes)}${answerOf('STRAY')}`);
}

function headOf(bytes: number): string {
  return `HTTP/1.1 200 OK\r\nContent-Length: ${bytes}\r\n\r\n`;
}

function answerOf(body: string): string {
  return headOf(body.length) + body;
}
