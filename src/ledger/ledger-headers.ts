/**
 * The seven ledger headers (protocol 2.1): the node's ledger when it answered, not the version that was read. And headers that
 * cross the gateway: those that reach nodes, those of the interface, those of one hop. The ledger family is all names with
 * the dialect's prefix: later nodes add some without a known meaning (protocol 10), and these are bounded, because every
 * later answer may repeat them.
 */
import { findU64, type LedgerVersion } from './version.ts';

/** One node's ledger, as one coherent snapshot. */
export interface LedgerInfo {
  readonly chainId: number;
  readonly version: LedgerVersion;
  readonly oldestVersion: LedgerVersion;
  readonly timestampUsec: bigint;
  readonly epoch: bigint;
  readonly blockHeight: bigint;
  readonly oldestBlockHeight: bigint;
}

/** Header values by lowercase name; a repeated header is a list. */
export type HeaderValues = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The value of the header with this lowercase name; `undefined`: it is absent or repeated. */
export function headerOf(headers: HeaderValues, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value : undefined;
}

/** Names of headers in one dialect, lowercase, and the ledger that they describe. */
export class Dialect {
  readonly name: 'node' | 'aptos';
  readonly prefix: string;
  readonly gasUsed: string;
  readonly cursor: string;
  /** The key with which transactions of an epoch are encrypted: a fact of the ledger, as the seven are. */
  readonly epochKey: string;
  /** The names of the seven, in the order of `list`. */
  readonly seven: readonly string[];
  /** The same in the case nodes write. */
  readonly written: readonly string[];
  /** The names with a known meaning: the seven, gas used and cursor. */
  readonly known: ReadonlySet<string>;

  /** `node`: X-NODE-*, the specified names. `aptos`: X-APTOS-*, the names of Aptos full nodes. */
  constructor(name: 'node' | 'aptos') {
    const prefix = name === 'aptos' ? 'x-aptos-' : 'x-node-';
    this.name = name;
    this.prefix = prefix;
    this.gasUsed = `${prefix}gas-used`;
    this.cursor = `${prefix}cursor`;
    this.epochKey = `${prefix}txn-encryption-key`;
    this.seven =
      'chain-id ledger-version ledger-oldest-version ledger-timestampusec epoch block-height oldest-block-height'
        .split(' ')
        .map((word) => prefix + word);
    this.written = this.seven.map((each) => Dialect.titleCase(each));
    this.known = new Set([...this.seven, this.gasUsed, this.cursor]);
  }

  /** `x-node-chain-id` as `X-Node-Chain-Id`, the case nodes write. */
  static titleCase(name: string): string {
    return name.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase());
  }

  /** Reads a node's snapshot; `undefined` unless all seven headers make sense: a missing number is never zero. */
  findInfo(headers: HeaderValues): LedgerInfo | undefined {
    const info = readLedgerInfo(headers, this);
    return typeof info === 'string' ? undefined : info;
  }

  /**
   * Reason why headers hold no snapshot: `missing`, one of the seven is no number; `absurd`, no ledger can have all seven;
   * `below oldest`, the head is below the oldest version, as of a node that was set back and still reports its old edge.
   */
  faultOf(headers: HeaderValues): LedgerHeaderFault | undefined {
    const info = readLedgerInfo(headers, this);
    return typeof info === 'string' ? info : undefined;
  }

  /** The seven headers as a flat list of names and values, the form `writeHead` takes cheapest. */
  list(info: LedgerInfo): readonly string[] {
    const { chainId, version, oldestVersion, timestampUsec, epoch, blockHeight, oldestBlockHeight } = info;
    const values = [chainId, version, oldestVersion, timestampUsec, epoch, blockHeight, oldestBlockHeight];
    return values.flatMap((value, index) => [this.written[index] ?? '', String(value)]);
  }
}

type LedgerHeaderFault = 'missing' | 'absurd' | 'below oldest';

function readLedgerInfo(headers: HeaderValues, dialect: Dialect): LedgerInfo | LedgerHeaderFault {
  const numbers = dialect.seven.map((name) => {
    const value = headers[name];
    return typeof value === 'string' && asWritten.test(value) ? findU64(value) : undefined;
  });
  if (numbers.includes(undefined)) return 'missing';
  const [chainId, version, oldestVersion, timestampUsec, epoch, blockHeight, oldestBlockHeight] = numbers as Seven;
  // The header is a u8 (protocol 2.1).
  if (chainId > 255n) return 'absurd';
  const info = {
    chainId: Number(chainId),
    version: version as LedgerVersion,
    oldestVersion: oldestVersion as LedgerVersion,
    timestampUsec,
    epoch,
    blockHeight,
    oldestBlockHeight,
  };
  if (info.oldestVersion > info.version) return 'below oldest';
  return isAbsurd(info) ? 'absurd' : info;
}

type Seven = [bigint, bigint, bigint, bigint, bigint, bigint, bigint];

/** Nodes write a number in one way; any other spelling was changed in between. */
const asWritten = /^(?:0|[1-9]\d*)$/;

/**
 * Whether no ledger can have these numbers. The rules are those that the protocol makes certain: a window does not end
 * before it begins, a block has at least one version, so that its height is not above any of its versions, and only the
 * first block of a ledger is from time zero. Magnitude is no criterion: heads are compared with those of other nodes.
 */
function isAbsurd({ version, oldestVersion, timestampUsec, blockHeight, oldestBlockHeight }: LedgerInfo): boolean {
  if (oldestBlockHeight > blockHeight) return true;
  if (blockHeight > version || oldestBlockHeight > oldestVersion) return true;
  return timestampUsec === 0n && blockHeight > 0n;
}

/**
 * A list of needed headers, not of forbidden ones, because credentials come under any name (`X-Api-Key`,
 * `X-Auth-Token`), and so do addresses, paths and methods that frameworks believe in place of the request's
 * (`X-Forwarded-*`, `X-Original-URL`, `X-HTTP-Method-Override`, `X_Real_IP`).
 * `Accept-Encoding` is not among them: it is written anew (`proxy/routes/pass-through.ts`).
 */
const body = ['content-type', 'content-encoding'];
const descriptive = ['user-agent', 'x-request-id'];
/** Trace context of the client: parsed, and written anew (`metrics/trace/span.ts`), or left out. */
export const ofTraces: readonly string[] = ['traceparent', 'tracestate'];

/** Headers that compare a request with an earlier answer. */
export const conditions: readonly string[] = ['if-none-match', 'if-modified-since', 'if-match', 'if-unmodified-since'];

const passed: ReadonlySet<string> = new Set(['accept', ...body, ...descriptive, ...ofTraces, ...conditions]);

/** The interface's own headers, those of later nodes too (protocol 2.1). */
const ownPrefix = /^x-(?:node|aptos)-[a-z\d-]+$/;

/** Whether a client's header of this name (lower case) is sent on to a node. */
export function isForNodes(name: string): boolean {
  return passed.has(name) || isOfInterface(name);
}

/** Whether a header of this name (lower case) is one of the interface's own, in either direction. */
export function isOfInterface(name: string): boolean {
  return ownPrefix.test(name);
}

/** Names (lower case) of hop-by-hop headers, as the `Connection` header lists them (RFC 9110 7.6.1). */
export function namedByConnection(connection: string | undefined): ReadonlySet<string> {
  return new Set(
    connection
      ?.toLowerCase()
      .split(',')
      .map((name) => name.trim()),
  );
}

/** Separates headers in the text of an answer; no value has one. */
const separator = '\t';
const line = /^([a-z\d-]+): [ -~]*$/;
const { known, prefix } = new Dialect('node');

/** The ledger family's headers of one answer, as one text for the cache: `name: value` each, names without the prefix. */
export const familyText = {
  /** Most headers on one answer, beside those with a known meaning. */
  mostFields: 8,
  /** Bytes of their names and values together. */
  mostBytes: 4096,

  /** The text of headers by lower-case name; `undefined`: none. */
  of(fields: ReadonlyMap<string, string>, dialect: Dialect): string | undefined {
    if (fields.size === 0) return undefined;
    const lines = [...fields].map(([name, value]) => `${name.slice(dialect.prefix.length)}: ${value}`);
    // One order, because the text is a part of the answer's digest.
    return lines.sort().join(separator);
  },

  /** The inverse: names and values in turn, without the names in `left`. */
  list(text: string, dialect: Dialect, left: ReadonlySet<string>): string[] {
    return text.split(separator).flatMap((line) => {
      const at = line.indexOf(': ');
      const name = dialect.prefix + line.slice(0, at);
      return left.has(name) ? [] : [name, line.slice(at + 2)];
    });
  },

  /** Whether it may be such a text; one from elsewhere could forge a ledger header. */
  isValid(text: string): boolean {
    if (text.length > familyText.mostBytes) return false;
    const lines = text.split(separator);
    if (lines.length > familyText.mostFields) return false;
    return lines.every((each) => {
      const name = line.exec(each)?.[1];
      return name !== undefined && !known.has(prefix + name);
    });
  },
} as const;
