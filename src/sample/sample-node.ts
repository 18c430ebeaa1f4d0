/**
 * A ledger node on recorded data: a small real HTTP server that answers as a full node does, with a ledger that moves
 * by a clock. `ledgergate sample` serves a fleet of these; tests use them, with faults, as their nodes.
 */
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { Dialect, type LedgerInfo } from '../ledger/index.ts';
import type { SampleAnswer } from './answer.ts';
import { SampleCall } from './call.ts';
import { advancingClock, type LedgerClock } from './ledger-clock.ts';
import { Mempool } from './mempool.ts';
import { bareError, frameworkError, NodeError } from './node-error.ts';
import { findRoute, type SampleRoute, type SampleRouteName } from './routes.ts';

/** Clock, chain, dialect and address of a node. */
export interface SampleNodeOptions<Clock extends LedgerClock = LedgerClock> {
  readonly clock: Clock;
  /** Default 1, the chain of most recorded signing messages. */
  readonly chainId?: number;
  /** Header names. Default `node`. */
  readonly dialect?: Dialect['name'];
  readonly host?: string;
  /** Default 0: a free port. */
  readonly port?: number;
  /** Shared by the nodes of a ledger. Default: its own, where a transaction is pending for half a second. */
  readonly mempool?: Mempool;
}

/** A request as the node received it. */
export interface ReceivedRequest {
  readonly method: string;
  /** The request target, base path and query included, as it stood on the request line. */
  readonly url: string;
  readonly route: SampleRouteName | 'none';
  readonly headers: IncomingHttpHeaders;
  /** Its beginning, at most 64 KiB of it. */
  readonly body: Buffer;
}

/** The differences of an answer from that of a healthy node. */
export interface AnswerChange {
  /** The ledger that is read and reported. Default: the node's. */
  readonly ledger?: LedgerInfo;
  /** An answer in place of the node's own. */
  readonly answer?: SampleAnswer | undefined;
  /** Headers beside the ledger headers; `undefined`: neither these nor those. Default: the ledger headers alone. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Whether clients that take gzip get it, as of real nodes. Default true. */
  readonly isCompressed?: boolean;
  /** Writes the body. Default: whole, at once. */
  readonly writeBody?: (response: ServerResponse, body: Uint8Array) => void | Promise<void>;
}

/** Starts a node; resolves when it listens. Default: on an advancing clock. */
export async function createSampleNode(options: Partial<SampleNodeOptions> = {}): Promise<SampleNode> {
  const node = new SampleNode({ clock: advancingClock(), ...options });
  await node.accept();
  return node;
}

/** Real nodes refuse larger bodies by their declared length (protocol 2.4). */
const maxBodyBytes = 8 * 1024 * 1024;

/** Every path of the interface is below it. */
const basePath = '/v1';

/** A running node. Clock and mempool may change while it runs. */
export class SampleNode<Clock extends LedgerClock = LedgerClock> {
  readonly clock: Clock;
  readonly chainId: number;
  readonly mempool: Mempool;
  readonly #options: SampleNodeOptions<Clock>;
  readonly #dialect: Dialect;
  readonly #closing = new AbortController();
  #server: Server | undefined;
  #port: number;

  constructor(options: SampleNodeOptions<Clock>) {
    this.#options = options;
    this.clock = options.clock;
    this.chainId = options.chainId ?? 1;
    this.mempool = options.mempool ?? new Mempool();
    this.#dialect = new Dialect(options.dialect ?? 'node');
    this.#port = options.port ?? 0;
  }

  get port(): number {
    return this.#port;
  }

  /** The base address, `/v1` included and without a slash at its end. */
  get url(): string {
    return `http://${this.#options.host ?? '127.0.0.1'}:${this.#port}${basePath}`;
  }

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
    const found = routeOf(method, path);
    const route = found instanceof NodeError ? 'none' : found.name;
    const refusal = lengthRefusal(request);
    // A body that is too large is refused unread, by its announced length.
    const body = refusal === undefined ? await readBody(request) : Buffer.alloc(0);
    const received: ReceivedRequest = { method, url, route, headers: request.headers, body };
    const change = await this.change(received, request);
    if (change === undefined) return;
    const { ledger = this.ledger() } = change;
    const own = async (): Promise<SampleAnswer> =>
      found instanceof NodeError ? found.answer : this.#operate(found, received, { query, ledger });
    const answer = refusal?.answer ?? change.answer ?? (await own());
    await writeAnswer(response, answer, { ...change, ledger, dialect: this.#dialect, request: request.headers });
  }

  /** The differences of the answer to this request; `undefined`: it gets none. Subclasses override it. */
  protected change(_received: ReceivedRequest, _request: IncomingMessage): Promise<AnswerChange | undefined> {
    return Promise.resolve({});
  }

  protected get closing(): AbortSignal {
    return this.#closing.signal;
  }

  async #operate(
    { params, operation }: SampleRoute,
    { headers, body }: ReceivedRequest,
    { query, ledger }: { readonly query: URLSearchParams; readonly ledger: LedgerInfo },
  ): Promise<SampleAnswer> {
    const { clock, mempool } = this;
    const { signal } = this.#closing;
    try {
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

function routeOf(method: string, path: string): SampleRoute | NodeError {
  if (path === basePath || path === `${basePath}/`) return findRoute(method, '/');
  return path.startsWith(`${basePath}/`)
    ? findRoute(method, path.slice(basePath.length))
    : frameworkError(404, 'not found');
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

interface WriteOptions extends AnswerChange {
  readonly request: IncomingHttpHeaders;
  readonly ledger: LedgerInfo;
  readonly dialect: Dialect;
}

async function writeAnswer(response: ServerResponse, answer: SampleAnswer, options: WriteOptions): Promise<void> {
  const { request, ledger, dialect, isCompressed = true, writeBody } = options;
  const isCoded = answer.headers?.['content-encoding'] !== undefined;
  const gzip = isCompressed && !isCoded && /\bgzip\b/i.test(request['accept-encoding'] ?? '');
  const plain = typeof answer.body === 'string' ? Buffer.from(answer.body) : answer.body;
  const body = gzip ? gzipSync(plain) : plain;
  const headers = ['Content-Type', answer.contentType, 'Content-Length', String(body.length)];
  if (gzip) headers.push('Content-Encoding', 'gzip');
  const further = 'headers' in options ? options.headers : {};
  if (answer.ledgerHeaders && further !== undefined)
    headers.push(...dialect.list(ledger), ...Object.entries(further).flat());
  if (answer.gasUsed !== undefined) headers.push(dialect.gasUsed, String(answer.gasUsed));
  if (answer.cursor !== undefined) headers.push(dialect.cursor, answer.cursor);
  for (const [name, value] of Object.entries(answer.headers ?? {})) headers.push(name, value);
  response.writeHead(answer.status, headers);
  if (writeBody === undefined) response.end(body);
  else await writeBody(response, body);
}
