/**
 * A node may close an idle connection just when a request leaves on it. The node is not at fault and has not received
 * the request, so an idempotent one is sent once more, over another connection.
 */
import { setImmediate } from 'node:timers/promises';
import type { CancelSignal } from '../../ledger/stop.ts';
import type { Progress } from '../dispatch/exchange.ts';

/** A FIN takes about as long as a request: a connection that is lost later than this was not idle. */
const newsMs = 1_000;

const lostCodes = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/**
 * Runs `exchange`, and once more when its connection was lost before a byte of the answer. A second loss is a failure.
 * `mayRepeat` bounds repeats: nodes that close every connection must not get every request twice.
 */
export function overLiveConnection<T>(
  exchange: () => Promise<T>,
  progress: Progress,
  signal: CancelSignal,
  mayRepeat: () => boolean = () => true,
): Promise<T> {
  return exchange().catch(async (error: unknown) => {
    if (signal.aborted || progress.isAnswered || !wasLost(error, progress) || !mayRepeat()) throw error;
    // A node that closes one idle connection often closes all: the FINs of the others are read first.
    await setImmediate();
    progress.sentAtMs = undefined;
    progress.isRepeat = true;
    return exchange();
  });
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
