/** Answers reads over every transport, from memory or the fleet. */
import { canonicalBytes } from './canonical-body.ts';
import { ownBytes } from '../../cache/index.ts';
import { LargeAnswerError } from '../../upstream/index.ts';
import { answerForm, CachedTarget, type Exchange, ownCopy, type TargetCache } from '../http/index.ts';
import { isOfLatest, type Read, type ReadResult, type Reads, type SharedRead } from '../reads/index.ts';
import type { BodyRead } from './parse-read.ts';
import type { Match, Router } from './router.ts';
import type { PassThrough } from './pass-through.ts';
import type { Encoder } from './encode-submission.ts';

/** Parts that serve requests on the client port. */
export interface RouteParts extends Omit<Reads, 'audits'> {
  readonly router: Router;
  readonly targets: TargetCache;
  readonly passThrough: PassThrough;
  /** `undefined`: nodes encode. No getter: V8 makes a literal that has one a dictionary, and each load slow. */
  readonly encoder: () => Encoder | undefined;
}

/**
 * Parses the read of `match`; `undefined`: a node has to answer it. The target cache gets reads of "latest" and those in
 * memory: most other pinned targets come once, and would displace them. Throws `GatewayError` 400.
 */
export function parseTarget(
  parts: RouteParts,
  match: Match,
  accept: string | undefined,
): CachedTarget | SharedRead | undefined {
  const { reader, router, targets } = parts;
  const read = match.parse(accept);
  if (read === undefined || 'shared' in read) return read;
  if (reader.isLarge(read)) return undefined;
  const parsed = new CachedTarget(match.route, read);
  const comesAgain = isOfLatest(parsed.read) || reader.locate(parsed.read) !== undefined;
  if (!comesAgain || !targets.admits()) return parsed;
  // A slice would keep the whole text of the received bytes in memory.
  const target = ownCopy(match.target);
  const cached = new CachedTarget(match.route, router.match(match.method, target).parse(accept) as Read);
  targets.add(target, cached);
  return cached;
}

/**
 * Parses the read in the body of `match`, once; `undefined`: a node has to answer it. The target cache gets it under the
 * body's exact bytes, by the rules of `parseTarget`. The read may share the received bytes, which no later read of the
 * socket changes: Node gives each chunk memory of its own. `match`: of a target of its own. Throws `GatewayError` 400.
 */
export function parsePosted({ reader, targets }: RouteParts, match: Match, request: BodyRead): Read | undefined {
  const read = match.parseBody(request);
  if (read === undefined) return undefined;
  const comesAgain = isOfLatest(read) || reader.locate(read) !== undefined;
  if (comesAgain && request.body.length <= canonicalBytes && targets.admits()) {
    const { target, contentType = '', accept, body } = request;
    const { wire } = read;
    // A slice of the received bytes would keep all of them in memory.
    const own = wire.body === body ? { ...read, wire: { ...wire, body: ownBytes(body) } } : read;
    targets.addPosted({ target, contentType, form: answerForm(accept), body }, new CachedTarget(match.route, own));
  }
  return read;
}

/** Answers a read: from memory at once, or from the fleet. Throws or rejects with `GatewayError`. */
export function answerRead(parts: RouteParts, exchange: Exchange, read: Read): void | Promise<void> {
  const { reader, freshness } = parts;
  const hit = findHit(parts, read, exchange);
  if (hit !== undefined) return writeRead(freshness, exchange, hit);
  exchange.requireTime();
  const load = isOfLatest(read)
    ? freshness.load(read, exchange)
    : reader.load(read, exchange, isOfHistory(read) ? freshness.demandOf(exchange.request).min : undefined);
  return load.then(
    (served) => writeRead(freshness, exchange, served),
    (error: unknown) => {
      // The next request for the target is parsed, and streamed.
      if (error instanceof LargeAnswerError) parts.targets.drop(exchange.target, read.form);
      throw error;
    },
  );
}

function findHit({ reader, freshness }: RouteParts, read: Read, { request }: Exchange): ReadResult | undefined {
  return isOfLatest(read) ? freshness.findRead(read, request) : reader.find(read);
}

/** Whether the answer grows with the ledger until it is final: a client must not get one of before its own reads. */
function isOfHistory({ extent }: Read): boolean {
  return extent !== undefined;
}

/** Writes the answer. After a committed transaction its connection reads no older state. */
export function writeRead(
  freshness: RouteParts['freshness'],
  exchange: Exchange,
  served: ReadResult,
): void | Promise<void> {
  const { committedAt } = served.entry;
  if (committedAt !== undefined) freshness.recordSeen(exchange.request, committedAt);
  return exchange.answerRead(served);
}
