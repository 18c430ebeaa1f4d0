/**
 * Answers hits over HTTP/2 on their streams. The compatibility layer gets every other stream, together with the decision
 * on its key and limits if that is made.
 */
import type { RequestListener } from 'node:http';
import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import type { Access, AdmittedRequest } from '../../../access/index.ts';
import { answer, refuse } from '../serve.ts';
import type { FastPathMetrics } from '../request-metrics.ts';
import type { ServerParts } from '../service.ts';
import type { CachedTarget } from '../target-cache.ts';
import type { OpenSession } from '../server/h2-sessions.ts';
import type { TakeStream, TlsListener } from '../server/tls-server.ts';
import type { StreamSink } from './hit-stream.ts';
import type { PreparedHits } from './prepared-hits.ts';
import type { HeaderBlock, HeaderBlocks } from './request-head.ts';
import { KnownFields } from './request-fields.ts';

/** Parts shared by all streams. */
export interface FastStreamsParts {
  readonly proxy: ServerParts;
  readonly tls: TlsListener;
  readonly metrics: FastPathMetrics;
  readonly blocks: HeaderBlocks;
  readonly hits: PreparedHits<StreamSink>;
}

/** One stream that may be a hit. */
interface Candidate extends StreamSink {
  readonly open: OpenSession;
  readonly path: string;
  readonly block: HeaderBlock;
  readonly target: CachedTarget;
}

/** An open session, and the fields of its last supported request. */
interface KnownSession {
  readonly open: OpenSession;
  readonly fields: KnownFields;
}

/** Handles a request in the compatibility layer, in place of the listener. */
type Serve = RequestListener;

/** The streams of one TLS listener. */
export class FastStreams {
  readonly #parts: FastStreamsParts;
  /** One look-up per request: with many sessions, each costs a cache miss. */
  readonly #known = new WeakMap<ServerHttp2Session, KnownSession>();

  constructor(parts: FastStreamsParts) {
    this.#parts = parts;
  }

  /** Puts itself ahead of the compatibility layer. */
  intercept(): void {
    const { tls, proxy } = this.#parts;
    tls.sessions.onUnsent = (stream) => trackUnsent(proxy, stream);
    const take: TakeStream = (stream, headers, flags, raw) => {
      const serve = this.#take(stream, raw);
      if (serve !== 'answered') passOn([stream, headers, flags, raw], serve);
    };
    const passOn = tls.interceptStreams(take);
  }

  /** The answer, or the way to it: `undefined` leaves the whole request to the listener. */
  #take(stream: ServerHttp2Stream, raw: readonly string[]): 'answered' | Serve | undefined {
    const candidate = this.#find(stream, raw);
    if (candidate === undefined) return undefined;
    const { access } = this.#parts.proxy;
    if (access !== undefined) return this.#admit(candidate, access);
    return this.#answer(candidate) ? 'answered' : undefined;
  }

  #find(stream: ServerHttp2Stream, raw: readonly string[]): Candidate | undefined {
    const { session } = stream;
    if (session === undefined || !stream.endAfterHeaders || stream.closed || stream.destroyed) return undefined;
    const known = this.#knownOf(session as ServerHttp2Session, raw);
    if (known === undefined || known.open.state.isRefused) return undefined;
    const { open, fields } = known;
    const { block } = fields;
    const path = raw[fields.pathAt] ?? '';
    // Names of requests with a body have no leading slash.
    const target = path.startsWith('/') ? this.#parts.proxy.targets.find(path, block.form) : undefined;
    return target === undefined ? undefined : { stream, open, socket: open.socket, path, block, target };
  }

  #knownOf(session: ServerHttp2Session, raw: readonly string[]): KnownSession | undefined {
    const known = this.#known.get(session);
    if (known?.fields.matches(raw) === true) return known;
    const { tls, blocks } = this.#parts;
    const open = known?.open ?? tls.sessions.find(session);
    const fields = KnownFields.read(raw, blocks);
    if (open === undefined || fields === undefined) return undefined;
    const read = { open, fields };
    this.#known.set(session, read);
    return read;
  }

  #answer(candidate: Candidate, admitted?: AdmittedRequest): boolean {
    const { hits, metrics, tls } = this.#parts;
    if (!hits.answer(candidate.block, candidate.target, candidate, admitted)) return false;
    tls.sessions.answer(candidate.stream, candidate.open);
    metrics.known.inc();
    return true;
  }

  /** Answers a request by its key or address and its limits, as `handle` does. */
  #admit(candidate: Candidate, access: Access): 'answered' | Serve {
    const { proxy } = this.#parts;
    const { path, block, target, socket } = candidate;
    const head = { method: 'GET', url: path, headers: block.headers, socket, httpVersion: '2.0', httpVersionMajor: 2 };
    const decision = access.decide(head, target, block.known);
    const isAdmitted = typeof decision === 'object';
    if (isAdmitted && this.#answer(candidate, decision)) return 'answered';
    return (request, response) => {
      const serve = (admitted: AdmittedRequest | undefined): void =>
        answer(proxy, { request, response, admitted }, target);
      if (isAdmitted) serve(decision);
      else decision(response, { serve, refuse: (error) => refuse(proxy, { request, response }, error) });
    };
  }
}

/** Counts the bytes of an answer that its client has not read, as for the compatibility layer. */
function trackUnsent({ unsent }: ServerParts, stream: ServerHttp2Stream): void {
  if (stream.writableLength === 0) return;
  const recipient = {
    get destroyed() {
      return stream.destroyed || stream.closed;
    },
    destroy: () => stream.close(internalError),
    once: (event: 'close' | 'drain', listener: () => void) => stream.once(event, listener),
  };
  unsent.trackShort(recipient, stream.writableLength);
}

/** INTERNAL_ERROR (RFC 9113 7). */
const internalError = 2;
