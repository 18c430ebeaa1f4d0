/**
 * `GET {basePath}/-/usage`: the plan of a key, what is left of it, and its use, for the key's holder. Browsers get a page
 * that asks for the key and shows the same; without a key it has no content.
 */
import type { Access, AdmittedRequest } from '../../../access/index.ts';
import { GatewayError } from '../../../ledger/index.ts';
import type { Exchange } from '../../http/index.ts';
import { pageHead, usagePage } from './usage-page.ts';

type Principal = AdmittedRequest['principal'];

/** The answers to one key. */
interface HolderAnswers {
  /** JSON by the client's address, where the plan bounds each; '' without. Never reject. */
  readonly bodies: Map<string, Promise<string>>;
  /** `performance.now()` from which on they are made anew. */
  readonly untilMs: number;
}

/** A key gets the same answer for this long: each costs three calls of Redis. */
const keptMs = 1_000;
/** Addresses of a key with an answer of their own meanwhile; others get one without the bound of addresses. */
const mostAddresses = 8;
const json = 'application/json; charset=utf-8';

/** Answers holders of keys. */
export class UsagePage {
  readonly #access: Access | undefined;
  readonly #answers = new WeakMap<Principal, HolderAnswers>();
  #page = { header: '', html: '' };

  /** `access`: absent: the endpoint is open, and there is no such page. */
  constructor(access: Access | undefined) {
    this.#access = access;
  }

  /** Throws `GatewayError` 401 and 404. */
  serve(exchange: Exchange): void | Promise<void> {
    const access = this.#access;
    if (access === undefined) throw new GatewayError('notFound', 'not found');
    const { admitted, headers } = exchange;
    if (wantsPage(headers.accept))
      return exchange.answerOwn(200, 'text/html; charset=utf-8', this.#pageOf(access), pageHead);
    if (admitted === undefined) throw access.challenge();
    return this.#answerTo(admitted, access).then((body) => exchange.answerOwn(200, json, body));
  }

  #pageOf({ header }: Access): string {
    if (header !== this.#page.header) this.#page = { header, html: usagePage(header) };
    return this.#page.html;
  }

  #answerTo(admitted: AdmittedRequest, access: Access): Promise<string> {
    const { principal, address = '' } = admitted;
    const nowMs = performance.now();
    let answers = this.#answers.get(principal);
    if (answers === undefined || nowMs >= answers.untilMs) {
      answers = { bodies: new Map(), untilMs: nowMs + keptMs };
      this.#answers.set(principal, answers);
    }
    const { bodies } = answers;
    const of = bodies.has(address) || bodies.size < mostAddresses ? address : '';
    const body = bodies.get(of) ?? bodyFor(admitted, of, access);
    bodies.set(of, body);
    return body;
  }
}

/** `address`: '' without the bound of addresses. */
async function bodyFor(admitted: AdmittedRequest, address: string, access: Access): Promise<string> {
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
