/**
 * Hits of targets that have been read before: the part of the answer that does not change is prepared, the live part is
 * made once for all answers, and the body is copied from where it lies. Nothing is made for one request alone.
 */
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { AnswerId } from '../cache/answers.ts';
import type { Ended } from '../proxy/exchange.ts';
import type { Alias, PreparedHead } from '../proxy/aliases.ts';
import { isOfLatest } from '../proxy/answer-read.ts';
import { smallestCompressed } from '../proxy/compress.ts';
import type { Read } from '../proxy/read.ts';
import type { ServerParts } from '../proxy/server-parts.ts';
import type { RouteName } from '../metrics/http-metrics.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import { headText } from './head-text.ts';
import type { LiveHeaders } from './live-headers.ts';
import type { HeaderBlock } from './request-head.ts';

/** Larger bodies, which are buffers of their own in memory, are written beside their head. */
const largestCopied = 16 * 1024;
const scratchBytes = 32 * 1024;

/** What is told of an answer: one object for all of them. */
class Hit implements Ended {
  readonly method = 'GET';
  readonly isTold = true;
  readonly outcome = 'memory';
  readonly upstream = undefined;
  readonly upstreamMs = 0;
  readonly bug = undefined;
  readonly visit = undefined;
  route: RouteName = 'none';
  status = 200;
  version: LedgerVersion | undefined;
  bytes = 0;
  savedBytes = 0;
}

export class KnownHits {
  readonly #proxy: ServerParts;
  readonly #live: LiveHeaders;
  readonly #hit = new Hit();
  #scratch = Buffer.allocUnsafeSlow(scratchBytes);

  constructor(proxy: ServerParts, live: LiveHeaders) {
    this.#proxy = proxy;
    this.#live = live;
  }

  /** Answers a `GET`; false: not answered, and nothing has happened. */
  answer({ headers, isPlain, isKept, coding }: HeaderBlock, alias: Alias, socket: Socket): boolean {
    const { observer, replier, reader, latestReads } = this.#proxy;
    if (!isPlain || !isKept || !replier.isUndisturbed || observer.spans !== undefined) return false;
    const startedMs = performance.now();
    const isLatest = isOfLatest(alias.read);
    const snapshot = isLatest ? latestReads.snapshotFor({ headers, socket }) : undefined;
    if (isLatest && snapshot === undefined) return false;
    const read = snapshot === undefined ? alias.read : latestReads.pinned(alias.read, snapshot);
    const located = reader.locate(read);
    const bytes =
      located === undefined
        ? undefined
        : this.#write(located, { alias, read, isLatest, coding, socket, nowMs: startedMs });
    if (bytes === undefined) return false;
    observer.metrics.started();
    reader.noteHit();
    if (snapshot !== undefined) latestReads.noteServed(snapshot);
    this.#tell(alias, read, bytes, performance.now() - startedMs);
    return true;
  }

  /** Writes head and body; the bytes of the body, `undefined` where the wanted form of it is not there. */
  #write(located: AnswerId, wanted: Wanted): number | undefined {
    const { memory } = this.#proxy;
    const body = memory.bodyOf(located);
    const length = body.to - body.from;
    const coding = length >= smallestCompressed ? wanted.coding : undefined;
    const coded = coding === undefined ? undefined : memory.codedOf(located)[coding];
    if (coding !== undefined && coded === undefined) return undefined;
    const head = this.#headFor(located, wanted, coding, coded?.length ?? length);
    const live = this.#live.bytes(this.#proxy.replier.ledgerHeaders(), wanted.nowMs);
    const { socket } = wanted;
    if (coded !== undefined || length > largestCopied) {
      const whole = coded ?? body.bytes.subarray(body.from, body.to);
      socket.cork();
      socket.write(head.text, 'latin1');
      socket.write(live);
      socket.write(whole);
      socket.uncork();
      return length;
    }
    const scratch = this.#scratch;
    let end = scratch.write(head.text, 0, 'latin1');
    end += live.copy(scratch, end);
    end += body.bytes.copy(scratch, end, body.from, body.to);
    socket.write(scratch.subarray(0, end));
    // As long as bytes are on their way, they must stay as they are.
    if (socket.writableLength > 0) this.#scratch = Buffer.allocUnsafeSlow(scratchBytes);
    return length;
  }

  #headFor(located: AnswerId, wanted: Wanted, coding: Wanted['coding'], length: number): PreparedHead {
    const { memory, replier } = this.#proxy;
    const { alias, read, isLatest } = wanted;
    const stamp = memory.stampOf(located);
    const { prepared } = alias;
    if (prepared?.stamp === stamp && prepared.version === read.version && prepared.coding === coding) return prepared;
    const entry = memory.answer(located);
    const source = { kind: 'memory' } as const;
    const served = { entry, version: read.version, contentEncoding: undefined, isFinal: true, isLatest, source };
    const head = replier.headOf(served, coding, false);
    if (coding !== undefined) head.push('Content-Encoding', coding);
    head.push('Content-Length', String(length));
    const { status } = entry;
    alias.prepared = { stamp, version: read.version, coding, status, text: headText(status, head) };
    return alias.prepared;
  }

  #tell({ route, prepared }: Alias, { version }: Read, bytes: number, tookMs: number): void {
    const { observer } = this.#proxy;
    const hit = this.#hit;
    hit.route = route;
    hit.status = prepared?.status ?? 200;
    hit.version = version;
    hit.bytes = bytes;
    hit.savedBytes = bytes;
    observer.metrics.finished(hit, tookMs / 1000);
    observer.onEnd(hit, tookMs / 1000);
  }
}

interface Wanted {
  readonly alias: Alias;
  /** Pinned. */
  readonly read: Read;
  readonly isLatest: boolean;
  readonly coding: HeaderBlock['coding'];
  readonly socket: Socket;
  readonly nowMs: number;
}
