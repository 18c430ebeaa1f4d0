/**
 * Connections on their way to a worker. The cluster module holds its end of one until the worker says that it has taken
 * it; of a worker that ends before, it would hold it for ever, and the client would wait for ever.
 */
import type { ChildProcess } from 'node:child_process';

const lastWordsMs = 100;

interface Handle {
  close(): void;
}

/** What the module and a worker say of a connection: the only two of its messages that are looked at. */
interface ClusterMessage {
  readonly act?: string;
  readonly seq?: number;
  readonly ack?: number;
}

type Send = (message: ClusterMessage, handle?: Handle, ...rest: readonly unknown[]) => boolean;

/** Closes what the worker has not taken when it is gone. To be called before it is sent anything. */
export function closeUntaken(worker: ChildProcess): void {
  const untaken = new Map<number, Handle>();
  const send = worker.send.bind(worker) as unknown as Send;
  const watched: Send = (message, handle, ...rest) => {
    if (message.act === 'newconn' && message.seq !== undefined && handle !== undefined)
      untaken.set(message.seq, handle);
    return send(message, handle, ...rest);
  };
  worker.send = watched as unknown as ChildProcess['send'];
  worker.on('internalMessage', ({ ack }: ClusterMessage) => {
    if (ack !== undefined) untaken.delete(ack);
  });
  worker.once('exit', () => {
    // Its last words may still be unread. The channel's own end is not told while a connection is under way on it.
    const timer = setTimeout(() => {
      for (const handle of untaken.values()) handle.close();
      untaken.clear();
    }, lastWordsMs);
    timer.unref();
  });
}
