/** Answers `GET` and `HEAD` of the ledger info from the shared state; its head is made once per change of the state. */
import type { InfoBody } from '../../reads/index.ts';
import type { ServerParts } from '../service.ts';
import type { Route } from '../route.ts';
import type { AdmittedRequest } from '../../../access/index.ts';
import { headText } from './head-text.ts';
import { HitSummary } from './hit-summary.ts';
import type { HeadText, HitText } from './hit-text.ts';
import type { PlainHead } from './request-head.ts';
import type { AnswerSink } from './response.ts';

/** One request, and the route of the ledger info. */
export interface InfoRequest {
  readonly head: PlainHead;
  readonly route: Route;
  readonly connection: AnswerSink;
  readonly admitted: AdmittedRequest | undefined;
}

/** Answers requests that name no freshness, without an `Exchange`. */
export class PreparedInfo {
  readonly #proxy: ServerParts;
  readonly #writer: HitText;
  readonly #summary = new HitSummary('local');
  #info: InfoBody | undefined;
  #vary = '';
  #head: HeadText = { common: Buffer.alloc(0), own: '', exposed: '' };

  constructor(proxy: ServerParts, writer: HitText) {
    this.#proxy = proxy;
    this.#writer = writer;
  }

  /** False: no answer and no side effect; the general way finds a state that satisfies the client, or its error. */
  answer({ head, route, connection, admitted }: InfoRequest): boolean {
    const { fleet, freshness, observer, heads } = this.#proxy;
    const { isDemanding, form, headers, isKept, origin } = head.block;
    const { view } = fleet;
    if (isDemanding || form === 'bcs' || !view.isPlain || view.oldest === undefined) return false;
    if (heads.isDraining || observer.spans !== undefined) return false;
    const nowMs = performance.now();
    const info = freshness.findLedgerInfo({ headers, socket: connection.socket });
    if (info === undefined) return false;
    const { body, version } = info;
    const isHead = head.method === 'HEAD';
    const request = { connection, nowMs, isKept, view, admitted, isHead, origin };
    this.#writer.writeBody(this.#headOf(info), body, request);
    const summary = this.#summary;
    summary.method = isHead ? 'HEAD' : 'GET';
    summary.route = route.name;
    summary.version = version;
    summary.bytes = isHead ? 0 : body.length;
    summary.admitted = admitted;
    summary.report(observer, nowMs);
    return true;
  }

  #headOf(info: InfoBody): HeadText {
    const { heads } = this.#proxy;
    const { vary } = heads;
    if (info !== this.#info || vary !== this.#vary) {
      const lines = headText(200, [...heads.infoHead(info.version), 'Content-Length', String(info.body.length)]);
      this.#head = { common: Buffer.from(lines, 'latin1'), own: '', exposed: '' };
      this.#info = info;
      this.#vary = vary;
    }
    return this.#head;
  }
}
