/**
 * A ledger node on recorded data: a small real HTTP server that answers as a full node does, with a ledger that moves
 * by a clock, and faults on demand. `ledgergate sample` serves a fleet of these; tests use them as their nodes.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { dialectOf, type Dialect, type DialectName, type LedgerInfo } from '../ledger/ledger-headers.ts';
import type { SampleAnswer } from './answer.ts';
import { SampleCall } from './call.ts';
import { Faults, findFault, findReplacement, type SampleFault } from './faults.ts';
import { advancingClock, type LedgerClock } from './ledger-clock.ts';
import { Mempool } from './mempool.ts';
import { bareError, frameworkError, NodeError } from './node-error.ts';
import { RequestLog, type ReceivedRequest } from './request-log.ts';
import { findRoute, type SampleRouteName, type Routing } from './routes.ts';
import { writeAnswer } from './write-answer.ts';

/** Clock, chain, dialect, address and faults of a node. */
export interface SampleNodeOptions<Clock extends LedgerClock = LedgerClock> {
  readonly clock?: Clock;
  /** Default 1, the chain of most recorded signing messages. */
  readonly chainId?: number;
  /** Header names. Default `node`. */
  readonly dialect?: DialectName;
  readonly host?: string;
  /** Default 0: a free port. */
  readonly port?: number;
  /** Shared by the nodes of a ledger. Default: its own, where a transaction is pending for half a second. */
  readonly mempool?: Mempool;
  /** How many received requests are kept for inspection. Default 100. */
  readonly keepRequests?: number;
  /** Answers with gzip where the client takes it, as real nodes do. Default true. */
  readonly compression?: boolean;
  /** Further headers of each answer that has ledger headers, as newer nodes send them. Default none. */
  readonly headers?: (request: ReceivedRequest, ledger: LedgerInfo) => Readonly<Record<string, string>>;
}

/** Starts a node; resolves when it listens. */
export async function createSampleNode<Clock extends LedgerClock = LedgerClock>(
  options: SampleNodeOptions<Clock> & { readonly clock: Clock },
): Promise<SampleNode<Clock>>;
/** Starts a node on an advancing clock; resolves when it listens. */
export async function createSampleNode(options?: SampleNodeOptions): Promise<SampleNode>;
export async function createSampleNode(options: SampleNodeOptions = {}): Promise<SampleNode> {
  const node = new SampleNode({ ...options, clock: options.clock ?? advancingClock() });
  await node.accept();
  return node;
}

/** Real nodes refuse larger bodies by their declared length (protocol 2.4). */
const maxBodyBytes = 8 * 1024 * 1024;

/** Every path of the interface is below it. */
const basePath = '/v1';

/** A running node. Clock, faults and mempool may change while it runs. */
export class SampleNode<Clock extends LedgerClock = LedgerClock> {
  readonly clock: Clock;
  readonly chainId: number;
  readonly mempool: Mempool;
  readonly faults = new Faults();
  readonly log: RequestLog;
  readonly #options: SampleNodeOptions<Clock>;
  readonly #dialect: Dialect;
  readonly #closing = new AbortController();
  #server: Server | undefined;
  #port: number;

  constructor(options: SampleNodeOptions<Clock> & { readonly clock: Clock }) {
    this.#options = options;
    this.clock = options.clock;
    this.chainId = options.chainId ?? 1;
    this.mempool = options.mempool ?? new Mempool();
    this.log = new RequestLog(options.keepRequests ?? 100);
    this.#dialect = dialectOf(options.dialect ?? 'node');
    this.#port = options.port ?? 0;
  }

  get port(): number {
    return this.#port;
  }

  /** The base address, `/v1` included and without a slash at its end. */
  get url(): string {
    return `http://${this.#options.host ?? '127.0.0.1'}:${this.#port}${basePath}`;
  }

  /** All requests, probes included. */
  get requests(): number {
    return this.log.count;
  }

  /** Requests besides those for health and ledger information. */
  get reads(): number {
    return this.log.readCount;
  }

  requestsTo(route: SampleRouteName | 'none'): number {
    return this.log.countOf(route);
  }

  /** The one fault of this node, in place of all others; `undefined` heals it. `faults.add` takes limits. */
  set fault(fault: SampleFault | undefined) {
    this.faults.clear();
    if (fault !== undefined) this.faults.add(fault);
  }

  /** The ledger that the node reports now. */
  ledger(lag = 0n): LedgerInfo {
    return { chainId: this.chainId, ...this.clock.read(lag) };
  }

  /** Stops listening and drops all connections: new ones are refused until `accept`. */
  async refuse(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  }

  /** Listens again, on the same port. */
  async accept(): Promise<void> {
    if (this.#server !== undefined) return;
    // Long struct tags do not fit the usual 16 KiB of headers.
    const server = createServer({ maxHeaderSize: 64 * 1024 }, (request, response) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
    // Real nodes keep idle connections; the usual 5 seconds would close them under a client that is about to send.
    server.keepAliveTimeout = 0;
    server.listen(this.#port, this.#options.host ?? '127.0.0.1');
    await once(server, 'listening');
    this.#server = server;
    this.#port = (server.address() as AddressInfo).port;
  }

  /** Ends the node, hanging requests included. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.refuse();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '' } = request;
    // Not `new URL`: it would rewrite the path, and take one that starts with two slashes for a host.
    const [path = '', ...rest] = url.split('?');
    const query = new URLSearchParams(rest.join('?'));
    const routing = routeOf(method, path);
    const route = routing.kind === 'found' ? routing.name : 'none';
    const refusal = lengthRefusal(request);
    // A body that is too large is refused unread, by its announced length.
    const body = refusal === undefined ? await readBody(request) : Buffer.alloc(0);
    const received: ReceivedRequest = { method, url, route, headers: request.headers, body };
    const faults = this.faults.take(received);
    this.log.add(received);
    if (!(await this.#wait(faults))) return;
    const end = findFault(faults, 'hang', 'reset')?.kind;
    if (end === 'reset') request.socket.resetAndDestroy();
    if (end !== undefined) return;
    const own = this.ledger(findFault(faults, 'lag')?.versions);
    const ledger = { ...own, chainId: findFault(faults, 'wrong chain id')?.chainId ?? own.chainId };
    const answer = refusal?.answer ?? (await this.#operate(routing, received, { query, faults, ledger }));
    const { compression = true, headers } = this.#options;
    const signal = this.#closing.signal;
    await writeAnswer(response, answer, {
      request: request.headers,
      ledger,
      further: headers?.(received, ledger) ?? {},
      dialect: this.#dialect,
      faults,
      compression,
      signal,
    });
  }

  /** False if the node was closed meanwhile. */
  async #wait(faults: readonly SampleFault[]): Promise<boolean> {
    const { signal } = this.#closing;
    await Promise.allSettled(faults.flatMap((fault) => (fault.kind === 'hold' ? [fault.until] : [])));
    const { ms = 0 } = findFault(faults, 'latency') ?? {};
    if (ms > 0) await delay(ms, undefined, { signal });
    return !signal.aborted;
  }

  async #operate(
    routing: Routing,
    request: ReceivedRequest,
    context: { readonly query: URLSearchParams; readonly faults: readonly SampleFault[]; readonly ledger: LedgerInfo },
  ): Promise<SampleAnswer> {
    const { query, ledger, faults } = context;
    const replacement = findReplacement(faults, ledger, query.get('ledger_version'));
    if (replacement !== undefined) return replacement;
    try {
      if (routing.kind !== 'found') throw routingError(routing);
      const { params, operation } = routing;
      const { headers, body } = request;
      const { clock, mempool } = this;
      const { signal } = this.#closing;
      const call = new SampleCall({ params, query, headers, body, ledger, clock, mempool, signal });
      return await operation(call);
    } catch (error) {
      if (error instanceof NodeError) return error.answer;
      if (this.#closing.signal.aborted) throw error;
      // A bug of the sample node: the client gets it, as it gets a real node's panic.
      return bareError(500, 'internal_error', String(error)).answer;
    }
  }
}

function routeOf(method: string, path: string): Routing {
  if (path === basePath || path === `${basePath}/`) return findRoute(method, '/');
  return path.startsWith(`${basePath}/`) ? findRoute(method, path.slice(basePath.length)) : { kind: 'unknown path' };
}

function routingError(routing: Exclude<Routing, { kind: 'found' }>): NodeError {
  switch (routing.kind) {
    case 'unknown path':
      return frameworkError(404, 'not found');
    case 'wrong method':
      return frameworkError(405, 'method not allowed');
    case 'bad encoding':
      return frameworkError(400, 'failed to parse path: bad percent-encoding');
  }
}

/** Protocol 2.4: a POST must declare its length, and not too much of it. */
function lengthRefusal(request: IncomingMessage): NodeError | undefined {
  if (request.method !== 'POST') return undefined;
  const length = request.headers['content-length'];
  if (length === undefined) return frameworkError(411, 'missing `Content-Length` header');
  return Number(length) > maxBodyBytes ? frameworkError(413, 'payload too large') : undefined;
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
