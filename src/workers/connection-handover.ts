/**
 * Connections on their way to a worker. The cluster module holds its end of one until the worker acknowledges it: for a
 * worker that exits before, it would hold it for ever, and the client would wait for ever.
 */
import type { ChildProcess } from 'node:child_process';

/** Acknowledgements of an exited worker may still be unread for so long. */
const unreadMs = 100;

interface Handle {
  close(): void;
}

/** A connection of the module for a worker (`newconn`, `seq`), or a worker's acknowledgement (`ack`). */
interface ClusterMessage {
  readonly act?: string;
  readonly seq?: number;
  readonly ack?: number;
}

type Send = (message: ClusterMessage, handle?: Handle, ...rest: readonly unknown[]) => boolean;

/** Closes the connections that the worker has not taken at its exit. To be called ahead of its first message. */
export function closeUnacknowledged(worker: ChildProcess): void {
  const unacknowledged = new Map<number, Handle>();
  const send = worker.send.bind(worker) as unknown as Send;
  const watched: Send = (message, handle, ...rest) => {
    if (message.act === 'newconn' && message.seq !== undefined && handle !== undefined)
      unacknowledged.set(message.seq, handle);
    return send(message, handle, ...rest);
  };
  worker.send = watched as unknown as ChildProcess['send'];
  worker.on('internalMessage', ({ ack }: ClusterMessage) => {
    if (ack !== undefined) unacknowledged.delete(ack);
  });
  worker.once('exit', () => {
    // `disconnect` would be the signal, but it does not come while a connection is in flight on the channel.
    const timer = setTimeout(() => {
      for (const handle of unacknowledged.values()) handle.close();
      unacknowledged.clear();
    }, unreadMs);
    timer.unref();
  });
}
