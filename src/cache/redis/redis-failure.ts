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

/** Words for error codes of the connection. */
const connectionReasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection cut',
  EPIPE: 'connection cut',
  ENOTFOUND: 'name not found',
  EAI_AGAIN: 'name not found',
  EHOSTUNREACH: 'no route',
  ENETUNREACH: 'no route',
  ETIMEDOUT: 'no connection in time',
  ENOENT: 'no such socket',
  EACCES: 'the socket is closed to this user',
};

/** Words for codes of replies. */
const replyReasons: Readonly<Record<string, string>> = {
  NOAUTH: 'it demands a password',
  WRONGPASS: 'it refuses user or password',
  NOPERM: 'the user lacks a right',
  LOADING: 'it loads its data',
  MASTERDOWN: 'its primary is down',
  CLUSTERDOWN: 'the cluster is down',
  BUSY: 'a script blocks it',
  READONLY: 'it is a read-only replica',
  OOM: 'its memory is full',
  MISCONF: 'it cannot save its data',
  NOREPLICAS: 'too few of its replicas answer',
};

/**
 * The failure in words of a closed set, without addresses and without the client's own text, which is for the debug log.
 * `lastError`: the connection's, which has the cause that a command's error lacks.
 */
export function reasonOf(
  failure: RedisFailure,
  error: Error,
  { timeoutMs, lastError }: { readonly timeoutMs: number; readonly lastError?: Error | undefined },
): string {
  if (failure === 'timeout') return `no answer within ${timeoutMs} ms`;
  return wordsOf(error) ?? (lastError && wordsOf(lastError)) ?? 'the connection is lost';
}

function wordsOf(error: Error): string | undefined {
  const { code = '' } = error as NodeJS.ErrnoException;
  const reply = replyReasons[/^[A-Z]+\b/.exec(error.message)?.[0] ?? ''];
  const isOfTls = /TLS|SSL|CERT|SIGN/.test(code);
  return reply ?? connectionReasons[code] ?? (isOfTls ? 'TLS: the certificate or the handshake fails' : undefined);
}
