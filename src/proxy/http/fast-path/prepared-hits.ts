/**
 * Answers hits of cached targets: the constant part of the head is prepared, the live part is shared by all answers,
 * and a writer of the transport adds the body. Few objects are made and read: with many targets, memory latency
 * dominates.
 */
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { ContentCoding } from '../../../cache/entry.ts';
import type { LedgerVersion } from '../../../ledger/version.ts';
import type { RouteName } from '../../../metrics/http-metrics.ts';
import type { AdmittedRequest, RequestResult } from '../admitted-request.ts';
import type { RequestSummary } from '../exchange.ts';
import type { CacheScope } from '../response-writer.ts';
import { ageOf } from '../../reads/freshness.ts';
import { smallestCompressed } from '../negotiate.ts';
import { isOfLatest } from '../../routes/read-answer.ts';
import type { Read, ReadResult } from '../../reads/read-result.ts';
import type { ServerParts } from '../../routes/server-parts.ts';
import type { CachedTarget, PreparedHead } from '../../routes/target-cache.ts';
import type { FleetView } from '../../../upstream/fleet-view.ts';
import type { PublishedState } from '../../../upstream/latest.ts';
import { fieldLines, type CommonHeads } from './head-text.ts';
import type { HeaderBlock } from './request-head.ts';

const longestHead = 8 * 1024;
/** Seconds; a prepared head unused for longer is prepared again. */
const longestUnused = 60;

/** Summary of a hit, one object for all of them. */
class HitSummary implements RequestSummary, RequestResult {
  readonly isHeadSent = true;
  readonly outcome = 'memory';
  readonly upstream = undefined;
  readonly upstreamMs = 0;
  readonly bug = undefined;
  readonly gasUsed = undefined;
  admitted: AdmittedRequest | undefined;
  bodyBytes = 0;
  method: 'GET' | 'POST' = 'GET';
  route: RouteName = 'none';
  status = 200;
  version: LedgerVersion | undefined;
  bytes = 0;
  savedBytes = 0;
}

/** Writes hits in the form of a transport. `Sink`: the receiver of one answer. */
export interface HitWriter<Sink> {
  /** Queues head and body; false: no answer, because memory has dropped the body in that coding, or it is too long. */
  write(prepared: PreparedHead, request: HitRequest<Sink>): boolean;
}

/** Answers hits of cached targets, without an `Exchange`. */
export class PreparedHits<Sink extends { readonly socket: Socket }> {
  readonly #proxy: ServerParts;
  readonly #writer: HitWriter<Sink>;
  readonly #commonHeads: CommonHeads;
  readonly #hit = new HitSummary();

  constructor(proxy: ServerParts, writer: HitWriter<Sink>, commonHeads: CommonHeads) {
    this.#proxy = proxy;
    this.#writer = writer;
    this.#commonHeads = commonHeads;
  }

  /** Answers a `GET` or a read by `POST`; false: no answer and no side effect. `bodyBytes`: of the request. */
  answer(
    block: HeaderBlock,
    target: CachedTarget,
    connection: Sink,
    admitted?: AdmittedRequest,
    bodyBytes = 0,
  ): boolean {
    const { fleet, observer, writer } = this.#proxy;
    const { view } = fleet;
    const { isPlain, isKept, coding } = block;
    if (!isPlain || !view.isPlain || writer.isDraining || observer.spans !== undefined) return false;
    const nowMs = performance.now();
    const scope: CacheScope = admitted?.isPrivate === true && target.scope === 'public' ? 'private' : target.scope;
    const request = { target, connection, nowMs, isKept, view, admitted, scope, bodyBytes };
    const { prepared } = target;
    if (prepared !== undefined && !prepared.isLatest && this.#isUsable(prepared, coding, request)) {
      return this.#serve(prepared, request);
    }
    return this.#find(block, request);
  }

  /** Looks the answer up in memory, at the latest version for a read without one. */
  #find({ headers, coding }: HeaderBlock, request: HitRequest<Sink>): boolean {
    const { freshness } = this.#proxy;
    const { target } = request;
    const isLatest = isOfLatest(target.read);
    const snapshot = isLatest ? freshness.find({ headers, socket: request.connection.socket }) : undefined;
    if (isLatest && snapshot === undefined) return false;
    const version = snapshot === undefined ? target.read.version : snapshot.info.version;
    const { prepared } = target;
    const ageSeconds = snapshot === undefined ? 0 : ageOf(snapshot, request.nowMs);
    if (
      prepared?.version === version &&
      prepared?.isLatest === isLatest &&
      prepared?.ageSeconds === ageSeconds &&
      this.#isUsable(prepared, coding, request)
    ) {
      return this.#serve(prepared, request, snapshot);
    }
    const read = snapshot === undefined ? target.read : freshness.pinned(target.read, snapshot);
    const made = this.#prepare(read, { isLatest, ageSeconds, wanted: coding }, request);
    target.prepared = made;
    return made !== undefined && this.#serve(made, request, snapshot);
  }

  #isUsable(
    prepared: PreparedHead,
    coding: ContentCoding | undefined,
    { nowMs, view, scope }: HitRequest<Sink>,
  ): boolean {
    if (!this.#proxy.memory.isHeld(prepared) || prepared.chainId !== view.chainId) return false;
    if (prepared.ledgerWideNames !== view.ledgerWideNames || prepared.scope !== scope) return false;
    return nowMs / 1000 - prepared.usedAt < longestUnused && (!prepared.isCodable || prepared.wanted === coding);
  }

  /** Writes the answer and reports it; false: the writer has not answered. */
  #serve(prepared: PreparedHead, request: HitRequest<Sink>, snapshot?: PublishedState): boolean {
    const { memory, observer, freshness } = this.#proxy;
    const { target, nowMs, admitted, bodyBytes } = request;
    if (!this.#writer.write(prepared, request)) return false;
    const now = secondsOf(nowMs);
    // Once a second is enough: eviction order is a matter of minutes.
    if (now !== prepared.usedAt) {
      prepared.usedAt = now;
      memory.use(prepared);
    }
    observer.metrics.started();
    prepared.hits.inc();
    if (snapshot !== undefined) freshness.countServed(snapshot);
    const hit = this.#hit;
    hit.method = target.scope === 'none' ? 'POST' : 'GET';
    hit.route = target.route.name;
    hit.status = prepared.status;
    hit.version = prepared.version;
    hit.bytes = prepared.sentBytes;
    hit.savedBytes = prepared.bodyBytes;
    hit.admitted = admitted;
    hit.bodyBytes = bodyBytes;
    const seconds = (performance.now() - nowMs) / 1000;
    observer.metrics.finished(hit, seconds);
    if (admitted !== undefined) {
      admitted.follow(hit);
      admitted.settle({ headersSent: true, statusCode: prepared.status });
    }
    observer.onEnd(hit, seconds);
    return true;
  }

  /** `undefined`: memory lacks the answer, or its body in the wanted coding. */
  #prepare(read: Read, form: HeadForm, { view, scope }: HitRequest<Sink>): PreparedHead | undefined {
    const { isLatest, ageSeconds, wanted } = form;
    const { memory, reader, writer } = this.#proxy;
    const held = reader.locate(read);
    if (held === undefined) return undefined;
    const entry = memory.answerOf(held);
    const { status, body } = entry;
    const isCodable = body.length >= smallestCompressed;
    const coding = isCodable ? wanted : undefined;
    const sent = coding === undefined ? body : entry.coded[coding];
    if (sent === undefined) return undefined;
    const source = { kind: 'memory' } as const;
    const { version } = read;
    const served: ReadResult = { entry, version, isFinal: true, isLatest, ageSeconds, source };
    const common = this.#commonHeads.of(status, writer.commonHeadOf(served, scope));
    const head = writer.ownHeadOf(served, coding);
    if (coding !== undefined) head.push('Content-Encoding', coding);
    head.push('Content-Length', String(sent.length));
    const own = fieldLines(head);
    if (common.length + own.length > longestHead) return undefined;
    memory.use(held);
    const sizes = { sentBytes: sent.length, bodyBytes: body.length };
    const { chainId, ledgerWideNames } = view;
    const usedAt = secondsOf(performance.now());
    const { row, stamp, answer } = held;
    const hits = reader.hitsOf(read);
    const where = { row, stamp, answer, chainId, hits, ledgerWideNames, usedAt };
    return {
      ...where,
      version,
      isLatest,
      scope,
      ageSeconds,
      wanted,
      isCodable,
      coding,
      status,
      common,
      own,
      ...sizes,
      fields: undefined,
    };
  }
}

/** Small integers lie in the object itself; other numbers cost a heap box. */
function secondsOf(ms: number): number {
  return (ms / 1000) | 0;
}

/** Variant of the head. */
type HeadForm = Pick<PreparedHead, 'isLatest' | 'ageSeconds' | 'wanted'>;

/** One request for a prepared hit. */
export interface HitRequest<Sink> {
  readonly target: CachedTarget;
  readonly connection: Sink;
  /** `performance.now()`. */
  readonly nowMs: number;
  readonly isKept: boolean;
  readonly view: FleetView;
  readonly admitted: AdmittedRequest | undefined;
  readonly scope: CacheScope;
  /** Bytes of the request's body. */
  readonly bodyBytes: number;
}
