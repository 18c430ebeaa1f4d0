/** Writes prepared hits over HTTP/1.1, head and body into one arena where the body is short. */
import type { AdmittedRequest } from '../../../access/index.ts';
import type { Fleet } from '../../../upstream/index.ts';
import { type CacheScope, type Cors, fieldLines, ownLines } from '../heads.ts';
import { pieceBytes } from '../unsent-answers.ts';
import type { CachedTarget, PreparedHead } from '../target-cache.ts';
import type { ServerParts } from '../service.ts';
import type { AnswerQueue, AnswerTurn } from './answer-queue.ts';

/** One request that is answered without an `Exchange`. `Sink`: the receiver of its answer. */
export interface PreparedRequest<Sink = AnswerQueue> {
  readonly connection: Sink;
  /** `performance.now()`. */
  readonly nowMs: number;
  readonly isKept: boolean;
  readonly view: Fleet['view'];
  readonly admitted: AdmittedRequest | undefined;
  /** The answer has no body. */
  readonly isHead: boolean;
  /** Value of `Origin`. */
  readonly origin: string | undefined;
}

/** One request for a prepared hit. */
export interface HitRequest<Sink> extends PreparedRequest<Sink> {
  readonly target: CachedTarget;
  readonly scope: CacheScope;
  /** Bytes of the request's body. */
  readonly bodyBytes: number;
  /** Value of `If-None-Match`, where conditions apply. */
  readonly condition: string | undefined;
  /** The client holds the answer; set with the prepared head that may serve it. */
  isUnchanged: boolean;
}

/** Writes hits in the form of a transport. */
export interface HitWriter<Sink> {
  /** Queues head and body; false: no answer, because memory has dropped the body in that coding, or it is too long. */
  write(prepared: PreparedHead, request: HitRequest<Sink>): boolean;
  /** It writes answers to `HEAD`, 304, and the headers of CORS as well. */
  readonly takesVariants: boolean;
}

/** Larger bodies lie in buffers of their own, and are written beside the head. */
export const largestCopied = 16 * 1024;

/** Writes hits to connections of the fast path. */
export class HitText implements HitWriter<AnswerQueue> {
  readonly takesVariants = true;
  readonly #memory: ServerParts['memory'];
  readonly #live: AnswerTurn['live'];
  readonly #turn: AnswerTurn;
  readonly #corsLines: CorsLines;

  constructor({ memory, heads }: ServerParts, turn: AnswerTurn) {
    this.#memory = memory;
    this.#live = turn.live;
    this.#turn = turn;
    this.#corsLines = new CorsLines(heads.cors);
  }

  write(prepared: PreparedHead, request: HitRequest<AnswerQueue>): boolean {
    const { shared, own, sentBytes } = prepared;
    if (request.isUnchanged) {
      const further = this.#furtherLines(shared.exposed, request);
      this.#put(shared.unchanged, own.slice(0, prepared.unchangedLength), further, request);
      return true;
    }
    const { coding, bytes: common } = shared;
    const body = this.#memory.bodyOf(prepared);
    const coded = coding === undefined ? undefined : this.#memory.codedOf(prepared)[coding];
    if (coding !== undefined && coded === undefined) return false;
    // `Exchange` counts long bodies, and sends them at the client's pace.
    if (sentBytes > pieceBytes) return false;
    const { isHead, origin, admitted } = request;
    const further = origin === undefined ? limitLines(admitted) : this.#furtherLines(shared.exposed, request);
    if (isHead) this.#put(common, own, further, request);
    else if (coded === undefined && sentBytes <= largestCopied) this.#put(common, own, further, request, body);
    else {
      this.#put(common, own, further, request, undefined, coded ?? body.bytes.subarray(body.from, body.to));
    }
    return true;
  }

  /** Queues an answer whose head and body do not change. */
  writeBody(head: Buffer, body: Buffer, request: PreparedRequest): void {
    const further = this.#furtherLines('', request);
    if (request.isHead) this.#put(head, '', further, request);
    else if (body.length > largestCopied) this.#put(head, '', further, request, undefined, body);
    else this.#put(head, '', further, request, { bytes: body, from: 0, to: body.length });
  }

  /**
   * `further`: lines ahead of the ledger headers. `copied`: a body that goes behind the head, at most `largestCopied`;
   * `beside`: one in a buffer of its own.
   */
  #put(
    common: Buffer,
    own: string,
    further: string,
    { connection, isKept, nowMs, view }: PreparedRequest,
    copied?: { readonly bytes: Buffer; readonly from: number; readonly to: number },
    beside?: Buffer,
  ): void {
    const live = this.#live.bytes(view.headers, isKept, nowMs);
    const length = copied === undefined ? 0 : copied.to - copied.from;
    const arena = this.#turn.withRoom(common.length + own.length + further.length + live.length + length);
    const { bytes, used: from } = arena;
    let to = from + common.copy(bytes, from);
    to += bytes.write(own, to, 'latin1');
    if (further !== '') to += bytes.write(further, to, 'latin1');
    to += live.copy(bytes, to);
    if (copied !== undefined) to += copied.bytes.copy(bytes, to, copied.from, copied.to);
    arena.used = to;
    connection.sendFrom(arena, from);
    if (beside !== undefined) connection.sendBehind(beside);
    if (!isKept) connection.finish();
  }

  /** Lines of limits and CORS. */
  #furtherLines(exposed: string, { admitted, origin, view }: PreparedRequest): string {
    const limits = limitLines(admitted);
    return origin === undefined ? limits : limits + this.#corsLines.of(origin, exposed, view.headers);
  }
}

function limitLines(admitted: AdmittedRequest | undefined): string {
  return admitted === undefined ? '' : ownLines(admitted.headers);
}

/** Pages whose lines are kept. */
const mostKnown = 64;

/** Makes the lines that `Cors.headers` yields for an answer, once for the answers of a page. */
class CorsLines {
  readonly #cors: Cors;
  /** By exposed names and origin. */
  readonly #known = new Map<string, string>();
  #ledger: readonly string[] = [];
  /** Names of `#ledger` that CORS exposes. */
  #ofLedger = '';

  constructor(cors: Cors) {
    this.#cors = cors;
  }

  /** `exposed`: of the answer's own head (`Cors.furtherIn`); `ledger`: the live headers, names and values in turn. */
  of(origin: string, exposed: string, ledger: readonly string[]): string {
    if (ledger !== this.#ledger) {
      this.#ledger = ledger;
      this.#ofLedger = this.#cors.furtherIn(ledger);
    }
    const further = exposed + this.#ofLedger;
    // An origin holds no line feed.
    const name = `${further}\n${origin}`;
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const lines = fieldLines(this.#cors.grant(origin, further));
    if (this.#known.size >= mostKnown) this.#known.clear();
    this.#known.set(name, lines);
    return lines;
  }
}
