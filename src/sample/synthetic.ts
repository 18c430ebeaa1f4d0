/**
 * State computed from (address, version) instead of recorded: its body alone shows a test which version was read, and a
 * benchmark reads bodies of any size. All of it lives in `0x1::ledgergate_sample`.
 */
import { createCipheriv, createHash } from 'node:crypto';
import { type Address, type StructTag, TypeTag } from '../ledger/index.ts';
import { versionsPerBlock } from './ledger-clock.ts';
import { hasRecordings } from './recorded.ts';

const module = 'ledgergate_sample';
const maxPaddedBytes = 8 * 1024 * 1024;

/** Addresses `0x5a000000` to `0x5affffff` exist too, with synthetic state only: benchmarks need many accounts. */
const madeUpAccount = /^0x5a[0-9a-f]{6}$/;

/** Whether an address is one of those with computed state only. */
export function isMadeUpAccount(address: Address): boolean {
  return madeUpAccount.test(address);
}

/** Whether an address has recorded or computed state. */
export function isKnownAccount(address: Address): boolean {
  return hasRecordings(address) || isMadeUpAccount(address);
}

/**
 * `Probe` names the address, the version and, on a fork, the history of the read. `Padded{n}` is a body of n bytes (or
 * the least possible), different for every address, size and version.
 */
export function findSyntheticResource(
  address: Address,
  tag: StructTag,
  version: bigint,
  history = '',
): string | undefined {
  if (tag.address !== '0x1' || tag.module !== module || tag.typeArguments.length > 0) return undefined;
  if (!isKnownAccount(address)) return undefined;
  const type = TypeTag.format(tag);
  if (tag.name === 'Probe') {
    const fork = history === '' ? {} : { history };
    return JSON.stringify({ type, data: { address, ledger_version: String(version), ...fork } });
  }
  const digits = /^Padded(\d{1,7})$/.exec(tag.name)?.[1];
  if (digits === undefined || Number(digits) > maxPaddedBytes) return undefined;
  const bare = JSON.stringify({ type, data: { address, ledger_version: String(version), padding: '' } });
  return `${bare.slice(0, -3)}${padding(bare, Number(digits) - bare.length)}${bare.slice(-3)}`;
}

/** A balance above 2^53, which a client that reads JSON numbers as doubles gets wrong. */
export function syntheticBalance(version: bigint, history = ''): string {
  return String((history === '' ? 2n ** 60n : 2n ** 61n) + version);
}

/** `0x` and 64 digits that depend on nothing but `text`. */
export function syntheticHash(text: string | Uint8Array): string {
  return `0x${createHash('sha256').update(text).digest('hex')}`;
}

/**
 * The hash of the synthetic transaction at a version. The version can be read from it, as
 * `versionOfTransactionHash` does: a sample node has no index of all its transactions.
 */
export function syntheticTransactionHash(version: bigint, history = ''): string {
  const bytes = createHash('sha256').update(`transaction ${version}${history}`).digest();
  bytes.writeBigUInt64BE(bytes.readBigUInt64BE(0) ^ version, 24);
  return `0x${bytes.toString('hex')}`;
}

/** The one version whose synthetic transaction can have `hash` (`0x` and 64 hex digits). */
export function versionOfTransactionHash(hash: string): bigint {
  const bytes = Buffer.from(hash.slice(2), 'hex');
  return bytes.readBigUInt64BE(0) ^ bytes.readBigUInt64BE(24);
}

/** The transaction at a version for which none was recorded. */
export function syntheticTransaction(version: bigint, timestampUsec: bigint, history = ''): string {
  return JSON.stringify({
    version: String(version),
    hash: syntheticTransactionHash(version, history),
    ...committedFields(version, history),
    changes: [],
    timestamp: String(timestampUsec),
    type: 'state_checkpoint_transaction',
  });
}

/** The members about execution that every committed transaction has. */
export function committedFields(version: bigint, history = ''): Readonly<Record<string, unknown>> {
  return {
    state_change_hash: syntheticHash(`state change ${version}`),
    event_root_hash: syntheticHash(`event root ${version}`),
    state_checkpoint_hash: null,
    gas_used: '9',
    success: true,
    vm_status: 'Executed successfully',
    accumulator_root_hash: syntheticHash(`accumulator root ${version}${history}`),
  };
}

/** Hex digits that do not compress. A cipher's key stream is far cheaper than hashing block after block. */
function padding(seed: string, length: number): string {
  if (length <= 0) return '';
  const key = createHash('sha256').update(seed).digest().subarray(0, 16);
  const stream = createCipheriv('aes-128-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(Math.ceil(length / 2)));
  return stream.toString('hex').slice(0, length);
}

/**
 * The versions of one stream of an account: its transactions, or its events by creation number. The nth member stands in
 * the nth block, at a place that depends on the stream, so that every stream grows with the head.
 */
export interface Stream {
  versionOf(sequence: bigint): bigint;
  /** Sequence number of the newest member at `version`; -1 before the first one. */
  lastAt(version: bigint): bigint;
}

/** The stream `name` of an account. */
export function streamOf(address: Address, name: string): Stream {
  const digest = createHash('sha256').update(`${address} ${name}`).digest();
  const place = BigInt(digest.readUInt16BE()) % versionsPerBlock;
  return {
    versionOf: (sequence) => sequence * versionsPerBlock + place,
    lastAt: (version) => (version < place ? -1n : (version - place) / versionsPerBlock),
  };
}

/** The transactions that an account has sent. */
export function transactionsOf(address: Address): Stream {
  return streamOf(address, 'transactions');
}
