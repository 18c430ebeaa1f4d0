/**
 * TLS in front of the HTTP server: it listens as ever, but what it accepts goes through a handshake first, and from
 * there to its own parser or to HTTP/2, as was agreed on (ALPN).
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { createServer as createH2Server, type Http2Server } from 'node:http2';
import type { Socket } from 'node:net';
import {
  createServer as createTlsServer,
  type SecureContextOptions,
  type Server as TlsServer,
  type TLSSocket,
} from 'node:tls';
import { GatewayError } from '../../../ledger/errors.ts';
import { bindToCarrier } from './connection-state.ts';
import { H2Request, H2Response } from './h2-messages.ts';
import { H2Sessions, type SessionTimes } from './h2-sessions.ts';
import { mostHeaders } from '../request-faults.ts';

/** PEM texts. */
export interface CertifiedKey {
  readonly cert: string;
  readonly key: string;
}

/** Options of a TLS listener. */
export interface TlsListenerOptions {
  readonly pair: CertifiedKey;
  /** Names of OpenSSL, best first. */
  readonly ciphers: readonly string[];
  readonly times: SessionTimes & { readonly requestMs: number };
  onHandshakeFailed(): void;
}

/** The listener's functions for each kind of request. */
export interface H2Handlers {
  readonly request: RequestListener;
  /** A request that expects `100 Continue` before it sends its body. */
  readonly expecting: RequestListener;
  readonly connect: RequestListener;
  /** A request that expects anything else. */
  readonly expectation: RequestListener;
  refuse(request: IncomingMessage, response: ServerResponse, error: GatewayError): void;
  /** Bound of all headers of a request, in bytes. */
  readonly maxHeaderBytes: number;
}

/** Streams that a client may have under way on a connection: a page's worth. */
const mostStreams = 100;
/** Bound of answers on a connection that its client has not taken, bodies included. */
const mostSessionMegabytes = 64;

/** The TLS server ahead of one HTTP server. */
export class TlsListener {
  readonly sessions: H2Sessions;
  readonly #options: TlsListenerOptions;
  readonly #tls: TlsServer;

  /** Throws when the pair is not one. */
  constructor(options: TlsListenerOptions) {
    this.#options = options;
    this.sessions = new H2Sessions(options.times);
    this.#tls = createTlsServer({
      ...this.#contextOf(options.pair),
      ALPNProtocols: ['h2', 'http/1.1'],
      handshakeTimeout: options.times.headMs,
    });
    this.#tls.on('tlsClientError', (_error, socket) => {
      options.onHandshakeFailed();
      // Node tells of a handshake that takes too long, and leaves it open.
      socket.destroy();
    });
  }

  /** New connections are shown this one from now on; those that are open go on. */
  setPair(pair: CertifiedKey): void {
    this.#tls.setSecureContext(this.#contextOf(pair));
  }

  /** All of it is set with each pair: an option that is left out falls back to its default. */
  #contextOf(pair: CertifiedKey): SecureContextOptions {
    return { ...pair, minVersion: 'TLSv1.2', ciphers: this.#options.ciphers.join(':'), honorCipherOrder: true };
  }

  /** Puts TLS before `server`, and HTTP/2 beside it. */
  wrap(server: Server, handlers: H2Handlers): Server {
    const h2 = this.#createH2(handlers);
    const plain = server.listeners('connection') as ((this: Server, socket: Socket) => void)[];
    server.removeAllListeners('connection');
    const raw = new Map<string, Socket>();
    server.on('connection', (socket: Socket) => {
      const name = nameOf(socket);
      raw.set(name, socket);
      socket.once('close', () => raw.delete(name));
      this.#tls.emit('connection', socket);
    });
    this.#tls.on('secureConnection', (socket) => {
      const carrier = raw.get(nameOf(socket));
      if (carrier === undefined) {
        // It has gone already.
        socket.destroy();
        return;
      }
      bindToCarrier(socket, carrier);
      if (socket.alpnProtocol === 'h2') this.#startSession(h2, socket);
      else for (const listener of plain) listener.call(server, socket);
    });
    return server;
  }

  #startSession(h2: Http2Server, socket: TLSSocket): void {
    // The server of HTTP/1.1 accepts connections that may stay half open; here nobody would close the other half.
    socket.allowHalfOpen = false;
    // It is made, and told of, before this returns.
    h2.once('session', (session) => this.sessions.add(session, socket));
    h2.emit('connection', socket);
  }

  #createH2(handlers: H2Handlers): Http2Server {
    const h2 = createH2Server({
      Http2ServerRequest: H2Request as never,
      Http2ServerResponse: H2Response as never,
      settings: {
        maxConcurrentStreams: mostStreams,
        enablePush: false,
        enableConnectProtocol: false,
        // Above what is served, so that what is not much too large is told so.
        maxHeaderListSize: 2 * handlers.maxHeaderBytes,
      },
      maxHeaderListPairs: 2 * mostHeaders,
      maxSessionMemory: mostSessionMegabytes,
      maxSessionInvalidFrames: 100,
      // A client that resets requests as fast as it sends them (CVE-2023-44487) loses the connection.
      streamResetBurst: 200,
      streamResetRate: 50,
    });
    const take =
      (serve: RequestListener) =>
      (request: H2Request, response: H2Response): void => {
        this.sessions.begin(request.stream);
        this.#bound(request, response, handlers);
        serve(request as unknown as IncomingMessage, response as unknown as ServerResponse);
      };
    h2.on('request', take(handlers.request));
    h2.on('checkContinue', take(handlers.expecting));
    h2.on('connect', take(handlers.connect) as never);
    h2.on('checkExpectation', take(handlers.expectation));
    return h2;
  }

  /** A request has as long to come as over HTTP/1.1, and what nobody waits for any more is not read to its end. */
  #bound(request: H2Request, response: H2Response, handlers: H2Handlers): void {
    const { stream } = request;
    if (stream.endAfterHeaders) return;
    const timer = setTimeout(() => {
      if (request.readableEnded || stream.destroyed) return;
      if (response.headersSent) stream.close();
      else {
        const late = new GatewayError('requestTimeout', 'the request did not arrive in time');
        handlers.refuse(request as unknown as IncomingMessage, response as unknown as ServerResponse, late);
      }
    }, this.#options.times.requestMs);
    request.once('end', () => clearTimeout(timer));
    stream.once('close', () => clearTimeout(timer));
    // NO_ERROR: the answer is whole, and the rest of the request is not wanted (RFC 9113 8.1).
    stream.once('finish', () => {
      if (!request.readableEnded && !stream.destroyed) stream.close();
    });
  }
}

/** No two open connections have the same. */
function nameOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`;
}
