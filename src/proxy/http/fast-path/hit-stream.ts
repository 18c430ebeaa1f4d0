/** Writes prepared hits on HTTP/2 streams, without Node's compatibility classes. */
import type { ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import { pieceBytes } from '../unsent-answers.ts';
import type { ServerParts } from '../service.ts';
import type { PreparedHead, SharedHead } from '../target-cache.ts';
import { largestCopied } from './hit-text.ts';
import type { HitRequest, HitWriter } from './prepared-hits.ts';

/** A stream whose request is complete, and the socket of its session. */
export interface StreamSink {
  readonly socket: Socket;
  readonly stream: ServerHttp2Stream;
}

/** Answers that the HTTP/2 layer sends without a body, whatever the head says (RFC 9110 15). */
const bodiless: ReadonlySet<number> = new Set([204, 205, 304]);
/** Fields of a head that this writer leaves to the compatibility layer. */
const unsupported: readonly string[] = [];
const noFields: readonly string[] = [];

/** Writes hits to streams, with the fields and the order of the compatibility layer. */
export class HitStream implements HitWriter<StreamSink> {
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
