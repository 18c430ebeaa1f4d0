/** From a parsed read to its answer, whether it is routed or answered ahead of routing. */
import type { IncomingMessage } from 'node:http';
import type { Exchange } from './exchange.ts';
import type { Read, Served } from './read.ts';
import type { ServerParts } from './server-parts.ts';

/** Answers a read: from memory at once, or from the fleet. */
export function answerRead(parts: ServerParts, exchange: Exchange, read: Read): void | Promise<void> {
  const { reader, latestReads } = parts;
  const hit = findHit(parts, read, exchange.request);
  if (hit !== undefined) return giveRead(parts, exchange, hit);
  const load = isOfLatest(read)
    ? latestReads.load(read, exchange.request, exchange.signal)
    : reader.load(read, exchange.signal);
  return load.then((served) => giveRead(parts, exchange, served));
}

/** What memory holds of the read, at the version that reads of "latest" share where it names none. */
export function findHit(
  { reader, latestReads }: ServerParts,
  read: Read,
  request: IncomingMessage,
): Served | undefined {
  return isOfLatest(read) ? latestReads.find(read, request) : reader.find(read);
}

/** Whether the gateway chooses the version. */
export function isOfLatest(read: Read): boolean {
  return read.version === undefined && read.operation !== 'transaction';
}

/** Whoever sees a transaction committed must not be shown an older state on this connection afterwards. */
export function giveRead(parts: ServerParts, exchange: Exchange, served: Served): void | Promise<void> {
  const { committedAt } = served.entry;
  if (committedAt !== undefined) parts.consistency.recordSeen(exchange.request, committedAt);
  return parts.replier.read(exchange, served, parts.reader);
}

/** Runs `serve`; whatever it throws becomes an error answer. */
export function guard({ replier }: ServerParts, exchange: Exchange, serve: () => void | Promise<void>): void {
  try {
    serve()?.catch((error: unknown) => replier.error(exchange, error));
  } catch (error) {
    replier.error(exchange, error);
  }
}
