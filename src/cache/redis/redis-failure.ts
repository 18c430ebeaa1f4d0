/** What an error of the Redis client means for those who asked. Pure. */

/** Why a command has no value. `refused`: the server takes no writes now. `wrong type`: the key holds another type. */
export type RedisFailure = 'closed' | 'timeout' | 'connection' | 'refused' | 'wrong type' | 'error';
/** Of a command that was sent. */
export type CommandFailure = Exclude<RedisFailure, 'closed'>;

/** No answer within the bound. */
export class TimeoutError extends Error {}

/** Failures that say something of the server and not of one key or one kind of command. */
export function isOfServer(failure: RedisFailure): boolean {
  return failure === 'timeout' || failure === 'connection';
}

/** Reply codes that mean: no writes now. */
const refusals = /^(?:READONLY|OOM|MISCONF|NOREPLICAS)\b/;
/** Reply codes that mean: no commands of ours at all. */
const unfit = /^(?:NOAUTH|WRONGPASS|LOADING|MASTERDOWN|CLUSTERDOWN|BUSY)\b/;

export function failureOf(error: Error, isWrite: boolean): CommandFailure {
  if (error instanceof TimeoutError) return 'timeout';
  if (error.name !== 'ReplyError') return 'connection';
  const { message } = error;
  if (message.startsWith('WRONGTYPE')) return 'wrong type';
  // A user that may only read is as good as a server that takes no writes.
  if (message.startsWith('NOPERM')) return isWrite ? 'refused' : 'connection';
  if (refusals.test(message)) return 'refused';
  return unfit.test(message) ? 'connection' : 'error';
}

/** For people. Commands only say that there is no connection; why is in the connection's own last error. */
export function reasonOf(
  failure: RedisFailure,
  error: Error,
  { timeoutMs, lastError }: { readonly timeoutMs: number; readonly lastError: string },
): string {
  if (failure === 'timeout') return `no answer within ${timeoutMs} ms`;
  return failure === 'connection' && error.name !== 'ReplyError' && lastError !== '' ? lastError : error.message;
}

/** The reason without addresses, which stand behind the error's code: what others than operators may see. */
export function withoutAddress(reason: string): string {
  return reason.replace(/\b(E[A-Z_]{4,})\b.*$/s, '$1');
}
