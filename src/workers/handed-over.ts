/**
 * Connections on their way from the primary to a worker. The primary keeps its end of each until the worker has said
 * that it took it; from a worker that dies before, `node:cluster` waits for that word for ever, and so does the client.
 */
import type { Worker } from 'node:cluster';

interface Handle {
  close(): void;
}

/** The messages of `node:cluster` itself, as far as they matter here: a connection, and the answer to it. */
interface ClusterMessage {
  readonly act?: string;
  readonly seq?: number;
  readonly ack?: number;
}

/** Closes what the worker had not taken yet when it ended, so that clients hear of it at once. */
export function closeWhatIsLost(worker: Worker): void {
  const onTheWay = new Map<number, Handle>();
  const { process } = worker;
  // There is no event for it: the connection is handed over by a message, and that passes here.
  const send = process.send.bind(process) as (...parts: unknown[]) => boolean;
  process.send = (...parts: unknown[]): boolean => {
    const [message, handle] = parts as [ClusterMessage | undefined, Handle | undefined];
    if (message?.act === 'newconn' && message.seq !== undefined && handle !== undefined) {
      onTheWay.set(message.seq, handle);
    }
    return send(...parts);
  };
  process.on('internalMessage', ({ ack }: ClusterMessage) => {
    if (ack !== undefined) onTheWay.delete(ack);
  });
  worker.once('exit', () => {
    for (const handle of onTheWay.values()) handle.close();
    onTheWay.clear();
  });
}
