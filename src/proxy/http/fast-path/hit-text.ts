/** Writes prepared hits over HTTP/1.1, head and body into one arena where the body is short. */
import { pieceBytes } from '../unsent-answers.ts';
import type { PreparedHead } from '../../routes/target-cache.ts';
import type { ServerParts } from '../../routes/server-parts.ts';
import type { Arenas } from './arena.ts';
import { fieldLines, type LiveHeaders } from './head-text.ts';
import type { HitRequest, HitWriter } from './prepared-hits.ts';
import type { AnswerSink } from './response.ts';

/** Larger bodies lie in buffers of their own, and are written beside the head. */
export const largestCopied = 16 * 1024;

/** Writes hits to connections of the fast path. */
export class HitText implements HitWriter<AnswerSink> {
  readonly #memory: ServerParts['memory'];
  readonly #live: LiveHeaders;
  readonly #arenas: Arenas;

  constructor(memory: ServerParts['memory'], live: LiveHeaders, arenas: Arenas) {
    this.#memory = memory;
    this.#live = live;
    this.#arenas = arenas;
  }

  write(prepared: PreparedHead, { connection, isKept, nowMs, view, admitted }: HitRequest<AnswerSink>): boolean {
    const { coding, common, own, sentBytes } = prepared;
    const limits = admitted === undefined || admitted.headers.length === 0 ? '' : fieldLines(admitted.headers);
    const live =
      limits === '' ? this.#live.bytes(view.headers, isKept, nowMs) : this.#live.ledgerBytes(view.headers, nowMs);
    const end = limits === '' ? '' : limits + this.#live.endOfHead(isKept);
    const body = this.#memory.bodyOf(prepared);
    const coded = coding === undefined ? undefined : this.#memory.codedOf(prepared)[coding];
    if (coding !== undefined && coded === undefined) return false;
    // `Exchange` counts long bodies, and sends them at the client's pace.
    if (sentBytes > pieceBytes) return false;
    const whole = coded ?? (sentBytes > largestCopied ? body.bytes.subarray(body.from, body.to) : undefined);
    const copied = whole === undefined ? sentBytes : 0;
    const arena = this.#arenas.withRoom(common.length + own.length + live.length + end.length + copied);
    const { bytes, used: from } = arena;
    let to = from + common.copy(bytes, from);
    to += bytes.write(own, to, 'latin1');
    to += live.copy(bytes, to);
    if (end !== '') to += bytes.write(end, to, 'latin1');
    if (whole === undefined) to += body.bytes.copy(bytes, to, body.from, body.to);
    arena.used = to;
    connection.sendFrom(arena, from);
    if (whole !== undefined) connection.sendBehind(whole);
    if (!isKept) connection.finish();
    return true;
  }
}
