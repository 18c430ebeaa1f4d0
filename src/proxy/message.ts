/**
 * A request and the way its answer goes, as far as answering it takes: those of Node's HTTP server are of this form, and
 * so are those of the front.
 */
import type { IncomingMessage } from 'node:http';

export type Incoming = Pick<
  IncomingMessage,
  'method' | 'url' | 'headers' | 'socket' | 'httpVersion' | 'httpVersionMajor'
>;

export interface Outgoing {
  statusCode: number;
  /** False: the connection ends with the answer. */
  shouldKeepAlive: boolean;
  readonly headersSent: boolean;
  /** The client has gone, or the answer has broken off. */
  readonly destroyed: boolean;
  /** `head`: names and values in turn. */
  writeHead(status: number, head: string[]): unknown;
  end(body: string | Buffer | undefined): unknown;
  end(body: string | undefined, encoding: 'latin1' | 'utf8'): unknown;
  destroy(): unknown;
  /** When the answer will not be given any more; of Node's server also when it is out. */
  once(event: 'close', listener: () => void): unknown;
}
