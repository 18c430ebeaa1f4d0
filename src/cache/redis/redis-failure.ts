/** Classes of errors from the Redis client. Pure. */

/** `closed`: not sent, the circuit is open. `refused`: the server takes no writes. `wrong type`: of the key. */
export type RedisFailure = 'closed' | 'timeout' | 'connection' | 'refused' | 'wrong type' | 'error';
/** The failure of a command that was sent. */
export type CommandFailure = Exclude<RedisFailure, 'closed'>;

/** No answer within the bound. */
export class TimeoutError extends Error {}

/** Whether the failure concerns the whole server, not one key or kind of command. */
export function isOfServer(failure: RedisFailure): boolean {
  return failure === 'timeout' || failure === 'connection';
}

/** Reply codes of a server that refuses writes. */
const refusals = /^(?:READONLY|OOM|MISCONF|NOREPLICAS)\b/;
/** Reply codes of a server that refuses all commands. */
const unfit = /^(?:NOAUTH|WRONGPASS|LOADING|MASTERDOWN|CLUSTERDOWN|BUSY)\b/;

/** The class of a command's error. */
export function failureOf(error: Error, isWrite: boolean): CommandFailure {
  if (error instanceof TimeoutError) return 'timeout';
  if (error.name !== 'ReplyError') return 'connection';
  const { message } = error;
  if (message.startsWith('WRONGTYPE')) return 'wrong type';
  // A user without the right to write is the same as a read-only server.
  if (message.startsWith('NOPERM')) return isWrite ? 'refused' : 'connection';
  if (refusals.test(message)) return 'refused';
  return unfit.test(message) ? 'connection' : 'error';
}

/** The failure for the log. `lastError`: the connection's, which has the cause that a command's error lacks. */
export function reasonOf(
  failure: RedisFailure,
  error: Error,
  { timeoutMs, lastError }: { readonly timeoutMs: number; readonly lastError: string },
): string {
  if (failure === 'timeout') return `no answer within ${timeoutMs} ms`;
  return failure === 'connection' && error.name !== 'ReplyError' && lastError !== '' ? lastError : error.message;
}

/** The reason without addresses, which follow the error's code: for readers other than operators. */
export function withoutAddress(reason: string): string {
  return reason.replace(/\b(E[A-Z_]{4,})\b.*$/s, '$1');
}
