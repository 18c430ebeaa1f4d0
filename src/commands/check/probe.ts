/** One look at one upstream from outside: does it answer, in which dialect, with which ledger? */
import { Agent, errors, request } from 'undici';
import { type DialectName, dialectOf, findLedgerInfo, type LedgerInfo } from '../../ledger/ledger-headers.ts';

/** Outcome of a probe: a ledger, a ledger in the other dialect, another answer, or none. */
export type ProbeOutcome =
  | { readonly kind: 'ledger'; readonly ledger: LedgerInfo }
  | { readonly kind: 'other dialect'; readonly dialect: DialectName; readonly ledger: LedgerInfo }
  | { readonly kind: 'no ledger'; readonly status: number }
  | { readonly kind: 'unreachable'; readonly why: string };

/** Dialect, bound in milliseconds, and headers of a probe. */
export interface CheckProbeOptions {
  readonly dialect: DialectName;
  readonly timeoutMs: number;
  /** The node's own credentials. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** `GET {url}` on a connection of its own. Never throws and never takes longer than `timeoutMs`. */
export async function probe(url: URL, { dialect, timeoutMs, headers = {} }: CheckProbeOptions): Promise<ProbeOutcome> {
  const agent = new Agent({ connections: 1 });
  try {
    const {
      statusCode,
      headers: answered,
      body,
    } = await request(url, {
      dispatcher: agent,
      signal: AbortSignal.timeout(timeoutMs),
      headers: { accept: 'application/json', ...headers },
    });
    await body.dump();
    return outcomeOf(statusCode, answered, dialect);
  } catch (error) {
    return { kind: 'unreachable', why: connectionFault(error, timeoutMs) };
  } finally {
    await agent.destroy();
  }
}

function outcomeOf(status: number, headers: Parameters<typeof findLedgerInfo>[0], dialect: DialectName): ProbeOutcome {
  if (status < 200 || status > 299) return { kind: 'no ledger', status };
  const ledger = findLedgerInfo(headers, dialectOf(dialect));
  if (ledger !== undefined) return { kind: 'ledger', ledger };
  const other = dialect === 'node' ? 'aptos' : 'node';
  const otherLedger = findLedgerInfo(headers, dialectOf(other));
  return otherLedger === undefined
    ? { kind: 'no ledger', status }
    : { kind: 'other dialect', dialect: other, ledger: otherLedger };
}

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection is refused',
  ECONNRESET: 'the connection is cut',
  UND_ERR_SOCKET: 'the connection is cut',
  ENOTFOUND: 'the host name is not known',
  EAI_AGAIN: 'the host name cannot be looked up',
  EHOSTUNREACH: 'there is no route to the host',
  ENETUNREACH: 'there is no route to the host',
};

/** Reason of a failed connection, for people. */
export function connectionFault(error: unknown, timeoutMs: number): string {
  if (!(error instanceof Error)) return String(error);
  const isTimeout = error.name === 'TimeoutError' || error instanceof errors.ConnectTimeoutError;
  if (isTimeout) return `there is no answer within ${timeoutMs} ms`;
  const { code } = error as NodeJS.ErrnoException;
  if (code?.startsWith('HPE_') === true) return 'the answer is not HTTP';
  return (code === undefined ? undefined : reasons[code]) ?? code ?? error.message;
}
