/**
 * Answers hits of cached targets: the constant part of the head is prepared, the live part is shared by all answers,
 * and a writer of the transport adds the body. Few objects are made and read: with many targets, memory latency
 * dominates.
 */
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { LedgerVersion } from '../../../ledger/version.ts';
import type { RouteName } from '../../../metrics/http-metrics.ts';
import type { AdmittedRequest, RequestResult } from '../admitted-request.ts';
import type { RequestSummary } from '../exchange.ts';
import { isUnchanged } from '../conditions.ts';
import type { CacheScope } from '../response-writer.ts';
import { ageOf } from '../../reads/freshness.ts';
import { isOfLatest } from '../../routes/read-answer.ts';
import type { ServerParts } from '../../routes/server-parts.ts';
import type { CachedTarget, PreparedHead } from '../../routes/target-cache.ts';
import type { FleetView } from '../../../upstream/fleet-view.ts';
import type { PublishedState } from '../../../upstream/latest.ts';
import type { CommonHeads } from './head-text.ts';
import { PreparedHeads, secondsOf, type HeadSlot } from './prepared-heads.ts';
import type { HeaderBlock } from './request-head.ts';

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
  method: 'GET' | 'HEAD' | 'POST' = 'GET';
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
  /** It writes answers to `HEAD`, 304, and the headers of CORS as well. */
  readonly takesVariants?: boolean;
}

/** Answers hits of cached targets, without an `Exchange`. */
export class PreparedHits<Sink extends { readonly socket: Socket }> {
  readonly #proxy: ServerParts;
  readonly #writer: HitWriter<Sink>;
  readonly #heads: PreparedHeads;
  readonly #hit = new HitSummary();

  constructor(proxy: ServerParts, writer: HitWriter<Sink>, commonHeads: CommonHeads) {
    this.#proxy = proxy;
    this.#writer = writer;
    this.#heads = new PreparedHeads(proxy, commonHeads);
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
    const { fleet, observer, writer } = this.#proxy;
    const { view } = fleet;
    const { isPlain, isKept, isDemanding, condition } = block;
    if (!isPlain && (isDemanding || this.#writer.takesVariants !== true)) return false;
    if (!view.isPlain || writer.isDraining || observer.spans !== undefined) return false;
    const nowMs = performance.now();
    const scope: CacheScope = admitted?.isPrivate === true && target.scope === 'public' ? 'private' : target.scope;
    const { origin } = block.headers;
    const request = { target, connection, nowMs, isKept, view, admitted, scope, bodyBytes, isHead, origin };
    // Conditions do not apply to POST.
    if (condition === undefined || scope === 'none') return this.#answerAs('prepared', block, request);
    const { prepared = target.unchanged } = target;
    const isLikely = prepared === undefined || isUnchanged(condition, prepared.tag);
    const [first, second] = isLikely ? likelyUnchanged : likelyChanged;
    return this.#answerAs(first, block, request) || this.#answerAs(second, block, request);
  }

  #answerAs(slot: HeadSlot, block: HeaderBlock, request: HitRequest<Sink>): boolean {
    const prepared = request.target[slot];
    if (prepared !== undefined && !prepared.isLatest && this.#isUsable(prepared, slot, block, request)) {
      return this.#serve(prepared, request);
    }
    return this.#find(slot, block, request);
  }

  /** Looks the answer up in memory, at the latest version for a read without one. */
  #find(slot: HeadSlot, block: HeaderBlock, request: HitRequest<Sink>): boolean {
    const { freshness } = this.#proxy;
    const { headers } = block;
    const { target } = request;
    const isLatest = isOfLatest(target.read);
    const snapshot = isLatest ? freshness.find({ headers, socket: request.connection.socket }) : undefined;
    if (isLatest && snapshot === undefined) return false;
    const version = snapshot === undefined ? target.read.version : snapshot.info.version;
    const prepared = target[slot];
    const ageSeconds = snapshot === undefined ? 0 : ageOf(snapshot, request.nowMs);
    if (
      prepared?.version === version &&
      prepared?.isLatest === isLatest &&
      prepared?.ageSeconds === ageSeconds &&
      this.#isUsable(prepared, slot, block, request)
    ) {
      return this.#serve(prepared, request, snapshot);
    }
    const read = snapshot === undefined ? target.read : freshness.pinned(target.read, snapshot);
    const { view, scope } = request;
    const made = this.#heads.prepare(read, { slot, isLatest, ageSeconds, wanted: block.coding, view, scope });
    target[slot] = made;
    return made !== undefined && isOfSlot(slot, made, block, request) && this.#serve(made, request, snapshot);
  }

  #isUsable(prepared: PreparedHead, slot: HeadSlot, block: HeaderBlock, request: HitRequest<Sink>): boolean {
    const { nowMs, view, scope } = request;
    if (!isOfSlot(slot, prepared, block, request)) return false;
    if (!this.#proxy.memory.isHeld(prepared) || prepared.chainId !== view.chainId) return false;
    if (prepared.ledgerWideNames !== view.ledgerWideNames || prepared.scope !== scope) return false;
    return nowMs / 1000 - prepared.usedAt < longestUnused && (!prepared.isCodable || prepared.wanted === block.coding);
  }

  /** Writes the answer and reports it; false: the writer has not answered. */
  #serve(prepared: PreparedHead, request: HitRequest<Sink>, snapshot?: PublishedState): boolean {
    const { memory, observer, freshness } = this.#proxy;
    const { target, nowMs, admitted, bodyBytes, isHead } = request;
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
    hit.method = isHead ? 'HEAD' : target.scope === 'none' ? 'POST' : 'GET';
    hit.route = target.route.name;
    hit.status = prepared.status;
    hit.version = prepared.version;
    hit.bytes = isHead ? 0 : prepared.sentBytes;
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
}

const likelyUnchanged = ['unchanged', 'prepared'] as const;
const likelyChanged = ['prepared', 'unchanged'] as const;

/** Whether the request's condition selects the slot. */
function isOfSlot(
  slot: HeadSlot,
  { tag }: PreparedHead,
  { condition }: HeaderBlock,
  { scope }: Pick<HitRequest<unknown>, 'scope'>,
): boolean {
  return (slot === 'unchanged') === (scope !== 'none' && isUnchanged(condition, tag));
}

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
  /** The answer has no body. */
  readonly isHead: boolean;
  /** Value of `Origin`. */
  readonly origin: string | undefined;
}
