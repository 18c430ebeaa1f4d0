/**
 * TLS ahead of the HTTP server, with its certificate, which is reloaded when its files change. Accepted sockets pass a
 * handshake, then ALPN selects the HTTP/1.1 parser or HTTP/2.
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import {
  createServer as createH2Server,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { Socket } from 'node:net';
import {
  createServer as createTlsServer,
  type SecureContextOptions,
  type Server as TlsServer,
  type TLSSocket,
} from 'node:tls';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { type Config, TlsFiles, WatchedFiles } from '../../../config/index.ts';
import { GatewayError } from '../../../ledger/index.ts';
import type { Journal, SharedFiles } from '../../../metrics/index.ts';
import { createTlsMetrics } from '../http-metrics.ts';
import { maxHeaderBytes, mostHeaders } from '../request-faults.ts';
import { bindToCarrier, type ConnectionTimes } from './connection-state.ts';
import { H2Request, H2Response } from './h2-messages.ts';
import { H2Sessions } from './h2-sessions.ts';
import { intercept } from './paced-input.ts';
import type { TurnShares } from './turn-shares.ts';

/** Certificate chain and private key, as PEM text. */
type CertifiedKey = Readonly<Record<'cert' | 'key', string>>;

type InspectedTls = ReturnType<typeof TlsFiles.read>;

/** The section of the config, in messages. */
const section = 'listen.tls';

interface TlsListenerOptions {
  readonly pair: CertifiedKey;
  /** OpenSSL names, best first. */
  readonly ciphers: readonly string[];
  readonly times: ConnectionTimes;
  readonly turns: TurnShares;
  onHandshakeFailed(): void;
}

/** Answers of requests that the HTTP/1.1 server has in another form, or not at all. */
interface H2Handlers {
  readonly connect: RequestListener;
  refuse(request: IncomingMessage, response: ServerResponse, error: GatewayError): void;
}

/** A request over HTTP/2: the arguments of Node's 'stream' event. `raw`: names and values in turn. */
type ReceivedStream = [stream: ServerHttp2Stream, headers: IncomingHttpHeaders, flags: number, raw: readonly string[]];

/** Concurrent streams of one connection: the requests of a web page. */
const mostStreams = 100;
/** Milliseconds until the end of an answer is looked for again, whose client takes it late. */
const unsentMs = 20;
/** Bound of unread answers on one connection, bodies included. */
const mostSessionMegabytes = 64;

/** The TLS server ahead of one HTTP server. */
export class TlsListener {
  readonly sessions: H2Sessions;
  readonly #options: TlsListenerOptions;
  readonly #tls: TlsServer;
  #takeHttp1: (socket: Socket) => void = () => undefined;
  /** Handles each stream within its client's share of a turn. */
  takeStream = (received: ReceivedStream): void => this.passStream(received);
  /** Emits the requests of streams, once `wrap` has set it. */
  #server: Server | undefined;
  #handlers: H2Handlers | undefined;

  /** Throws when certificate and key do not match. */
  constructor(options: TlsListenerOptions) {
    this.#options = options;
    this.sessions = new H2Sessions(options.times, options.turns);
    this.#tls = createTlsServer({
      ...this.#contextOf(options.pair),
      ALPNProtocols: ['h2', 'http/1.1'],
      handshakeTimeout: options.times.headMs,
    });
    this.#tls.on('tlsClientError', (_error, socket) => {
      options.onHandshakeFailed();
      // Node reports a handshake timeout but leaves the socket open.
      socket.destroy();
    });
  }

  /** Replaces the certificate for new connections; open ones continue. */
  setPair(pair: CertifiedKey): void {
    this.#tls.setSecureContext(this.#contextOf(pair));
  }

  /** Every pair sets all options: Node resets omitted ones to their defaults. */
  #contextOf(pair: CertifiedKey): SecureContextOptions {
    return { ...pair, minVersion: 'TLSv1.2', ciphers: this.#options.ciphers.join(':'), honorCipherOrder: true };
  }

  /** Puts TLS ahead of `server`, and HTTP/2 beside it: `server` emits the requests of both. */
  wrap(server: Server, handlers: H2Handlers): Server {
    this.#server = server;
    this.#handlers = handlers;
    const h2 = this.#createH2();
    const raw = new Map<string, Socket>();
    this.#takeHttp1 = intercept(server, (socket) => {
      const name = nameOf(socket);
      raw.set(name, socket);
      socket.once('close', () => raw.delete(name));
      this.#tls.emit('connection', socket);
    });
    this.#tls.on('secureConnection', (socket) => {
      const carrier = raw.get(nameOf(socket));
      if (carrier === undefined) {
        // The client closed its connection during the handshake.
        socket.destroy();
        return;
      }
      bindToCarrier(socket, carrier);
      if (socket.alpnProtocol === 'h2') this.#startSession(h2, socket);
      else this.#takeHttp1(socket);
    });
    return server;
  }

  /** Puts `take` ahead of the HTTP/1.1 server, which the returned function passes a socket to. */
  intercept(take: (socket: Socket) => void): (socket: Socket) => void {
    const passOn = this.#takeHttp1;
    this.#takeHttp1 = take;
    return passOn;
  }

  /** Answers the request of a stream at the end of the turn. `serve`: in place of the HTTP/1.1 server. */
  passStream(received: ReceivedStream, serve?: RequestListener): void {
    const [stream] = received;
    const open = this.sessions.of(stream);
    // A stream that its client has reset by the end of the turn reaches no node.
    if (open === undefined) this.#begin(received, serve);
    else open.defer(stream, serve !== undefined, () => this.#begin(received, serve));
  }

  /** Makes a request of a stream, and passes it on as Node's `onServerStream` (internal/http2/compat) does. */
  #begin([stream, headers, , raw]: ReceivedStream, serve: RequestListener | undefined): void {
    const open = this.sessions.of(stream);
    const h2Request = new H2Request(stream, headers, raw, open?.socket);
    const ofStream = { request: h2Request, response: new H2Response(stream) };
    open?.begin(stream);
    // An empty body may end ahead of the request, which awaits that event (hostile/tls.test.ts).
    if (stream.readableEnded) h2Request.push(null);
    const { request, response } = ofStream as unknown as { request: IncomingMessage; response: ServerResponse };
    if (!stream.endAfterHeaders) this.#bound(stream, request, response);
    if (serve !== undefined) serve(request, response);
    else if (headers[':method'] === 'CONNECT') this.#handlers?.connect(request, response);
    else this.#server?.emit(eventOf(headers.expect), request, response);
  }

  #startSession(h2: Http2Server, socket: TLSSocket): void {
    // The HTTP/1.1 server accepts half-open connections; here no code would close the other half.
    socket.allowHalfOpen = false;
    // Node emits 'session' synchronously.
    h2.once('session', (session) => this.sessions.add(session, socket));
    h2.emit('connection', socket);
  }

  #createH2(): Http2Server {
    const h2 = createH2Server({
      settings: {
        maxConcurrentStreams: mostStreams,
        enablePush: false,
        enableConnectProtocol: false,
        // Above the bound of `faultOfHead`, so that a slightly larger head gets its error answer.
        maxHeaderListSize: 2 * maxHeaderBytes,
      },
      maxHeaderListPairs: 2 * mostHeaders,
      maxSessionMemory: mostSessionMegabytes,
      maxSessionInvalidFrames: 100,
      // Resets of several turns; `OpenSession` notices those of one, which this would see behind all that is read.
      streamResetBurst: 200,
      streamResetRate: 50,
    });
    h2.on('stream', (...received: ReceivedStream) => {
      const open = this.sessions.of(received[0]);
      if (open === undefined) this.takeStream(received);
      else open.take(received[0], () => this.takeStream(received));
    });
    return h2;
  }

  /** Bounds the time of a request's body, and stops reading it once the answer is complete. */
  #bound(stream: ServerHttp2Stream, request: IncomingMessage, response: ServerResponse): void {
    const timer = setTimeout(() => {
      if (request.readableEnded || stream.destroyed || response.headersSent) return;
      const late = new GatewayError('requestTimeout', 'the request did not arrive in time');
      this.#handlers?.refuse(request, response, late);
    }, this.#options.times.requestMs);
    request.once('end', () => clearTimeout(timer));
    stream.once('close', () => clearTimeout(timer));
    // NO_ERROR: the answer is complete and the gateway discards the rest of the request (RFC 9113 8.1). Node sends a reset
    // ahead of what is queued, even of the answer's head, and has no event for its END_STREAM.
    const stop = (): void => {
      if (request.readableEnded || stream.destroyed) return;
      if (stream.state.localClose === 1) stream.close();
      else setTimeout(stop, unsentMs);
    };
    stream.once('finish', () => {
      request.resume();
      setImmediate(stop);
    });
  }
}

/** The event of Node's server for a request with this `Expect`. */
function eventOf(expect: string | undefined): string {
  if (expect === undefined) return 'request';
  return expect === '100-continue' ? 'checkContinue' : 'checkExpectation';
}

/** Unique among open connections. */
function nameOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`;
}

interface EncryptionContext {
  readonly turns: TurnShares;
  readonly log: Logger;
  readonly journal: Journal;
  readonly registry: Registry;
  readonly times: ConnectionTimes;
}

/**
 * Throws when the files or ciphers are invalid. `shared`: contents that the other processes serve are used where those of
 * the files must not replace them.
 */
export function createEncryption(
  config: NonNullable<Config['listen']['tls']>,
  { log, journal, times, turns, registry }: EncryptionContext,
  shared: SharedFiles | undefined,
) {
  const files = new WatchedFiles([config.cert, config.key]);
  const { used, refusal } = TlsFiles.open(config, shared, Date.now(), section);
  let pair = pairOf(used);
  let { expiries } = used;
  const expiresMs = (): number => expiries.get('cert') ?? NaN;
  /** The last logged reason of a refusal, logged once. */
  let refused: string | undefined;
  const metrics = createTlsMetrics(registry, expiresMs);
  const listener = new TlsListener({
    pair,
    ciphers: config.ciphers,
    times,
    turns,
    onHandshakeFailed: () => metrics.handshakeFailed(),
  });
  if (refusal === undefined) shared?.keep(config, pair);
  else refuse(refusal);
  files.watch({ onChange: look, onMissing: look });
  return {
    listener,
    /** Expiry of the certificate in use, Unix time in ms. */
    expiresMs,
    /** Why the files, as they are now, are not in use; `undefined`: they are. */
    refused: () => refused,
    close: () => files.close(),
  };

  function look(): void {
    const nowMs = Date.now();
    const next = TlsFiles.read(config, nowMs, section);
    const why = TlsFiles.refusalOf(next, expiries, nowMs, section);
    const { cert, key } = pairOf(next);
    if (next.material !== undefined && cert === pair.cert && key === pair.key) refused = undefined;
    else if (why !== undefined) refuse(why);
    else take(next);
  }

  function take(next: InspectedTls): void {
    pair = pairOf(next);
    ({ expiries } = next);
    refused = undefined;
    listener.setPair(pair);
    shared?.keep(config, pair);
    metrics.reloaded('ok');
    const expires = new Date(expiresMs()).toISOString();
    journal.record('certificate', { expires }, 'certificate reloaded: new connections use it');
    for (const warning of next.warnings) log.warn(warning);
  }

  function refuse(why: string): void {
    if (why === refused) return;
    refused = why;
    metrics.reloaded('failed');
    journal.record('certificate refused', { why }, 'certificate files refused: the certificate in use stays');
  }
}

function pairOf({ texts: { cert = '', key = '' } }: InspectedTls): CertifiedKey {
  return { cert, key };
}
