/**
 * A node in a process of its own, which says and does what it pleases while the process that asks it is busy:
 *
 *     fork(..., ['says 408' | 'ends' | 'says too much'])
 *
 * What is asked first on each connection is answered `first`; then it leaves, or has said `STRAY` behind it. Whatever
 * else comes is answered with its own path. Tells its port.
 */
import { createServer, type Socket } from 'node:net';

const [, , way = ''] = process.argv;
const leavesAfterMs = 50;
let isFirst = true;

createServer((socket) => {
  socket.on('error', () => undefined);
  socket.on('data', (chunk) => {
    if (!isFirst) {
      const path = /^\w+ (\S+)/.exec(chunk.toString('latin1'))?.[1] ?? '';
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${path.length}\r\n\r\n${path}`);
      return;
    }
    isFirst = false;
    if (way === 'says too much') sayTooMuch(socket);
    else {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst');
      setTimeout(() => leave(socket), leavesAfterMs);
    }
  });
}).listen(0, '127.0.0.1', function (this: ReturnType<typeof createServer>) {
  process.send?.((this.address() as { readonly port: number }).port);
});

function leave(socket: Socket): void {
  const farewell = 'HTTP/1.1 408 Request Timeout\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbye';
  if (way === 'says 408') socket.end(farewell);
  else socket.end();
}

/** An answer that fills what is read at once to the last byte, and another one behind it. */
function sayTooMuch(socket: Socket): void {
  const size = 64 * 1024;
  const bytes = size - headOf(size - 100).length;
  socket.write(`${headOf(bytes)}${'x'.repeat(bytes)}${headOf(5)}STRAY`);
}

function headOf(bytes: number): string {
  return `HTTP/1.1 200 OK\r\nContent-Length: ${bytes}\r\n\r\n`;
}
