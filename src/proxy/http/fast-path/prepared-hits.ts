/**
 * Answers hits of cached targets, and the ledger info: the constant part of the head is prepared, the live part is shared
 * by all answers, and a writer of the transport adds the body. With many targets memory latency dominates, so few objects
 * are made and read.
 */
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { AdmittedRequest } from '../../../access/index.ts';
import type { ContentCoding } from '../../../cache/index.ts';
import type { LedgerVersion } from '../../../ledger/index.ts';
import type { Outcome } from '../../../metrics/index.ts';
import type { Fleet, ReportedState } from '../../../upstream/index.ts';
import { type DemandSource, type InfoBody, isOfLatest, type Read, type ReadResult } from '../../reads/index.ts';
import { type Cors, fieldLines, headText, ownLines, unchangedHead } from '../heads.ts';
import type { Route } from '../message.ts';
import { conditionalTag, matchesTag, smallestCompressed } from '../negotiate.ts';
import type { ExchangeObserver, RequestSummary } from '../observer.ts';
import type { ServerParts } from '../serve.ts';
import {
  type CachedTarget,
  type CacheScope,
  ownCopy,
  type PreparedHead,
  secondsOf,
  type SharedHead,
} from '../target-cache.ts';
import { pieceBytes } from '../unsent-answers.ts';
import type { AnswerQueue, AnswerTurn } from './answer-queue.ts';
import type { HeaderBlock, PlainHead } from './request-head.ts';

/** Seconds; a prepared head unused for longer is prepared again. */
const longestUnused = 60;
/** In bytes; answers with longer heads are written by an `Exchange`. */
const longestHead = 8 * 1024;
/** Larger bodies lie in buffers of their own, and are written beside the head. */
export const largestCopied = 16 * 1024;

/** One request that is answered without an `Exchange`. `Sink`: the receiver of its answer. */
export interface PreparedRequest<Sink = AnswerQueue> {
  readonly connection: Sink;
  readonly block: HeaderBlock;
  /** `performance.now()`. */
  readonly nowMs: number;
  readonly view: Fleet['view'];
  readonly admitted: AdmittedRequest | undefined;
  /** The answer has no body. */
  readonly isHead: boolean;
}

/** A request for a prepared hit. */
export interface HitRequest<Sink> extends PreparedRequest<Sink> {
  readonly target: CachedTarget;
  readonly scope: CacheScope;
  /** Bytes of the request's body. */
  readonly bodyBytes: number;
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

/** Answers hits of cached targets, without an `Exchange`. */
export class PreparedHits<Sink extends { readonly socket: Socket }> {
  readonly #proxy: ServerParts;
  readonly #writer: HitWriter<Sink>;
  readonly #sharedHeads: SharedHeads;
  readonly #hit = new HitSummary('memory');

  constructor(proxy: ServerParts, writer: HitWriter<Sink>, sharedHeads: SharedHeads) {
    this.#proxy = proxy;
    this.#writer = writer;
    this.#sharedHeads = sharedHeads;
  }

  /** Answers a `GET`, `HEAD` or a read by `POST`; false: no answer and no side effect. `bodyBytes`: of the request. */
  answer(
    block: HeaderBlock,
    target: CachedTarget,
    connection: Sink,
    admitted?: AdmittedRequest,
    bodyBytes = 0,
    isHead = false,
  ): boolean {
    const { fleet, observer, heads } = this.#proxy;
    const { view } = fleet;
    if (!block.isPlain && (block.isDemanding || !this.#writer.takesVariants)) return false;
    if (!view.isPlain || heads.isDraining || observer.spans !== undefined) return false;
    const nowMs = performance.now();
    const scope: CacheScope = admitted?.isPrivate === true && target.scope === 'public' ? 'private' : target.scope;
    const isUnchanged = false;
    const request = { target, connection, block, nowMs, view, admitted, scope, bodyBytes, isHead, isUnchanged };
    const { prepared } = target;
    if (prepared !== undefined && !prepared.shared.isLatest && this.#isUsable(prepared, request)) {
      return this.#serve(prepared, request);
    }
    return this.#find(request);
  }

  /** Looks the answer up in memory, at the latest version for a read without one. */
  #find(request: HitRequest<Sink>): boolean {
    const { freshness } = this.#proxy;
    const { target, block, connection, admitted, nowMs } = request;
    const { read, prepared } = target;
    const isLatest = isOfLatest(read);
    const source = { headers: block.headers, socket: connection.socket, admitted };
    const snapshot = isLatest ? freshness.find(source, read) : undefined;
    if (isLatest && snapshot === undefined) return false;
    const version = snapshot === undefined ? read.version : snapshot.info.version;
    const ageSeconds = snapshot === undefined ? 0 : freshness.ageOf(snapshot, nowMs);
    if (
      prepared?.version === version &&
      prepared?.shared.isLatest === isLatest &&
      prepared?.ageSeconds === ageSeconds &&
      this.#isUsable(prepared, request)
    ) {
      return this.#serve(prepared, request, snapshot, source);
    }
    const pinned = snapshot === undefined ? read : freshness.pinned(read, snapshot.info.version);
    const made = this.#prepare(pinned, isLatest, ageSeconds, request);
    target.prepared = made;
    return made !== undefined && this.#isUsable(made, request) && this.#serve(made, request, snapshot, source);
  }

  /** `undefined`: memory lacks the answer, or its head is long. */
  #prepare(
    read: Read,
    isLatest: boolean,
    ageSeconds: number,
    { view, scope, block: { coding: wanted } }: HitRequest<Sink>,
  ): PreparedHead | undefined {
    const { memory, reader, heads } = this.#proxy;
    const held = reader.locate(read);
    if (held === undefined) return undefined;
    const entry = memory.answerOf(held);
    const { status, body } = entry;
    const isCodable = body.length >= smallestCompressed;
    const coding = isCodable ? wanted : undefined;
    const sent = coding === undefined ? body : entry.coded[coding];
    const { version } = read;
    // The latest state has the same head before and after.
    const isProvisional = !isLatest && reader.isProvisional(read);
    const served: ReadResult = {
      entry,
      version,
      isProvisional,
      isLatest,
      ageSeconds,
      source: 'memory',
      isCollapsed: false,
    };
    const ownHead = heads.ownHeadOf(served, coding);
    const { chainId, ledgerWideNames } = view;
    const exposed = heads.cors.furtherIn(ownHead);
    const shared = this.#sharedHeads.of(
      { chainId, ledgerWideNames, isLatest, isProvisional, scope, wanted, isCodable, coding, status, exposed },
      heads.commonHeadOf(served, scope),
    );
    const unchangedOwn = fieldLines(ownHead);
    const content = sent === undefined ? '' : fieldLines(contentHead(coding, sent.length));
    // A joined text points to its flat form, one more cache line for each answer.
    const own = ownCopy(unchangedOwn + content);
    if (shared.bytes.length + own.length > longestHead) return undefined;
    memory.use(held);
    const { row, stamp, answer } = held;
    return {
      row,
      stamp,
      answer,
      shared,
      hits: reader.hitsOf(read),
      usedAt: secondsOf(performance.now()),
      version,
      ageSeconds,
      own,
      unchangedLength: unchangedOwn.length,
      sentBytes: sent?.length ?? -1,
      fields: undefined,
    };
  }

  #isUsable(prepared: PreparedHead, request: HitRequest<Sink>): boolean {
    const { block, nowMs, view, scope } = request;
    const { shared } = prepared;
    const { memory, reader } = this.#proxy;
    if (!memory.isHeld(prepared) || shared.chainId !== view.chainId) return false;
    if (shared.ledgerWideNames !== view.ledgerWideNames || shared.scope !== scope) return false;
    if (nowMs / 1000 - prepared.usedAt >= longestUnused) return false;
    if (shared.isCodable && shared.wanted !== block.coding) return false;
    if (shared.isProvisional && !reader.isProvisional(request.target.read)) return false;
    // Conditions do not apply to POST. The tag is not prepared: with many targets, each text kept for one costs all hits.
    if (block.condition !== undefined && scope !== 'none') {
      const tag = conditionalTag(memory.answerOf(prepared), shared.coding);
      request.isUnchanged = matchesTag(block.condition, tag);
    }
    return prepared.sentBytes >= 0 || request.isUnchanged;
  }

  /** Writes the answer and reports it; false: the writer has not answered. */
  #serve(prepared: PreparedHead, request: HitRequest<Sink>, snapshot?: ReportedState, source?: DemandSource): boolean {
    const { memory, observer, freshness } = this.#proxy;
    const { target, nowMs, admitted, bodyBytes, isHead, isUnchanged } = request;
    if (!this.#writer.write(prepared, request)) return false;
    const now = secondsOf(nowMs);
    // Once a second is enough: eviction order is a matter of minutes.
    if (now !== prepared.usedAt) {
      prepared.usedAt = now;
      memory.use(prepared);
    }
    prepared.hits.inc();
    if (snapshot !== undefined && source !== undefined) {
      freshness.recordServed(source, snapshot);
      freshness.hot.record(target.read, snapshot);
    }
    const hit = this.#hit;
    hit.method = isHead ? 'HEAD' : target.scope === 'none' ? 'POST' : 'GET';
    hit.route = target.route.name;
    hit.status = isUnchanged ? 304 : prepared.shared.status;
    hit.version = prepared.version;
    hit.bytes = isHead || isUnchanged ? 0 : prepared.sentBytes;
    hit.admitted = admitted;
    hit.bodyBytes = bodyBytes;
    hit.report(observer, nowMs);
    return true;
  }
}

/** Summary of answers that are written without an `Exchange`; one object serves all answers of a kind. */
class HitSummary implements RequestSummary {
  readonly isHeadSent = true;
  readonly outcome: Outcome;
  readonly upstream = undefined;
  readonly upstreamMs = 0;
  readonly bug = undefined;
  readonly gasUsed = undefined;
  admitted: AdmittedRequest | undefined;
  bodyBytes = 0;
  method: 'GET' | 'HEAD' | 'POST' = 'GET';
  route = 'none';
  status = 200;
  version: LedgerVersion | undefined;
  bytes = 0;

  constructor(outcome: 'memory' | 'local') {
    this.outcome = outcome;
  }

  /** Counts the answer, charges it, and logs it. `startedMs`: of `performance.now()`. */
  report(observer: ExchangeObserver, startedMs: number): void {
    const { admitted, status } = this;
    const { metrics } = observer;
    metrics.started();
    const seconds = (performance.now() - startedMs) / 1000;
    metrics.finished(this, seconds);
    if (admitted !== undefined) {
      admitted.follow(this);
      admitted.settle({ headersSent: true, statusCode: status });
    }
    observer.onEnd(this, seconds);
  }
}

/** Interns the few beginnings that the heads of all targets share. */
export class SharedHeads {
  readonly #known = new Map<string, SharedHead>();
  #ledgerWideNames: SharedHead['ledgerWideNames'] = new Set();

  /** `head`: the first headers, names and values in turn. Throws as `fieldLines`. */
  of(form: Omit<SharedHead, 'bytes' | 'unchanged' | 'fields'>, head: readonly string[]): SharedHead {
    const { ledgerWideNames, ...rest } = form;
    if (ledgerWideNames !== this.#ledgerWideNames) this.#known.clear();
    this.#ledgerWideNames = ledgerWideNames;
    const text = headText(form.status, head);
    const name = Object.values(rest).join('|') + text;
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    if (this.#known.size >= mostKnown) this.#known.clear();
    const unchanged = Buffer.from(headText(304, unchangedHead(head)), 'latin1');
    const made = { ...form, bytes: Buffer.from(text, 'latin1'), unchanged, fields: undefined };
    this.#known.set(name, made);
    return made;
  }
}

const mostKnown = 64;

function contentHead(coding: ContentCoding | undefined, length: number): readonly string[] {
  const head = ['Content-Length', String(length)];
  return coding === undefined ? head : ['Content-Encoding', coding, ...head];
}

/** Answers `GET` and `HEAD` of the ledger info from the shared state; its head is made once per change of the state. */
export class PreparedInfo {
  readonly #proxy: ServerParts;
  readonly #writer: HitText;
  readonly #summary = new HitSummary('local');
  #info: InfoBody | undefined;
  #vary = '';
  #head = Buffer.alloc(0);

  constructor(proxy: ServerParts, writer: HitText) {
    this.#proxy = proxy;
    this.#writer = writer;
  }

  /**
   * Answers a request that names no freshness. False: no answer and no side effect; the general way finds a state that
   * satisfies the client, or its error.
   */
  answer(
    { method, block }: PlainHead,
    route: Route,
    connection: AnswerQueue,
    admitted: AdmittedRequest | undefined,
  ): boolean {
    const { fleet, freshness, observer, heads } = this.#proxy;
    const { view } = fleet;
    if (block.isDemanding || block.form === 'bcs' || !view.isPlain || view.oldest === undefined) return false;
    if (heads.isDraining || observer.spans !== undefined) return false;
    const nowMs = performance.now();
    const info = freshness.findLedgerInfo({ headers: block.headers, socket: connection.socket, admitted });
    if (info === undefined) return false;
    const { body, version } = info;
    const isHead = method === 'HEAD';
    this.#writer.writeBody(this.#headOf(info), body, { connection, block, nowMs, view, admitted, isHead });
    const summary = this.#summary;
    summary.method = isHead ? 'HEAD' : 'GET';
    summary.route = route.name;
    summary.version = version;
    summary.bytes = isHead ? 0 : body.length;
    summary.admitted = admitted;
    summary.report(observer, nowMs);
    return true;
  }

  #headOf(info: InfoBody): Buffer {
    const { heads } = this.#proxy;
    const { vary } = heads;
    if (info !== this.#info || vary !== this.#vary) {
      const head = [...heads.infoHead(info.version), 'Content-Length', String(info.body.length)];
      this.#head = Buffer.from(headText(200, head), 'latin1');
      this.#info = info;
      this.#vary = vary;
    }
    return this.#head;
  }
}

/** Writes hits over HTTP/1.1, head and body into one arena where the body is short. */
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
    const further = this.#furtherLines(shared.exposed, request);
    if (request.isHead) this.#put(common, own, further, request);
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
    { connection, block: { isKept }, nowMs, view }: PreparedRequest,
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
  #furtherLines(exposed: string, { admitted, block: { origin }, view }: PreparedRequest): string {
    const limits = admitted === undefined ? '' : ownLines(admitted.headers);
    return origin === undefined ? limits : limits + this.#corsLines.of(origin, exposed, view.headers);
  }
}

/** Pages whose lines are kept. */
const mostPages = 64;

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
    if (this.#known.size >= mostPages) this.#known.clear();
    this.#known.set(name, lines);
    return lines;
  }
}
