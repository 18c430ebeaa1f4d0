/**
 * Answers hits over HTTP/2 on their streams, without Node's compatibility classes: with those, a hit of 400 B takes 1.9
 * times the processor time (63 against 34 µs, interleaved runs of h2load). Every other stream becomes a request of those
 * classes, together with the decision on its key and limits if that is made.
 */
import type { RequestListener } from 'node:http';
import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import type { AdmittedRequest } from '../../../access/index.ts';
import type { FastPathMetrics } from '../http-metrics.ts';
import { answerDecided, type ServerParts } from '../serve.ts';
import type { OpenSession } from '../server/h2-sessions.ts';
import type { TlsListener } from '../server/tls-server.ts';
import type { CachedTarget, PreparedHead, SharedHead } from '../target-cache.ts';
import { pieceBytes } from '../unsent-answers.ts';
import { type HitRequest, type HitWriter, largestCopied, PreparedHits, type SharedHeads } from './prepared-hits.ts';
import type { HeaderBlock, HeaderBlocks } from './request-head.ts';

/** A stream whose request is complete. */
interface StreamSink {
  readonly socket: Socket;
  readonly stream: ServerHttp2Stream;
}

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

/** The streams of one TLS listener. */
export class FastStreams {
  readonly #proxy: ServerParts;
  readonly #tls: TlsListener;
  readonly #metrics: FastPathMetrics;
  readonly #blocks: HeaderBlocks;
  readonly #hits: PreparedHits<StreamSink>;
  /** One look-up per request: with many sessions, each costs a cache miss. */
  readonly #known = new WeakMap<ServerHttp2Session, KnownSession>();

  /** Takes the streams of `tls`, ahead of the requests that it makes of them. */
  constructor(
    tls: TlsListener,
    {
      proxy,
      metrics,
      blocks,
    }: { readonly proxy: ServerParts; readonly metrics: FastPathMetrics; readonly blocks: HeaderBlocks },
    sharedHeads: SharedHeads,
  ) {
    this.#proxy = proxy;
    this.#tls = tls;
    this.#metrics = metrics;
    this.#blocks = blocks;
    this.#hits = new PreparedHits(proxy, new HitStream(proxy.memory), sharedHeads);
    tls.sessions.onUnsent = (stream) => trackUnsent(proxy, stream);
    tls.takeStream = (received) => {
      const [stream, , , raw] = received;
      const serve = this.#take(stream, raw);
      if (serve !== 'answered') tls.passStream(received, serve);
    };
  }

  /** The answer, or the way to it: `undefined` leaves the whole request to the listener. */
  #take(stream: ServerHttp2Stream, raw: readonly string[]): 'answered' | RequestListener | undefined {
    const candidate = this.#find(stream, raw);
    if (candidate === undefined) return undefined;
    const proxy = this.#proxy;
    if (proxy.access === undefined) return this.#answer(candidate) ? 'answered' : undefined;
    // By its key or address and its limits, as in `handle`.
    const { path, block, target, socket } = candidate;
    const head = { method: 'GET', url: path, headers: block.headers, socket, httpVersion: '2.0', httpVersionMajor: 2 };
    const decision = proxy.access.decide(head, target, block.known);
    if (typeof decision === 'object' && this.#answer(candidate, decision)) return 'answered';
    return (request, response) => answerDecided(proxy, { request, response }, target, decision);
  }

  #find(stream: ServerHttp2Stream, raw: readonly string[]): Candidate | undefined {
    const { session } = stream;
    if (session === undefined || !stream.endAfterHeaders || stream.closed || stream.destroyed) return undefined;
    const known = this.#knownOf(stream, session as ServerHttp2Session, raw);
    if (known === undefined || known.open.state.isRefused) return undefined;
    const { open, fields } = known;
    const { block } = fields;
    const path = raw[fields.pathAt] ?? '';
    // Names of requests with a body have no leading slash.
    const target = path.startsWith('/') ? this.#proxy.targets.find(path, block.form) : undefined;
    return target === undefined ? undefined : { stream, open, socket: open.socket, path, block, target };
  }

  #knownOf(stream: ServerHttp2Stream, session: ServerHttp2Session, raw: readonly string[]): KnownSession | undefined {
    const known = this.#known.get(session);
    if (known?.fields.matches(raw) === true) return known;
    const open = known?.open ?? this.#tls.sessions.of(stream);
    const fields = KnownFields.read(raw, this.#blocks);
    if (open === undefined || fields === undefined) return undefined;
    const read = { open, fields };
    this.#known.set(session, read);
    return read;
  }

  #answer(candidate: Candidate, admitted?: AdmittedRequest): boolean {
    if (!this.#hits.answer(candidate.block, candidate.target, candidate, admitted)) return false;
    candidate.open.answer(candidate.stream);
    this.#metrics.known.inc();
    return true;
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

/** Answers that the HTTP/2 layer sends without a body, whatever the head says (RFC 9110 15). */
const bodiless: ReadonlySet<number> = new Set([204, 205, 304]);
/** Fields of a head that this writer leaves to the compatibility layer. */
const unsupported: readonly string[] = [];
const noFields: readonly string[] = [];

/** Writes hits to streams, with the fields and the order of the compatibility layer. */
class HitStream implements HitWriter<StreamSink> {
  readonly takesVariants = false;
  readonly #memory: ServerParts['memory'];
  #ledger: readonly string[] = noFields;
  #ledgerFields: readonly string[] = noFields;

  constructor(memory: ServerParts['memory']) {
    this.#memory = memory;
  }

  write(prepared: PreparedHead, { connection: { stream }, view, admitted }: HitRequest<StreamSink>): boolean {
    const fields = (prepared.fields ??= this.#fieldsOf(prepared));
    const live = this.#liveOf(view.headers);
    if (fields === unsupported || live === unsupported) return false;
    const body = this.#bodyOf(prepared);
    if (body === undefined) return false;
    // A client's reset would otherwise be an uncaught exception; 'close' follows it.
    stream.on('error', ignore);
    // Node adds the date behind these, as for the compatibility layer.
    stream.respond(fields.concat(admitted?.headers ?? noFields, live));
    stream.end(body);
    return true;
  }

  /** Bytes that stay as they are until they are sent; `undefined`: memory has dropped the coding, or too long. */
  #bodyOf(prepared: PreparedHead): Buffer | undefined {
    const { sentBytes } = prepared;
    const { coding } = prepared.shared;
    if (sentBytes > pieceBytes) return undefined;
    if (coding !== undefined) return this.#memory.codedOf(prepared)[coding];
    const { bytes, from, to } = this.#memory.bodyOf(prepared);
    if (sentBytes > largestCopied) return bytes.subarray(from, to);
    const copy = Buffer.allocUnsafe(sentBytes);
    bytes.copy(copy, 0, from, to);
    return copy;
  }

  #fieldsOf({ shared, own }: PreparedHead): readonly string[] {
    if (bodiless.has(shared.status)) return unsupported;
    const fields = [...(shared.fields ??= sharedFields(shared)), ...fieldsOf(own.split('\r\n'))];
    return areSendable(fields.slice(2)) ? fields : unsupported;
  }

  #liveOf(ledger: readonly string[]): readonly string[] {
    if (ledger !== this.#ledger) {
      this.#ledger = ledger;
      const fields = ledger.map((text, at) => (at % 2 === 0 ? lowerName(text) : text));
      this.#ledgerFields = areSendable(fields) ? fields : unsupported;
    }
    return this.#ledgerFields;
  }
}

function sharedFields({ status, bytes }: SharedHead): readonly string[] {
  const [, ...lines] = bytes.toString('latin1').split('\r\n');
  return [':status', String(status), ...fieldsOf(lines)];
}

/** Names and values of header lines; the last line is empty. */
function fieldsOf(lines: readonly string[]): string[] {
  const fields: string[] = [];
  for (const line of lines) {
    if (line === '') continue;
    const end = line.indexOf(': ');
    fields.push(lowerName(line.slice(0, end)), line.slice(end + 2));
  }
  return fields;
}

/**
 * Whether Node sends all of these fields as they are. The compatibility layer groups repeated names, and drops fields of
 * a connection (RFC 9113 8.2.2).
 */
function areSendable(fields: readonly string[]): boolean {
  const names = fields.filter((_, at) => at % 2 === 0);
  return new Set(names).size === names.length && names.every((name) => token.test(name) && !ofConnection.has(name));
}

const token = /^[!#$%&'*+.^`|~\w-]+$/;
const ofConnection: ReadonlySet<string> = new Set(
  'connection upgrade http2-settings keep-alive proxy-connection transfer-encoding te'.split(' '),
);

/** Interned: the names of all heads are a few dozen. */
function lowerName(name: string): string {
  const known = lowerNames.get(name);
  if (known !== undefined) return known;
  if (lowerNames.size >= mostNames) lowerNames.clear();
  const lower = name.toLowerCase();
  lowerNames.set(name, lower);
  return lower;
}

const lowerNames = new Map<string, string>();
const mostNames = 256;

function ignore(): void {
  // The stream closes, and its session counts it.
}

/** Fields beside `:path` are in a cache; a longer text is unsupported there. */
const mostFields = 2 * 64;

/** The fields of a `GET` but for its target. */
export class KnownFields {
  readonly block: HeaderBlock;
  /** Index of the target in the raw fields. */
  readonly pathAt: number;
  readonly #raw: readonly string[];

  private constructor(block: HeaderBlock, pathAt: number, raw: readonly string[]) {
    this.block = block;
    this.pathAt = pathAt;
    this.#raw = raw;
  }

  /** `undefined`: unsupported. `raw`: names and values in turn; names are lower case (RFC 9113 8.2). */
  static read(raw: readonly string[], blocks: HeaderBlocks): KnownFields | undefined {
    if (raw.length > mostFields) return undefined;
    let lines = '';
    let method: string | undefined;
    let authority: string | undefined;
    let pathAt = 0;
    for (let at = 0; at + 1 < raw.length; at += 2) {
      const name = raw[at] as string;
      const value = raw[at + 1] as string;
      if (name === ':method') method = value;
      else if (name === ':path') pathAt = at + 1;
      else if (name === ':authority') authority = value;
      else if (name !== ':scheme') {
        // Neither may end a line; `blocks` checks everything else.
        if (lineEnd.test(name) || lineEnd.test(value)) return undefined;
        lines += `${name}: ${value}\r\n`;
      }
    }
    // Other methods, and requests that name their host by `Host` alone, are rare.
    if (method !== 'GET' || pathAt === 0 || authority === undefined || lineEnd.test(authority)) return undefined;
    const block = blocks.find(`${lines}host: ${authority}`);
    if (block === undefined || !block.isKept) return undefined;
    return new KnownFields(block, pathAt, raw.with(pathAt, ''));
  }

  /** Whether `raw` differs from these fields in its target alone. */
  matches(raw: readonly string[]): boolean {
    const known = this.#raw;
    if (raw.length !== known.length) return false;
    for (let at = 0; at < raw.length; at += 1) {
      if (raw[at] !== known[at] && at !== this.pathAt) return false;
    }
    return true;
  }
}

const lineEnd = /[\r\n]/;
