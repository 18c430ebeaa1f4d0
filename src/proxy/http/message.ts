/** The parts of requests and responses that handlers use, common to Node's HTTP server and the fast path. */
import type { IncomingMessage } from 'node:http';

/** The parts of Node's request that handlers use. */
export type Incoming = Pick<
  IncomingMessage,
  'method' | 'url' | 'headers' | 'socket' | 'httpVersion' | 'httpVersionMajor'
>;

/** The parts of Node's response that handlers use. */
export interface Outgoing {
  statusCode: number;
  /** False: the connection closes after the answer. */
  shouldKeepAlive: boolean;
  readonly headersSent: boolean;
  /** The client is gone, or the answer broke off. */
  readonly destroyed: boolean;
  /** Bytes that the kernel has not accepted, other answers on the connection included. */
  readonly writableLength: number;
  /** `head`: alternating names and values. */
  writeHead(status: number, head: string[]): unknown;
  /** Sends a piece of the body; false: wait for 'drain'. */
  write(piece: Buffer): boolean;
  end(body: string | Buffer | undefined): unknown;
  end(body: string | undefined, encoding: 'latin1' | 'utf8'): unknown;
  destroy(): unknown;
  /** 'close': the answer is out or abandoned. */
  once(event: 'close' | 'drain', listener: () => void): unknown;
}
