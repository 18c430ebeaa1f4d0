/** Writes prepared hits over HTTP/1.1, head and body into one arena where the body is short. */
import { pieceBytes } from '../unsent-answers.ts';
import type { PreparedHead } from '../../routes/target-cache.ts';
import type { ServerParts } from '../../routes/server-parts.ts';
import type { Arenas } from './arena.ts';
import { CorsLines } from './cors-lines.ts';
import { fieldLines, type LiveHeaders } from './head-text.ts';
import type { HitRequest, HitWriter } from './prepared-hits.ts';
import type { AnswerSink } from './response.ts';

/** Larger bodies lie in buffers of their own, and are written beside the head. */
export const largestCopied = 16 * 1024;

/** Writes hits to connections of the fast path. */
export class HitText implements HitWriter<AnswerSink> {
  readonly takesVariants = true;
  readonly #memory: ServerParts['memory'];
  readonly #live: LiveHeaders;
  readonly #arenas: Arenas;
  readonly #corsLines: CorsLines;

  constructor({ memory, cors }: Pick<ServerParts, 'memory' | 'cors'>, live: LiveHeaders, arenas: Arenas) {
    this.#memory = memory;
    this.#live = live;
    this.#arenas = arenas;
    this.#corsLines = new CorsLines(cors);
  }

  write(prepared: PreparedHead, request: HitRequest<AnswerSink>): boolean {
    const { connection, isKept, nowMs, view, isHead } = request;
    const { coding, common, own, sentBytes } = prepared;
    const further = this.#furtherLines(prepared, request);
    const live =
      further === '' ? this.#live.bytes(view.headers, isKept, nowMs) : this.#live.ledgerBytes(view.headers, nowMs);
    const end = further === '' ? '' : further + this.#live.endOfHead(isKept);
    const body = this.#memory.bodyOf(prepared);
    const coded = coding === undefined ? undefined : this.#memory.codedOf(prepared)[coding];
    if (coding !== undefined && coded === undefined) return false;
    // `Exchange` counts long bodies, and sends them at the client's pace.
    if (sentBytes > pieceBytes) return false;
    const hasBody = !isHead && sentBytes > 0;
    const beside = coded ?? (sentBytes > largestCopied ? body.bytes.subarray(body.from, body.to) : undefined);
    const whole = hasBody ? beside : undefined;
    const copied = hasBody && whole === undefined ? sentBytes : 0;
    const arena = this.#arenas.withRoom(common.length + own.length + live.length + end.length + copied);
    const { bytes, used: from } = arena;
    let to = from + common.copy(bytes, from);
    to += bytes.write(own, to, 'latin1');
    to += live.copy(bytes, to);
    if (end !== '') to += bytes.write(end, to, 'latin1');
    if (copied > 0) to += body.bytes.copy(bytes, to, body.from, body.to);
    arena.used = to;
    connection.sendFrom(arena, from);
    if (whole !== undefined) connection.sendBehind(whole);
    if (!isKept) connection.finish();
    return true;
  }

  /** Lines of limits and CORS behind the ledger headers. */
  #furtherLines({ exposed }: PreparedHead, { admitted, origin, view }: HitRequest<AnswerSink>): string {
    const limits = admitted === undefined || admitted.headers.length === 0 ? '' : fieldLines(admitted.headers);
    return origin === undefined ? limits : limits + this.#corsLines.of(origin, exposed, view.headers);
  }
}
