/**
 * `GET {basePath}/-/usage`: the plan of a key, what is left of it, and its use, for the key's holder. Browsers get a page
 * that asks for the key and shows the same; without a key it has no content.
 */
import type { Access, AdmittedRequest } from '../../../access/index.ts';
import { GatewayError } from '../../../ledger/index.ts';
import type { Exchange } from '../../http/index.ts';
import { pageHead, usagePage } from './usage-page.ts';

type Principal = AdmittedRequest['principal'];

/** The answer to one key. */
interface HolderAnswer {
  /** JSON. Never rejects. */
  readonly body: Promise<string>;
  /** `performance.now()` from which on it is made anew. */
  readonly untilMs: number;
}

/** A key gets the same answer for this long: each costs three calls of Redis. */
const keptMs = 1_000;
const json = 'application/json; charset=utf-8';

/** Answers holders of keys. */
export class UsagePage {
  readonly #access: Access | undefined;
  readonly #answers = new WeakMap<Principal, HolderAnswer>();
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
    return this.#answerTo(admitted.principal, access).then((body) => exchange.answerOwn(200, json, body));
  }

  #pageOf({ header }: Access): string {
    if (header !== this.#page.header) this.#page = { header, html: usagePage(header) };
    return this.#page.html;
  }

  #answerTo(principal: Principal, access: Access): Promise<string> {
    const nowMs = performance.now();
    const known = this.#answers.get(principal);
    if (known !== undefined && nowMs < known.untilMs) return known.body;
    const body = bodyFor(principal, access);
    this.#answers.set(principal, { body, untilMs: nowMs + keptMs });
    return body;
  }
}

async function bodyFor(principal: Principal, access: Access): Promise<string> {
  const nowMs = Date.now();
  const [left, usage] = await Promise.all([access.standing(principal), access.usage.ofHolder(principal)]);
  const { name, tenant, plan } = principal;
  const inUnits = plan.quota?.unit ?? 'requests';
  const limits = left
    ?.filter((bound) => !isOfQuota(bound))
    .map(({ name: bound, limit, windowMs, remaining, freeInMs }) => {
      return { name: bound, limit, window_seconds: seconds(windowMs), remaining, reset_seconds: resetOf(freeInMs) };
    });
  const quota = left?.filter(isOfQuota).map(({ name: period, limit, remaining }) => {
    return { name: period, unit: inUnits, limit, remaining, resets_at: turnOf(period, new Date(nowMs)) };
  });
  const counted = usage && {
    day: usage.day,
    month: usage.month,
    last_month: usage.lastMonth,
    days: usage.days.map(({ period, requests, bytes, cost }) => ({ period, requests, bytes, cost })),
  };
  const { concurrency = null, streams = null } = plan;
  const facts = {
    at: new Date(nowMs).toISOString(),
    key: name,
    tenant,
    plan: plan.name,
    limits: limits ?? null,
    in_flight: { requests: concurrency, streams },
    quota: quota ?? null,
    usage: counted ?? null,
    complete: left !== undefined && usage !== undefined,
  };
  return `${JSON.stringify(facts)}\n`;
}

function isOfQuota({ name }: { readonly name: string }): boolean {
  return name === 'day' || name === 'month';
}

/** The begin of the next day or month in UTC. */
function turnOf(period: string, at: Date): string {
  const [year, month, date] = [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()];
  return new Date(period === 'day' ? Date.UTC(year, month, date + 1) : Date.UTC(year, month + 1)).toISOString();
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1_000);
}

function resetOf(freeInMs: number | undefined): number {
  return freeInMs === undefined ? 0 : seconds(freeInMs);
}

/** Whether `text/html` precedes JSON, as in browsers' `Accept`. */
function wantsPage(accept: string | undefined): boolean {
  const types = accept?.toLowerCase() ?? '';
  const [html, other] = [types.indexOf('text/html'), types.indexOf('application/json')];
  return html >= 0 && (other < 0 || html < other);
}
