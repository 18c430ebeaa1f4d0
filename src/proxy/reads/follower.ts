/** The follower: reads pages of new transactions from the freshest node while somebody needs them. */
import type { LedgerVersion } from '../../ledger/index.ts';
import type { Fleet } from '../../upstream/index.ts';
import type { PageProof } from './page-proof.ts';
import type { Page } from './push-types.ts';
import type { Tail } from './tail.ts';

/** Live settings of the follower. */
export interface FollowSettings {
  readonly mode: 'auto' | 'always' | 'off';
  /** Reads of recent transactions a second. */
  readonly minReads: number;
}

/** Connections of a follower to the other workers. */
export interface FollowerEvents {
  publish(page: Page): void;
  /** This process needs pages: at most once a second. */
  wanted(): void;
  rolledBack(version: LedgerVersion): void;
  distrusted(): void;
}

/** Follows the ledger; one object in each process, of which the appointed one reads. */
export class Follower {
  /** Whether this process reads for all. */
  isAppointed = true;
  /** Sources of need, asked each second. */
  readonly needs = new Set<() => boolean>();

  // oxlint-disable-next-line no-useless-constructor -- the parts come with issue 37
  constructor(_fleet: Fleet, _tail: Tail, _settings: FollowSettings, _events: FollowerEvents, _proof: PageProof) {}

  /** A peer needs pages: for the next 3 s. */
  want(): void {}

  /** Compares the tail's history with that of the nodes, after a rollback or a fork. */
  recheck(): void {}

  close(): void {}
}
