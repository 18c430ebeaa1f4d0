/**
 * Connections in flight to a worker. The cluster module keeps its handle of one until the worker acknowledges it; after an
 * exit before that it would keep it, and the client would wait, for ever.
 */
import type { ChildProcess } from 'node:child_process';

/** Acknowledgements of an exited worker may be unread for this long. */
const unreadMs = 100;

interface Handle {
  close(): void;
}

/** An internal message: a connection for a worker (`newconn`, `seq`), or its acknowledgement (`ack`). */
interface ClusterMessage {
  readonly act?: string;
  readonly seq?: number;
  readonly ack?: number;
}

type Send = (message: ClusterMessage, handle?: Handle, ...rest: readonly unknown[]) => boolean;

/** Closes unacknowledged connections when the worker exits. Call it before the first message to the worker. */
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
    // Not on `disconnect`, which is missing while a connection is in flight on the channel.
    setTimeout(() => {
      for (const handle of unacknowledged.values()) handle.close();
      unacknowledged.clear();
    }, unreadMs).unref();
  });
}
