/**
 * HTTP/1.1 client of one node, `http:` and `https:` alike: undici pools, with every time-out and limit set here. undici's
 * parser (llhttp, strict) checks answers; `AnswerHandler` adds the checks that undici leaves out.
 */
import { isIP, type LookupFunction } from 'node:net';
import { Pool, type Dispatcher } from 'undici';
import type { TlsMaterial } from '../../config/index.ts';

/** A request to one node. `path` starts at the node's root, percent-encoded, with its query. */
export interface WireRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE' | 'PATCH' | 'OPTIONS';
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body?: Buffer | undefined;
}

/** A request with all that the node gets. */
export interface SentRequest extends Omit<WireRequest, 'body'> {
  readonly body: Buffer | null;
}

/**
 * Connections are separate by purpose. `read`: idempotent requests, over keep-alive connections. `submission`: requests
 * that must not be sent twice, each over a new connection, and requests for another of several nodes behind the address.
 * `probe`: the node's own state, never queued behind reads.
 */
export type Purpose = 'read' | 'submission' | 'probe';

/** Options of a `NodeClient`. */
export interface NodeClientOptions {
  /** For reads, and as many for submissions. */
  readonly connections: number;
  /** The bound of the TCP and TLS handshake. */
  readonly connectTimeoutMs: number;
  /** Resolves the node's name, once per new connection. Default: `dns.lookup`. */
  readonly lookup?: LookupFunction | undefined;
  /** Default: the public authorities, and no certificate of the gateway's own. */
  readonly tls?: TlsMaterial | undefined;
}

/** Resolves every name to this IP address: TLS and `Host` keep the name of the URL. */
export function lookupOf(address: string): LookupFunction {
  const family = isIP(address);
  return (name, { all }, callback) => {
    if (family === 0) callback(Object.assign(new Error(`${name} has no address of a node`), { code: 'ENOTFOUND' }), '');
    else if (all === true) callback(null, [{ address, family }]);
    else callback(null, address, family);
  };
}

/** One for the prober, one for the look that reads of "latest" share. */
const probeConnections = 2;

function commonOptions({ connectTimeoutMs, lookup, tls }: NodeClientOptions): Pool.Options {
  return {
    connectTimeout: connectTimeoutMs,
    // undici passes the whole object on to `net.connect`, so an undefined `lookup` would replace the default.
    connect: { ...(lookup === undefined ? {} : { lookup }), ...tls },
    // HTTP/2 bodies need no announced length, so a cut body would look whole (`isFramed`).
    allowH2: false,
    // Pipelined requests would share the faults of a connection.
    pipelining: 1,
    // Attempts and streams have time-outs of their own (`Deadline`, `NodeStream`); two clocks would disagree.
    headersTimeout: 0,
    bodyTimeout: 0,
    // `ByteBudget` bounds bodies that are read whole; streamed bodies have backpressure.
    maxResponseSize: -1,
    // Field names and values of one head, and of all trailers. Node's own parser has the same bound.
    maxHeaderSize: 16 * 1024,
    // Servers mostly keep an idle connection for 5 s or longer. A server's `Keep-Alive: timeout=` counts less the margin.
    keepAliveTimeout: 4_000,
    keepAliveTimeoutThreshold: 2_000,
    keepAliveMaxTimeout: 600_000,
  };
}

interface Unsent {
  readonly request: SentRequest;
  readonly pool: Pool;
  readonly handler: Dispatcher.DispatchHandler;
}

/** The requests of this turn of the event loop, to all nodes: one immediate dispatches them. */
let unsent: Unsent[] = [];

/** Dispatches the requests to `pools` ahead of the end of the turn. Default: all, at its end. */
function flush(pools?: readonly Pool[]): void {
  const sent = pools === undefined ? unsent : unsent.filter(({ pool }) => pools.includes(pool));
  unsent = pools === undefined ? [] : unsent.filter(({ pool }) => !pools.includes(pool));
  for (const { pool, request, handler } of sent) pool.dispatch(request, handler);
}

/** All connections to one node. */
export class NodeClient {
  readonly #pools: Readonly<Record<Purpose, Pool>>;

  /** `url`: the node's base address, of which the path is ignored. */
  constructor({ origin }: URL, options: NodeClientOptions) {
    const { connections } = options;
    const common = commonOptions(options);
    this.#pools = {
      read: new Pool(origin, { ...common, connections }),
      // 0 sends `Connection: close` and never uses a connection twice. A reused one may hold an unsolicited answer, or
      // be about to close, and a lost submission must not be sent again.
      submission: new Pool(origin, { ...common, connections, pipelining: 0 }),
      probe: new Pool(origin, { ...common, connections: probeConnections }),
    };
  }

  /**
   * Sends a request; `handler` gets the answer, or an error for a request that HTTP forbids. Bytes that arrived before the
   * request never answer it: undici gets it in the check phase of the event loop, and writes to an idle connection one
   * poll of all sockets later. That poll reads unsolicited bytes and a FIN in the kernel, which close the connection.
   */
  dispatch(purpose: Purpose, request: SentRequest, handler: Dispatcher.DispatchHandler): void {
    if (unsent.length === 0) setImmediate(flush);
    unsent.push({ request, pool: this.#pools[purpose], handler });
  }

  /** Resolves when all requests in flight have ended. */
  async close(): Promise<void> {
    await Promise.all(this.#flushed().map((pool) => pool.close()));
  }

  async destroy(): Promise<void> {
    await Promise.all(this.#flushed().map((pool) => pool.destroy()));
  }

  /** Its pools, which have all of its requests; those of other nodes must not leave earlier (`dispatch`). */
  #flushed(): readonly Pool[] {
    const pools = Object.values(this.#pools);
    flush(pools);
    return pools;
  }
}
