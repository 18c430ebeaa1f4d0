/** Why a node cannot be used (`NodeFault`): a closed set of words without addresses, for logs, metrics and clients. */
import { Dialect, type HeaderValues } from '../../ledger/index.ts';

const remedies = {
  'connection refused': 'does the node listen on this port?',
  'connection cut': 'is the node, or a proxy before it, starting?',
  'connection failed': 'the connection could not be opened',
  'name not found': 'is the host name right, and does the resolver answer?',
  'no route': 'is the network of the node reachable from here?',
  TLS: 'is the certificate valid for this host and issued by a known authority, and does the port speak TLS?',
  'time-out': 'is the node overloaded, or does a firewall drop packets?',
  'not HTTP': 'is this the port of the REST interface?',
  'wrong base path': 'does the address end in /v1?',
  'credentials refused': 'are the headers of this upstream right?',
  'error status': 'does the node itself work?',
  'sheds requests': 'the node limits requests: raise its limit, or set maxRequestsPerSecond',
  'no ledger headers': 'is this the base address of a ledger node?',
  'absurd ledger headers': 'no ledger has these numbers: what changes headers between here and the node?',
  'head below oldest': 'was the node set back, and reports the edge of before?',
  'other dialect': 'all nodes of a fleet speak one dialect',
  'other chain': 'the gateway sends it no requests',
  'bad answer': 'what changes answers between here and the node?',
} as const;

/** Label `reason` of a node that is not usable. */
export type NodeFault = keyof typeof remedies;
/** All of them. */
export const nodeFaults = Object.keys(remedies) as NodeFault[];

/** A reason with the value that shows it, such as `status 404`. */
export interface NodeFaultReport {
  readonly reason: NodeFault;
  readonly value?: string | undefined;
}

/** The reason, its value and a step towards a remedy, as one line for people. */
export function describeFault({ reason, value }: NodeFaultReport): string {
  return `${reason}${value === undefined ? '' : ` (${value})`}: ${remedies[reason]}`;
}

/** An answer to a look at the ledger info that reports no ledger of the dialect. */
export class NodeFaultError extends Error {
  override readonly name = 'NodeFaultError';
  readonly reason: NodeFault;

  constructor({ reason, value = 'GET of the ledger info' }: NodeFaultReport) {
    super(`${reason}: ${value}`);
    this.reason = reason;
  }
}

const reasons: Readonly<Record<string, NodeFault>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection cut',
  ECONNABORTED: 'connection cut',
  EPIPE: 'connection cut',
  UND_ERR_SOCKET: 'connection cut',
  ENOTFOUND: 'name not found',
  EHOSTUNREACH: 'no route',
  ENETUNREACH: 'no route',
  EPROTO: 'TLS',
  ETIMEDOUT: 'time-out',
  UND_ERR_CONNECT_TIMEOUT: 'time-out',
};

/** Codes of Node for certificates that are not valid here, and for handshakes that fail. */
const ofTls =
  /^(?:ERR_TLS_|ERR_SSL_|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_CA$|INVALID_PURPOSE$|HOSTNAME_MISMATCH$)/;

/** The reason of an exchange that failed without an answer. */
export function faultOfError(error: unknown): NodeFault {
  if (error instanceof NodeFaultError) return error.reason;
  const { name, code } = error as Partial<NodeJS.ErrnoException>;
  if (name === 'TimeoutError') return 'time-out';
  // undici leaves out the code of some errors of its parser.
  if (name === 'HTTPParserError') return 'not HTTP';
  if (typeof code !== 'string') return 'bad answer';
  if (reasons[code] !== undefined) return reasons[code];
  if (code.startsWith('EAI_')) return 'name not found';
  if (ofTls.test(code)) return 'TLS';
  // Other codes of undici are about the answer, other codes of sockets about the connection.
  return code.startsWith('UND_ERR_') ? 'bad answer' : 'connection failed';
}

const refusals = new Set([401, 403, 407]);

/** The reason why an answer to a look at the ledger info, of any status, reports no ledger of the dialect. */
export function faultOfLook(status: number, headers: HeaderValues, dialect: Dialect['name']): NodeFaultReport {
  const value = `status ${status}`;
  if (refusals.has(status)) return { reason: 'credentials refused', value };
  if (status === 429) return { reason: 'sheds requests', value };
  if (status >= 500) return { reason: 'error status', value };
  if (status < 200 || status >= 300) return { reason: 'wrong base path', value };
  const other: Dialect['name'] = dialect === 'node' ? 'aptos' : 'node';
  if (new Dialect(other).findInfo(headers) !== undefined) return { reason: 'other dialect', value: other };
  const faults = [dialect, other].map((name) => new Dialect(name).faultOf(headers));
  if (faults[0] === undefined) return { reason: 'bad answer', value };
  if (faults.includes('below oldest')) return { reason: 'head below oldest' };
  return { reason: faults.includes('absurd') ? 'absurd ledger headers' : 'no ledger headers' };
}

/** The dialect of the ledger headers of a look; `undefined`: it has none. */
export function dialectOfLook(status: number, headers: HeaderValues): Dialect['name'] | undefined {
  if (status !== 200) return undefined;
  return (['node', 'aptos'] as const).find((name) => new Dialect(name).findInfo(headers) !== undefined);
}

/** The reason of a failed connection, and the time or code that shows it. */
export function connectionFault(error: unknown, timeoutMs: number): NodeFaultReport {
  const reason = faultOfError(error);
  if (reason === 'time-out') return { reason, value: `${timeoutMs} ms` };
  const { code, message } = error as Partial<NodeJS.ErrnoException>;
  const isNamed = reason === 'connection refused' || reason === 'connection cut' || reason === 'not HTTP';
  return isNamed ? { reason } : { reason, value: code ?? message };
}
