/** The ledger in simulated time: a block at a time, and a node's view of it. */
import type { LedgerInfo } from '../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../src/ledger/version.ts';
import { blockMs, type LedgerShape } from './shape.ts';

export const chainId = 1;
/** Height at time 0: two years of blocks. */
const firstBlock = 1_600_000_000;
const startUsec = 1_700_000_000_000_000n;
const versionsPerEpoch = 1_368_000n;

export class SimulatedLedger {
  readonly #blockMs: number;
  readonly #perBlock: number;
  readonly #retentionBlocks: number;

  constructor(shape: LedgerShape) {
    this.#blockMs = blockMs(shape);
    this.#perBlock = shape.versionsPerBlock;
    this.#retentionBlocks = Math.floor(shape.retentionMs / this.#blockMs);
  }

  /** Height of the newest block at a moment. */
  blockAt(atMs: number): number {
    return firstBlock + Math.floor(atMs / this.#blockMs);
  }

  /** When the block was committed; before the run for most. */
  committedMs(block: number): number {
    return (block - firstBlock) * this.#blockMs;
  }

  /** Last version of a block: what a node that has it calls its head. */
  versionOf(block: number): LedgerVersion {
    return LedgerVersion.of(BigInt(block) * BigInt(this.#perBlock) + BigInt(this.#perBlock - 1));
  }

  /** Height of the oldest block that a node keeps whose newest is `block`. */
  oldestOf(block: number): number {
    return Math.max(0, block - this.#retentionBlocks);
  }

  /** Ledger info of a node whose head is `block` and whose window begins with `oldest`. */
  infoAt(block: number, oldest: number): LedgerInfo {
    const version = this.versionOf(block);
    return {
      chainId,
      version,
      oldestVersion: LedgerVersion.of(BigInt(oldest) * BigInt(this.#perBlock)),
      timestampUsec: startUsec + BigInt(Math.round(this.committedMs(block))) * 1000n,
      epoch: version / versionsPerEpoch,
      blockHeight: BigInt(block),
      oldestBlockHeight: BigInt(oldest),
    };
  }
}
