/** Bytes to a port and back: for requests that no HTTP client would send. */
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Ending } from './temporary-folder.ts';

/** Writes `bytes`, waits until the server ends the connection, and returns all received text. Ends after 5 s at most. */
export function exchangeRaw(port: number, bytes: string | Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    const chunks: Buffer[] = [];
    const timer = setTimeout(() => socket.destroy(new Error('the server kept the connection open')), 5_000);
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', reject);
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(Buffer.concat(chunks).toString('latin1'));
    });
    socket.write(bytes);
  });
}

/** A connection of a test, and the bytes that it has received. */
export interface RawClient {
  readonly socket: Socket;
  /** So far. */
  readonly text: () => string;
  /** Resolves with all of them when the server ends the connection, or it is reset. */
  readonly received: Promise<string>;
}

/** Connects, with TLS where there is a `ca`. The client's own end closes nothing; the test's end does. */
export function rawClient(t: Ending, port: number, ca?: string): RawClient {
  const to = { host: '127.0.0.1', port, allowHalfOpen: true, noDelay: true };
  const socket: Socket = ca === undefined ? connect(to) : connectTls({ ...to, ca });
  t.after(() => socket.destroy());
  socket.on('error', () => undefined);
  let text = '';
  socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
  socket.once('end', () => socket.destroy());
  const received = new Promise<string>((resolve) => socket.once('close', () => resolve(text)));
  return { socket, text: () => text, received };
}

/** One answer of a connection. */
export interface RawAnswer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/** The answers in order, each with the body of its declared length. */
export function answersIn(said: string): readonly RawAnswer[] {
  const answers: RawAnswer[] = [];
  let rest = said;
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n') + 4;
    const head = rest.slice(0, end);
    const bodyEnd = end + Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? 0);
    const status = /^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1];
    if (end < 4 || status === undefined || bodyEnd > rest.length) throw new Error(`this is no answer: ${rest}`);
    answers.push({ status: Number(status), head, body: rest.slice(end, bodyEnd) });
    rest = rest.slice(bodyEnd);
  }
  return answers;
}
