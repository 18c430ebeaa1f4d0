/** The seven ledger headers (protocol 2.1): the node's ledger when it answered, not the version that was read. */
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
