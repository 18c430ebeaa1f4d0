/**
 * Commands of one turn of the event loop leave together, as one piece. The client's own `enableAutoPipelining` does so as
 * well, but holds back what comes next until all of that is answered: a command waits for up to two answers' time, and
 * for the largest of those it was sent with.
 */
import type { Socket } from 'node:net';
import type { Redis } from 'ioredis';

/** To be called once for each connection, before its first command. */
export function gatherCommands(connection: Redis): void {
  const send = connection.sendCommand.bind(connection);
  connection.sendCommand = (command, stream) => {
    gather(connection.stream);
    return send(command, stream);
  };
}

/** There is no socket before the first connection. */
function gather(socket: Socket | undefined): void {
  if (socket === undefined || socket.writableCorked > 0) return;
  socket.cork();
  setImmediate(() => socket.uncork());
}
