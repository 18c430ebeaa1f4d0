/**
 * Answers hits of cached targets: the constant part of the head is prepared, the live part is shared by all answers,
 * and a writer of the transport adds the body. Few objects are made and read: with many targets, memory latency
 * dominates.
 */
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { AdmittedRequest } from '../../../access/index.ts';
import { conditionalTag, matchesTag } from '../negotiate.ts';
import type { CacheScope } from '../answer-heads.ts';
import { isOfLatest } from '../../reads/index.ts';
import type { ServerParts } from '../service.ts';
import { secondsOf, type CachedTarget, type PreparedHead } from '../target-cache.ts';
import type { Fleet, ReportedState } from '../../../upstream/index.ts';
import { HitSummary } from './hit-summary.ts';
import { PreparedHeads, type SharedHeads } from './prepared-heads.ts';
import type { HeaderBlock } from './request-head.ts';

/** Seconds; a prepared head unused for longer is prepared again. */
const longestUnused = 60;

/** Writes hits in the form of a transport. `Sink`: the receiver of one answer. */
export interface HitWriter<Sink> {
  /** Queues head and body; false: no answer, because memory has dropped the body in that coding, or it is too long. */
  write(prepared: PreparedHead, request: HitRequest<Sink>): boolean;
  /** It writes answers to `HEAD`, 304, and the headers of CORS as well. */
  readonly takesVariants?: boolean;
}

/** Answers hits of cached targets, without an `Exchange`. */
export class PreparedHits<Sink extends { readonly socket: Socket }> {
  readonly #proxy: ServerParts;
  readonly #writer: HitWriter<Sink>;
  readonly #heads: PreparedHeads;
  readonly #hit = new HitSummary('memory');

  constructor(proxy: ServerParts, writer: HitWriter<Sink>, sharedHeads: SharedHeads) {
    this.#proxy = proxy;
    this.#writer = writer;
    this.#heads = new PreparedHeads(proxy, sharedHeads);
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
    const { isPlain, isKept, isDemanding, origin } = block;
    if (!isPlain && (isDemanding || this.#writer.takesVariants !== true)) return false;
    if (!view.isPlain || heads.isDraining || observer.spans !== undefined) return false;
    const nowMs = performance.now();
    const scope: CacheScope = admitted?.isPrivate === true && target.scope === 'public' ? 'private' : target.scope;
    // Conditions do not apply to POST.
    const condition = scope === 'none' ? undefined : block.condition;
    const isUnchanged = false;
    const request: HitRequest<Sink> = {
      target,
      connection,
      nowMs,
      isKept,
      view,
      admitted,
      scope,
      bodyBytes,
      isHead,
      origin,
      condition,
      isUnchanged,
    };
    const { prepared } = target;
    if (prepared !== undefined && !prepared.shared.isLatest && this.#isUsable(prepared, block, request)) {
      return this.#serve(prepared, request);
    }
    return this.#find(block, request);
  }

  /** Looks the answer up in memory, at the latest version for a read without one. */
  #find(block: HeaderBlock, request: HitRequest<Sink>): boolean {
    const { freshness } = this.#proxy;
    const { headers } = block;
    const { target } = request;
    const isLatest = isOfLatest(target.read);
    const snapshot = isLatest ? freshness.find({ headers, socket: request.connection.socket }) : undefined;
    if (isLatest && snapshot === undefined) return false;
    const version = snapshot === undefined ? target.read.version : snapshot.info.version;
    const { prepared } = target;
    const ageSeconds = snapshot === undefined ? 0 : freshness.ageOf(snapshot, request.nowMs);
    if (
      prepared?.version === version &&
      prepared?.shared.isLatest === isLatest &&
      prepared?.ageSeconds === ageSeconds &&
      this.#isUsable(prepared, block, request)
    ) {
      return this.#serve(prepared, request, snapshot);
    }
    const read = snapshot === undefined ? target.read : freshness.pinned(target.read, snapshot.info.version);
    const { view, scope } = request;
    const made = this.#heads.prepare(read, { isLatest, ageSeconds, wanted: block.coding, view, scope });
    target.prepared = made;
    return made !== undefined && this.#isUsable(made, block, request) && this.#serve(made, request, snapshot);
  }

  #isUsable(prepared: PreparedHead, block: HeaderBlock, request: HitRequest<Sink>): boolean {
    const { nowMs, view, scope } = request;
    const { shared } = prepared;
    if (!this.#proxy.memory.isHeld(prepared) || shared.chainId !== view.chainId) return false;
    if (shared.ledgerWideNames !== view.ledgerWideNames || shared.scope !== scope) return false;
    if (nowMs / 1000 - prepared.usedAt >= longestUnused) return false;
    if (shared.isCodable && shared.wanted !== block.coding) return false;
    if (shared.isProvisional && !this.#proxy.reader.isProvisional(request.target.read)) return false;
    if (request.condition !== undefined) request.isUnchanged = this.#isUnchanged(prepared, request.condition);
    return prepared.sentBytes >= 0 || request.isUnchanged;
  }

  /** The tag is not prepared: with many targets, each text kept for one costs all hits. */
  #isUnchanged(prepared: PreparedHead, condition: string): boolean {
    return matchesTag(condition, conditionalTag(this.#proxy.memory.answerOf(prepared), prepared.shared.coding));
  }

  /** Writes the answer and reports it; false: the writer has not answered. */
  #serve(prepared: PreparedHead, request: HitRequest<Sink>, snapshot?: ReportedState): boolean {
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
    if (snapshot !== undefined) freshness.recordServed(request.connection, snapshot);
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

/** One request that is answered without an `Exchange`. */
export interface PreparedRequest<Sink> {
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
