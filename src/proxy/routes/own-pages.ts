/**
 * Answers of the gateway's own, for clients. `GET {basePath}/-/health`: whether the endpoint serves, with no node's name or
 * number. `GET {basePath}/-/usage`: the plan of a key, what is left of it, and its use, for the key's holder; browsers get
 * a page that asks for the key and shows the same, and has no content without one.
 */
import type { Access, AdmittedRequest } from '../../access/index.ts';
import { GatewayError } from '../../ledger/index.ts';
import type { Fleet } from '../../upstream/index.ts';
import type { Exchange } from '../http/index.ts';
import { pageHead, usagePage } from './usage-page.ts';

type Principal = AdmittedRequest['principal'];

/** An answer, made anew from `untilMs` of `performance.now()` on. */
interface OwnAnswer<Body> {
  readonly body: Body;
  readonly untilMs: number;
}

/** Clients get the same health for this long: an attack costs ten looks at the fleet a second. */
const healthMs = 100;
/** A key gets the same answer for this long: each costs three calls of Redis. */
const usageMs = 1_000;
/** Addresses of a key with an answer of their own meanwhile; others get one without the bound of addresses. */
const mostAddresses = 8;
const json = 'application/json; charset=utf-8';

/** Answers requests for the health of this process, and those of holders of keys. */
export class OwnPages {
  readonly #fleet: Fleet;
  readonly #access: Access | undefined;
  readonly #isOverloaded: () => boolean;
  #health: (OwnAnswer<string> & { readonly status: 200 | 503 }) | undefined;
  /** JSON by the client's address, where the plan bounds each; '' without. Never reject. */
  readonly #usage = new WeakMap<Principal, OwnAnswer<Map<string, Promise<string>>>>();
  #page = { header: '', html: '' };

  /**
   * `access`: absent, there is no page of usage. `isOverloaded`: reads that memory does not hold are refused for want of
   * time.
   */
  constructor(fleet: Fleet, access: Access | undefined, isOverloaded: () => boolean) {
    this.#fleet = fleet;
    this.#access = access;
    this.#isOverloaded = isOverloaded;
  }

  /** Answers also while the process is overloaded: the answer costs less than its refusal. */
  serveHealth(exchange: Exchange): void {
    const nowMs = performance.now();
    const kept = this.#health;
    const { status, body } = kept !== undefined && nowMs < kept.untilMs ? kept : this.#healthAt(nowMs);
    exchange.answerOwn(status, json, body);
  }

  #healthAt(nowMs: number) {
    const fleet = this.#fleet;
    const { isReady, head, chainId, ledger } = fleet;
    const reportedAtMs = ledger.source?.window.observedAtMs;
    const isWhole = isReady && fleet.lost === undefined && !this.#isOverloaded() && this.#access?.isRefusing !== true;
    const facts = {
      status: !isReady ? 'unavailable' : isWhole ? 'serving' : 'degraded',
      chain_id: chainId,
      ledger_version: head?.version.toString(),
      ledger_timestamp: head?.timestampUsec.toString(),
      age_ms: reportedAtMs === undefined ? undefined : Math.max(0, Math.round(nowMs - reportedAtMs)),
    };
    const status: 200 | 503 = isReady ? 200 : 503;
    return (this.#health = { status, body: `${JSON.stringify(facts)}\n`, untilMs: nowMs + healthMs });
  }

  /** Throws `GatewayError` 401 and 404. */
  serveUsage(exchange: Exchange): void | Promise<void> {
    const access = this.#access;
    if (access === undefined) throw new GatewayError('notFound', 'not found');
    const { admitted, headers } = exchange;
    if (wantsPage(headers.accept))
      return exchange.answerOwn(200, 'text/html; charset=utf-8', this.#pageOf(access), pageHead);
    if (admitted === undefined) throw access.challenge();
    return this.#usageOf(admitted, access).then((body) => exchange.answerOwn(200, json, body));
  }

  #pageOf({ header }: Access): string {
    if (header !== this.#page.header) this.#page = { header, html: usagePage(header) };
    return this.#page.html;
  }

  #usageOf(admitted: AdmittedRequest, access: Access): Promise<string> {
    const { principal, address = '' } = admitted;
    const nowMs = performance.now();
    let kept = this.#usage.get(principal);
    if (kept === undefined || nowMs >= kept.untilMs) {
      kept = { body: new Map(), untilMs: nowMs + usageMs };
      this.#usage.set(principal, kept);
    }
    const bodies = kept.body;
    const of = bodies.has(address) || bodies.size < mostAddresses ? address : '';
    const body = bodies.get(of) ?? usageBody(admitted, of, access);
    bodies.set(of, body);
    return body;
  }
}

/** `address`: '' without the bound of addresses. */
async function usageBody(admitted: AdmittedRequest, address: string, access: Access): Promise<string> {
  const { principal } = admitted;
  const nowMs = Date.now();
  const [left, usage] = await Promise.all([
    admitted.standing(address === '' ? undefined : address),
    access.usage.ofHolder(principal),
  ]);
  const { name, tenant, plan } = principal;
  const { quota: bought, concurrency = null } = plan.bounds ?? {};
  const limits = left?.flatMap(({ name: bound, limit, windowMs, remaining, freeInMs, endsAtMs }) => {
    if (endsAtMs !== undefined) return [];
    return { name: bound, limit, window_seconds: seconds(windowMs), remaining, reset_seconds: seconds(freeInMs ?? 0) };
  });
  const quota = left?.flatMap(({ name: period, limit, remaining, endsAtMs }) => {
    if (endsAtMs === undefined) return [];
    return { name: period, unit: bought?.unit, limit, remaining, resets_at: new Date(endsAtMs).toISOString() };
  });
  const counted = usage && {
    day: usage.day,
    month: usage.month,
    last_month: usage.lastMonth,
    days: usage.days.map(({ period, requests, bytes, cost }) => ({ period, requests, bytes, cost })),
  };
  const facts = {
    at: new Date(nowMs).toISOString(),
    key: name,
    tenant,
    plan: plan.name,
    limits: limits ?? null,
    in_flight: { requests: concurrency, streams: plan.streamBounds?.concurrency ?? null },
    quota: quota ?? null,
    usage: counted ?? null,
    complete: left !== undefined && usage !== undefined,
  };
  return `${JSON.stringify(facts)}\n`;
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1_000);
}

/** Whether `text/html` precedes JSON, as in browsers' `Accept`. */
function wantsPage(accept: string | undefined): boolean {
  const types = accept?.toLowerCase() ?? '';
  const [html, other] = [types.indexOf('text/html'), types.indexOf('application/json')];
  return html >= 0 && (other < 0 || html < other);
}
