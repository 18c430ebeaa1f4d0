/**
 * The seven ledger headers (interface specification 4.6, protocol 2.1). They describe the node's ledger at the moment
 * of the answer, not the version that was read.
 */
import { findU64, type LedgerVersion } from './version.ts';

/** `node`: X-NODE-*, the specified names. `aptos`: X-APTOS-*, what Aptos full nodes speak. */
export type DialectName = 'node' | 'aptos';

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

/** Header names of a dialect, lowercase. */
export interface Dialect {
  readonly name: DialectName;
  readonly prefix: string;
  readonly chainId: string;
  readonly version: string;
  readonly oldestVersion: string;
  readonly timestampUsec: string;
  readonly epoch: string;
  readonly blockHeight: string;
  readonly oldestBlockHeight: string;
  readonly gasUsed: string;
  readonly cursor: string;
}

export function dialectOf(name: DialectName): Dialect {
  const prefix = name === 'aptos' ? 'x-aptos-' : 'x-node-';
  return {
    name,
    prefix,
    chainId: `${prefix}chain-id`,
    version: `${prefix}ledger-version`,
    oldestVersion: `${prefix}ledger-oldest-version`,
    timestampUsec: `${prefix}ledger-timestampusec`,
    epoch: `${prefix}epoch`,
    blockHeight: `${prefix}block-height`,
    oldestBlockHeight: `${prefix}oldest-block-height`,
    gasUsed: `${prefix}gas-used`,
    cursor: `${prefix}cursor`,
  };
}

/** Header values by lowercase name; a repeated header is a list. */
export type HeaderValues = Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Reads a node's snapshot from its answer. `undefined` unless all seven are there and make sense: many answers carry
 * none (protocol 2.2), and a missing number must never be read as zero.
 */
export function findLedgerInfo(headers: HeaderValues, dialect: Dialect): LedgerInfo | undefined {
  const number = (name: string): bigint | undefined => {
    const value = headers[name];
    return typeof value === 'string' ? findU64(value) : undefined;
  };
  const chainId = number(dialect.chainId);
  const version = number(dialect.version);
  const oldestVersion = number(dialect.oldestVersion);
  const timestampUsec = number(dialect.timestampUsec);
  const epoch = number(dialect.epoch);
  const blockHeight = number(dialect.blockHeight);
  const oldestBlockHeight = number(dialect.oldestBlockHeight);
  if (chainId === undefined || version === undefined || oldestVersion === undefined) return undefined;
  if (timestampUsec === undefined || epoch === undefined) return undefined;
  if (blockHeight === undefined || oldestBlockHeight === undefined) return undefined;
  if (chainId > 255n || oldestVersion > version || oldestBlockHeight > blockHeight) return undefined;
  return {
    chainId: Number(chainId),
    version: version as LedgerVersion,
    oldestVersion: oldestVersion as LedgerVersion,
    timestampUsec,
    epoch,
    blockHeight,
    oldestBlockHeight,
  };
}

/** The seven headers as a flat list of names and values, the form `writeHead` takes cheapest. */
export function ledgerHeaderList(info: LedgerInfo, dialect: Dialect): readonly string[] {
  const list: readonly (readonly [string, number | bigint])[] = [
    [dialect.chainId, info.chainId],
    [dialect.version, info.version],
    [dialect.oldestVersion, info.oldestVersion],
    [dialect.timestampUsec, info.timestampUsec],
    [dialect.epoch, info.epoch],
    [dialect.blockHeight, info.blockHeight],
    [dialect.oldestBlockHeight, info.oldestBlockHeight],
  ];
  return list.flatMap(([name, value]) => [titleCase(name), String(value)]);
}

/** `x-node-chain-id` as `X-Node-Chain-Id`, the case nodes write. */
function titleCase(name: string): string {
  return name.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase());
}
