/**
 * Streams of a sample account: its transactions, and its events by creation number. The nth member of a stream stands in
 * the nth block, at a place that depends on the stream, so that every stream grows with the head.
 */
import { createHash } from 'node:crypto';
import type { Address } from '../ledger/address.ts';
import { versionsPerBlock } from './ledger-clock.ts';

/** The versions of one stream. */
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
