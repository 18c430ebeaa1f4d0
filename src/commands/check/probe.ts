/** One look at one upstream from outside: does it answer, in which dialect, with which ledger? */
import { Agent, errors, request } from 'undici';
import { type DialectName, dialectOf, findLedgerInfo, type LedgerInfo } from '../../ledger/ledger-headers.ts';

/** Outcome of a probe. `fault`: why the gateway could not use the node, whatever its chain. */
export interface ProbeOutcome {
  readonly reachable: boolean;
  readonly dialect?: DialectName;
  readonly ledger?: LedgerInfo;
  readonly fault?: string;
}

/** Dialect, bound in milliseconds, and headers of a probe. */
export interface CheckProbeOptions {
  readonly dialect: DialectName;
  readonly timeoutMs: number;
  /** The node's own credentials. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** `GET {url}` on a connection of its own. Never throws and never takes longer than `timeoutMs`. */
export async function probe(
  url: string,
  { dialect, timeoutMs, headers = {} }: CheckProbeOptions,
): Promise<ProbeOutcome> {
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
    return { reachable: false, fault: `cannot be reached: ${connectionFault(error, timeoutMs)}` };
  } finally {
    await agent.destroy();
  }
}

function outcomeOf(status: number, headers: Parameters<typeof findLedgerInfo>[0], dialect: DialectName): ProbeOutcome {
  if (status < 200 || status > 299) {
    return {
      reachable: true,
      fault: `answers ${status} instead of its ledger: is this the base address, path included?`,
    };
  }
  for (const spoken of [dialect, dialect === 'node' ? 'aptos' : 'node'] as const) {
    const ledger = findLedgerInfo(headers, dialectOf(spoken));
    if (ledger === undefined) continue;
    if (spoken === dialect) return { reachable: true, dialect, ledger };
    const fault = `speaks the ${spoken} dialect, the config says ${dialect} (set "dialect: ${spoken}")`;
    return { reachable: true, dialect: spoken, ledger, fault };
  }
  return { reachable: true, fault: 'answers without ledger headers: is this the base address of a ledger node?' };
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
