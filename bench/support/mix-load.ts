/** Load of the mix: requests leave at a rate while connections are free, and their answers are checked and counted. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool, type Dispatcher } from 'undici';
import type { Route } from '../../simulate/shapes.ts';
import { Random } from '../../test/support/random.ts';
import { quantile } from './figures.ts';
import type { MixRequest, MixSource } from './mix-source.ts';

export interface MixLoad {
  readonly url: string;
  readonly source: MixSource;
  /** Requests in flight at most; waits for a transaction have connections of their own. */
  readonly connections: number;
  /** Requests a second; Infinity: as many as the connections carry. */
  readonly rate: number;
  /** The end: after so many requests. */
  readonly requests: number;
  /** Addresses that requests come from, in the header of a proxy. */
  readonly clients: number;
}

export interface MixAnswers {
  readonly requests: ReadonlyMap<Route, number>;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Requests that were answered 503: the gateway sheds load that its nodes do not carry. */
  readonly shed: number;
}

const waiters = 256;
const stepMs = 2;
/** A refused or failed request shows a fault of the bench: a few are named. */
const shownFaults = 5;

/** Resolves when every request was answered. Throws for answers other than 200, 202 and 503. */
export async function sendMix({ url, source, connections, rate, requests, clients }: MixLoad): Promise<MixAnswers> {
  const { origin, pathname } = new URL(url);
  const pools = { read: new Pool(origin, { connections }), wait: new Pool(origin, { connections: waiters }) };
  const counts = new Map<Route, number>();
  const tookMs: number[] = [];
  const faults: string[] = [];
  let shed = 0;
  const random = new Random(clients);
  const inFlight = { read: new Set<Promise<void>>(), wait: new Set<Promise<void>>() };
  const startMs = performance.now();
  for (let sent = 0; sent < requests;) {
    const due = Math.min(requests, rate === Infinity ? requests : ((performance.now() - startMs) * rate) / 1000);
    while (sent < due && inFlight.read.size < connections && inFlight.wait.size < waiters) {
      sent += 1;
      const request = source.next();
      counts.set(request.route, (counts.get(request.route) ?? 0) + 1);
      const kind = request.route === 'waitByHash' ? 'wait' : 'read';
      const asked = ask(pools[kind], request).finally(() => inFlight[kind].delete(asked));
      inFlight[kind].add(asked);
    }
    if (inFlight.read.size >= connections) await Promise.race(inFlight.read);
    else if (inFlight.wait.size >= waiters) await Promise.race(inFlight.wait);
    else if (sent < requests) await sleep(stepMs);
  }
  await Promise.all([...inFlight.read, ...inFlight.wait]);
  const seconds = (performance.now() - startMs) / 1000;
  await Promise.all([pools.read.destroy(), pools.wait.destroy()]);
  if (faults.length > 0) {
    throw new Error(`${faults.length} requests failed:\n${faults.slice(0, shownFaults).join('\n')}`);
  }
  return { requests: counts, seconds, p50Ms: quantile(tookMs, 0.5), p99Ms: quantile(tookMs, 0.99), shed };

  async function ask(pool: Pool, request: MixRequest): Promise<void> {
    const sentMs = performance.now();
    const { method, path, body = null, contentType } = request;
    const client = random.below(clients);
    const headers = {
      'x-forwarded-for': `10.${client >> 16}.${(client >> 8) & 255}.${client & 255}`,
      ...(contentType === undefined ? {} : { 'content-type': contentType }),
    };
    try {
      const answer = await pool.request({ method, path: pathname.replace(/\/$/, '') + path, body, headers });
      await read(request, answer);
    } catch (error) {
      faults.push(`${request.method} ${request.path}: ${String(error)}`);
    }
    if (request.route !== 'waitByHash') tookMs.push(performance.now() - sentMs);
  }

  async function read(request: MixRequest, { statusCode, body }: Dispatcher.ResponseData): Promise<void> {
    if (statusCode === 202) {
      const { hash } = (await body.json()) as { hash: string };
      if (request.route === 'submit') source.submitted(hash);
      return;
    }
    const text = await body.text();
    if (statusCode === 503) shed += 1;
    else if (statusCode !== 200) faults.push(`${request.method} ${request.path}: ${statusCode} ${text.slice(0, 200)}`);
  }
}
