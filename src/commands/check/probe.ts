/** One look at one upstream from outside: does it answer, in which dialect, with which ledger? */
import { Agent, request } from 'undici';
import { type DialectName, dialectOf, findLedgerInfo, type LedgerInfo } from '../../ledger/ledger-headers.ts';
import { faultOfError, faultOfLook, otherDialect, type NodeFaultReport } from '../../upstream/node/node-fault.ts';

/** Outcome of a probe. `fault`: why the gateway could not use the node, whatever its chain. */
export interface ProbeOutcome {
  readonly reachable: boolean;
  readonly dialect?: DialectName;
  readonly ledger?: LedgerInfo;
  readonly fault?: NodeFaultReport;
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
    return { reachable: false, fault: connectionFault(error, timeoutMs) };
  } finally {
    await agent.destroy();
  }
}

function outcomeOf(status: number, headers: Parameters<typeof findLedgerInfo>[0], dialect: DialectName): ProbeOutcome {
  const ledger = status === 200 ? findLedgerInfo(headers, dialectOf(dialect)) : undefined;
  if (ledger !== undefined) return { reachable: true, dialect, ledger };
  const fault = faultOfLook(status, headers, dialect);
  if (fault.reason !== 'other dialect') return { reachable: true, fault };
  const spoken = otherDialect(dialect);
  const other = findLedgerInfo(headers, dialectOf(spoken));
  const value = `it speaks ${spoken}, the config says ${dialect}`;
  return {
    reachable: true,
    dialect: spoken,
    ...(other === undefined ? {} : { ledger: other }),
    fault: { ...fault, value },
  };
}

/** The reason of a failed connection, and the time or code that shows it. */
export function connectionFault(error: unknown, timeoutMs: number): NodeFaultReport {
  const reason = faultOfError(error);
  if (reason === 'time-out') return { reason, value: `${timeoutMs} ms` };
  const { code, message } = error as Partial<NodeJS.ErrnoException>;
  const isNamed = reason === 'connection refused' || reason === 'connection cut' || reason === 'not HTTP';
  return isNamed ? { reason } : { reason, value: code ?? message };
}
