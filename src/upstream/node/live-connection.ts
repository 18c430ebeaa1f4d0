/**
 * Requests over another connection, for the two ways in which an open one fails without the node's fault. A node may
 * close an idle connection just when a request leaves on it: the node has not received the request, so an idempotent one
 * is sent once more. And connections may hang, because the node's name has moved to another address or a middlebox has
 * dropped them silently: a probe goes out over new ones as well, which alone look the name up again.
 */
import { setImmediate } from 'node:timers/promises';
import { type CancelSignal, settlesWithin } from '../../ledger/index.ts';
import type { NodeAnswer, Progress } from '../dispatch/exchange.ts';
import type { NodeClient } from './node-client.ts';
import type { Upstream } from './upstream.ts';

/** The connection was closing while the request went out, so a read may be sent again. */
export class LostConnectionError extends Error {
  override readonly name = 'LostConnectionError';
  readonly code = 'ECONNRESET';
}

/** A FIN takes about as long as a request: a connection that is lost later than this was not idle. */
const newsMs = 1_000;

const lostCodes = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/**
 * Whether an exchange failed because its idle connection was lost, and may be sent once more; then `progress` is that of
 * the repeat. `mayRepeat` bounds repeats: nodes that close every connection must not get every request twice.
 */
export async function wasLostIdle(
  error: unknown,
  progress: Progress,
  signal: CancelSignal,
  mayRepeat: () => boolean = () => true,
): Promise<boolean> {
  if (signal.aborted || progress.isRepeat === true || progress.isAnswered) return false;
  if (!wasLost(error, progress) || !mayRepeat()) return false;
  // A node that closes one idle connection often closes all: the FINs of the others are read first.
  await setImmediate();
  progress.sentAtMs = undefined;
  progress.isRepeat = true;
  return true;
}

/** Whether the request was sent so recently that a FIN may have crossed it. */
export function isFresh({ sentAtMs }: Progress): boolean {
  return sentAtMs !== undefined && performance.now() - sentAtMs <= newsMs;
}

/** Whether the error is the loss of an idle connection; undici may lose it before it sends the request. */
function wasLost(error: unknown, progress: Progress): boolean {
  const mayBeNews = progress.sentAtMs === undefined || isFresh(progress);
  return mayBeNews && error instanceof Error && lostCodes.has((error as NodeJS.ErrnoException).code ?? '');
}

/** After this time, or a quarter of its time-out, a probe without an answer goes out over a new connection as well. */
const silentMs = 250;

/**
 * Runs `ask` over the node's open connections and, without an answer, over new ones beside them. Resolves with the first
 * answer. New connections that report a ledger first replace the open ones. Rejects as the first `ask` does.
 */
export async function overLiveClient(
  upstream: Upstream,
  timeoutMs: number,
  ask: (client: NodeClient) => Promise<NodeAnswer>,
): Promise<NodeAnswer> {
  const { client } = upstream;
  const first = ask(client);
  if (await settlesWithin(first, Math.min(silentMs, timeoutMs / 4))) return first;
  const fresh = upstream.openClient();
  let isPending = true;
  let isInUse = false;
  const second = ask(fresh).then((answer) => {
    if (answer.status !== 200 || answer.info === undefined) throw new Error('no ledger info over a new connection');
    // Another probe, or another process, may have replaced the open connections meanwhile.
    isInUse = isPending && upstream.client === client && !upstream.isRemoved;
    if (isInUse) upstream.replaceClient(fresh);
    return answer;
  });
  try {
    return await Promise.any([first, second]);
  } catch {
    return await first;
  } finally {
    isPending = false;
    if (!isInUse) void fresh.destroy();
  }
}
