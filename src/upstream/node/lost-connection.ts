/**
 * A node may close an idle connection at the very moment a request leaves on it. That says nothing of the node, and the
 * request did not reach it, so what may be asked twice is asked once more, over another connection.
 */
import { setImmediate } from 'node:timers/promises';
import type { CancelSignal } from '../../ledger/stop.ts';
import type { Progress } from '../dispatch/exchange.ts';

/** News of a closed connection is under way about as long as a request: later than this something else went wrong. */
const newsMs = 1_000;

const lostCodes = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/**
 * Runs `exchange`; when its connection was lost before a byte of the answer, once more. A second loss is a failure.
 * `mayRepeat` is asked first: nodes that close every connection must not be asked everything twice.
 */
export function overLiveConnection<T>(
  exchange: () => Promise<T>,
  progress: Progress,
  signal: CancelSignal,
  mayRepeat: () => boolean = () => true,
): Promise<T> {
  return exchange().catch(async (error: unknown) => {
    if (signal.aborted || progress.isAnswered || !wasLost(error, progress) || !mayRepeat()) throw error;
    // A node that closes one idle connection often closes all: let the news of the others come in first.
    await setImmediate();
    progress.sentAtMs = undefined;
    progress.isRepeat = true;
    return exchange();
  });
}

/** Whether the request was sent so recently that news of a closed connection may have crossed it. */
export function isFresh({ sentAtMs }: Progress): boolean {
  return sentAtMs !== undefined && performance.now() - sentAtMs <= newsMs;
}

/** A request that was not sent yet is lost, too, with the idle connection that undici had chosen for it. */
function wasLost(error: unknown, progress: Progress): boolean {
  const mayBeNews = progress.sentAtMs === undefined || isFresh(progress);
  return mayBeNews && error instanceof Error && lostCodes.has((error as NodeJS.ErrnoException).code ?? '');
}
