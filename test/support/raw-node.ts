/** A node that reports its ledger and answers any other request with the bytes of a test. */
import { createServer } from 'node:net';
import type { TestContext } from 'node:test';
import { ledgerHeaders, type MadeUpLedger } from './ledger-info.ts';
import { listen } from './listen.ts';

/** The seven headers as lines of a raw answer. */
export function headerLines(ledger: MadeUpLedger): string {
  return Object.entries(ledgerHeaders(ledger))
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('');
}

/** `answer`: head and body as they go over the wire; the connection ends after it. */
export async function rawNode(t: TestContext, ledger: MadeUpLedger, answer: string | Buffer) {
  const info = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n${headerLines(ledger)}\r\n{}`;
  let reads = 0;
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', (chunk) => {
      const isLook = /^GET \/v1\/? /.test(chunk.toString('latin1'));
      if (!isLook) reads += 1;
      socket.end(isLook ? info : answer);
    });
  });
  return {
    url: `http://127.0.0.1:${await listen(t, server)}/v1`,
    /** Requests for anything but the ledger info. */
    get reads() {
      return reads;
    },
  };
}
