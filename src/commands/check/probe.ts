/** One look at one upstream from outside: does it answer, in which dialect, with which ledger? */
import { Agent, request } from 'undici';
import {
  type DialectName,
  dialectOf,
  findLedgerInfo,
  type HeaderValues,
  type LedgerInfo,
} from '../../ledger/ledger-headers.ts';
import { dialectSpoken } from '../../upstream/fleet-dialect.ts';
import { lookupOf } from '../../upstream/node/node-client.ts';
import { SharedAddress } from '../../upstream/node/shared-address.ts';
import { faultOfError, faultOfLook, type NodeFaultReport } from '../../upstream/node/node-fault.ts';

/** Outcome of a probe. `fault`: why the gateway could not use the node, whatever its chain. */
export interface ProbeOutcome {
  readonly reachable: boolean;
  readonly dialect?: DialectName | undefined;
  readonly ledger?: LedgerInfo;
  readonly fault?: NodeFaultReport;
  /** Several nodes answer at the address. */
  readonly isShared?: boolean;
}

/** Bound in milliseconds, and headers of a probe. */
export interface CheckProbeOptions {
  readonly timeoutMs: number;
  /** The node's own credentials. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** The IP address to connect to. Default: whichever the host has. */
  readonly address?: string | undefined;
}

/** `GET {url}` on a connection of its own. Never throws and never takes longer than `timeoutMs`. */
export async function probe(
  url: string,
  { timeoutMs, headers = {}, address }: CheckProbeOptions,
): Promise<ProbeOutcome> {
  const connect = address === undefined ? {} : { lookup: lookupOf(address) };
  const dispatcher = new Agent({ connections: 1, connect });
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    const answer = await request(url, { dispatcher, signal, headers: { accept: 'application/json', ...headers } });
    await answer.body.dump();
    return outcomeOf(answer.statusCode, answer.headers);
  } catch (error) {
    return { reachable: false, fault: connectionFault(error, timeoutMs) };
  } finally {
    await dispatcher.destroy();
  }
}

/** Looks, each over a connection of its own, that find most balancers. */
const mostLooks = 8;

/** Probes one upstream, and again until the order of the ledgers shows that several nodes answer. */
export async function probeAddress(url: string, options: CheckProbeOptions): Promise<ProbeOutcome> {
  const address = new SharedAddress();
  const untilMs = performance.now() + options.timeoutMs;
  let outcome: ProbeOutcome = { reachable: false };
  for (let looks = 0; looks < mostLooks && !address.isShared; looks += 1) {
    const sentAtMs = performance.now();
    if (looks > 0 && sentAtMs >= untilMs) break;
    const next = await probe(url, options);
    if (looks === 0) outcome = next;
    if (next.fault !== undefined || next.ledger === undefined) break;
    address.observe(next.ledger, sentAtMs, performance.now());
  }
  return address.isShared ? { ...outcome, isShared: true } : outcome;
}

function outcomeOf(status: number, headers: HeaderValues): ProbeOutcome {
  const dialect = dialectSpoken({ status, headers });
  const ledger = dialect && findLedgerInfo(headers, dialectOf(dialect));
  if (ledger !== undefined) return { reachable: true, dialect, ledger };
  return { reachable: true, fault: faultOfLook(status, headers, 'node') };
}

/** The reason of a failed connection, and the time or code that shows it. */
export function connectionFault(error: unknown, timeoutMs: number): NodeFaultReport {
  const reason = faultOfError(error);
  if (reason === 'time-out') return { reason, value: `${timeoutMs} ms` };
  const { code, message } = error as Partial<NodeJS.ErrnoException>;
  const isNamed = reason === 'connection refused' || reason === 'connection cut' || reason === 'not HTTP';
  return isNamed ? { reason } : { reason, value: code ?? message };
}
