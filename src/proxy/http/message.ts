/** The parts of requests, responses and routes that handlers use, common to Node's HTTP server and the fast path. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AccessOperation, AdmittedRequest } from '../../access/index.ts';
import type { GatewayError } from '../../ledger/index.ts';
import type { BodyReservation } from './bodies.ts';

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
  /** `writeHead` of `head` and the ledger headers behind it. Absent: the response has no text of them. */
  writeHeadOfLedger?(status: number, head: readonly string[], ledger: readonly string[]): unknown;
  /** Sends a piece of the body; false: wait for 'drain'. */
  write(piece: Buffer): boolean;
  end(body: string | Buffer | undefined): unknown;
  end(body: string | undefined, encoding: 'latin1' | 'utf8'): unknown;
  destroy(): unknown;
  /** 'close': the answer is out or abandoned. */
  once(event: 'close' | 'drain', listener: () => void): unknown;
}

/** A request that a transport received, and its response. */
export interface ReceivedHead {
  readonly request: Incoming;
  readonly response: Outgoing;
  /** `clientOf` the connection, where its transport keeps it. */
  readonly client?: string;
  /** Undefined with open access, and for a refused request. */
  readonly admitted?: AdmittedRequest | undefined;
}

/** A request whose body Node's server reads on demand, or one that came whole over the fast path. */
export type Received = ReceivedHead &
  (
    | { readonly request: IncomingMessage; readonly response: ServerResponse; readonly body?: undefined }
    | {
        /** Empty for GET and HEAD; the fault of a body that was ended for lack of memory. */
        readonly body: Buffer | GatewayError;
        /** Memory of a body large enough to count, which its owner releases when the response closes. */
        readonly reservation?: BodyReservation | undefined;
      }
  );

/**
 * Kind of answer. `read`: from cache or fleet. `wait`: a `read` that a node may hold back. `posted`: a `read` with a body.
 * `encode`: by the encoder or a node. `submit`: by one node, once. `health`: by the gateway, of itself. `usage`: by
 * it, of the key's plan and use. `passed`: by a node, unchanged. `none`: refused.
 */
export type RouteKind =
  | 'read'
  | 'wait'
  | 'posted'
  | 'encode'
  | 'submit'
  | 'ledger info'
  | 'health'
  | 'usage'
  | 'passed'
  | 'preflight'
  | 'none';

/** A way to answer requests; one object for all requests. */
export interface Route {
  readonly kind: RouteKind;
  /** In metrics, log lines and spans. */
  readonly name: string;
  /** Path below the base path; undefined for a request without a route. */
  readonly template: string | undefined;
  /** Keys allow and plans charge this operation. */
  readonly operation: AccessOperation;
  /** Present on routes that no plan counts. `none`: they need no key. `holder`: they are about it. */
  readonly charge?: 'none' | 'holder';
}

/** The route of one request. */
export interface MatchedRoute {
  readonly route: Route;
  readonly target: string;
  /** 400 or 404 of a refused request. */
  readonly fault: GatewayError | undefined;
  readonly operation: AccessOperation;
}
