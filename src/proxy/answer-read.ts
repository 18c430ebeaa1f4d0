/** From a parsed read to its answer, whether it is routed or answered ahead of routing. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { GatewayError } from '../ledger/errors.ts';
import type { RouteName } from '../metrics/http-metrics.ts';
import { Exchange } from './exchange.ts';
import type { Incoming, Outgoing } from './message.ts';
import type { Read } from './read.ts';
import type { Served } from './served.ts';
import type { ServerParts } from './server-parts.ts';
import { clientOf, visitOf } from './visit.ts';

/** Answers a read: from memory at once, or from the fleet. */
export function answerRead(parts: ServerParts, exchange: Exchange<Outgoing>, read: Read): void | Promise<void> {
  const { reader, freshness } = parts;
  const hit = findHit(parts, read, exchange.request);
  if (hit !== undefined) return giveRead(parts, exchange, hit);
  requireTime(parts);
  const load = isOfLatest(read) ? freshness.load(read, exchange) : reader.load(read, exchange);
  return load.then((served) => giveRead(parts, exchange, served));
}

/**
 * Throws `GatewayError` 503 while this process has more work than it gets done. Called before anything that needs a
 * node, Redis or the encoder: what memory holds is answered faster than it is refused, and submissions go on.
 */
export function requireTime({ overload }: ServerParts): void {
  if (!overload.isOverloaded()) return;
  overload.onShed();
  throw new GatewayError('unavailable', 'the gateway is overloaded; try again');
}

/** What memory holds of the read, at the version that reads of "latest" share where it names none. */
export function findHit({ reader, freshness }: ServerParts, read: Read, request: Incoming): Served | undefined {
  return isOfLatest(read) ? freshness.findRead(read, request) : reader.find(read);
}

/** Whether the gateway chooses the version. */
export function isOfLatest(read: Read): boolean {
  return read.version === undefined && read.operation !== 'transaction';
}

/** Whoever sees a transaction committed must not be shown an older state on this connection afterwards. */
export function giveRead(parts: ServerParts, exchange: Exchange<Outgoing>, served: Served): void | Promise<void> {
  const { committedAt } = served.entry;
  if (committedAt !== undefined) parts.freshness.recordSeen(exchange.request, committedAt);
  return parts.replier.read(exchange, served, parts.reader);
}

/** A request whose body is to be read. `check`: throws `GatewayError` for a head that makes the body needless. */
export interface Bodied {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly check?: (() => void) | undefined;
}

/** Reads the request's body and runs `serve` with it; a fault of head or body becomes an error answer. */
export function takeBody(
  parts: ServerParts,
  name: RouteName,
  { request, response, check }: Bodied,
  serve: (exchange: Exchange, body: Buffer) => void | Promise<void>,
): void {
  const visit = visitOf(response);
  // Who hangs up before the body's end is never heard of below.
  visit?.settleAtClose(response);
  const client = clientOf(request, visit);
  const faultOfHead = check && (() => faultIn(check));
  parts.bodies.read({ request, response, client, faultOfHead }, (body, holding) => {
    const exchange = new Exchange(request, response, name, parts.observer);
    exchange.holding = holding;
    if (!Buffer.isBuffer(body)) return parts.replier.error(exchange, body);
    exchange.bodyBytes = body.length;
    return guard(parts, exchange, () => serve(exchange, body));
  });
}

function faultIn(check: () => void): GatewayError | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
}

/**
 * Runs `serve`; what it throws becomes an error answer. The promise, if any, never rejects, and the request's place in
 * its plan is taken until it resolves.
 */
export function guard(
  { replier }: ServerParts,
  exchange: Exchange<Outgoing>,
  serve: () => void | Promise<void>,
): void | Promise<void> {
  try {
    const work = serve()?.catch((error: unknown) => replier.error(exchange, error));
    if (work !== undefined) exchange.visit?.holdFor(work, exchange.response);
    return work;
  } catch (error) {
    return replier.error(exchange, error);
  }
}
