/**
 * A request and the way its answer goes, as far as answering it takes: those of Node's HTTP server are of this form, and
 * so are those of the fast path.
 */
import type { IncomingMessage } from 'node:http';

/** A request, as far as answering it needs it. */
export type Incoming = Pick<
  IncomingMessage,
  'method' | 'url' | 'headers' | 'socket' | 'httpVersion' | 'httpVersionMajor'
>;

/** A response, as far as answering needs it. */
export interface Outgoing {
  statusCode: number;
  /** False: the connection ends with the answer. */
  shouldKeepAlive: boolean;
  readonly headersSent: boolean;
  /** The client has gone, or the answer has broken off. */
  readonly destroyed: boolean;
  /** Bytes that the kernel has not taken, those of other answers on the connection included. */
  readonly writableLength: number;
  /** `head`: names and values in turn. */
  writeHead(status: number, head: string[]): unknown;
  /** A piece of the body, of which more comes; false: the next one shall wait for 'drain'. */
  write(piece: Buffer): boolean;
  end(body: string | Buffer | undefined): unknown;
  end(body: string | undefined, encoding: 'latin1' | 'utf8'): unknown;
  destroy(): unknown;
  /** 'close': the answer is out, or will not be given any more. */
  once(event: 'close' | 'drain', listener: () => void): unknown;
}
