/**
 * The window of versions that one node holds, [oldest, head], and the speeds of both ends.
 *
 * Every answer of a node reports both ends (protocol 2.1). Between two answers the lower edge goes on moving, in steps of
 * the node's pruner, so a read close to it depends on the edge at the moment of its arrival.
 */
import type { LedgerInfo, LedgerVersion } from '../../ledger/index.ts';
import { SharedAddress } from './shared-address.ts';

/** Unit of a window: a node holds the versions of whole blocks. */
export type Unit = 'versions' | 'blocks';

/** A window as plain numbers, at one moment. */
export interface WindowView {
  /** Last head the node reported. */
  readonly head: bigint;
  /** Last lower edge that the node reported, or proved by a refusal. */
  readonly oldest: bigint;
  /** Versions (or blocks) from here up are held with margin at the moment of arrival. */
  readonly safeOldest: bigint;
}

/** The last one is replaced by the next report within `sampleGapMs` of the one before. */
interface WindowSample {
  atMs: number;
  oldest: bigint;
  head: bigint;
  /** Move of the edge since the sample before, in versions. */
  moved: number;
}

/** Speeds of the ends of a window, in versions per millisecond, and the steps of the lower one. */
interface Pace {
  readonly edgeSpeed: number;
  readonly headSpeed: number;
  /** The farthest that the edge was ahead of its steady course between two reports: about one step of the pruner. */
  readonly edgeStep: number;
  /** The move of that step, in versions, and the ms between its reports. */
  readonly step: { readonly moved: number; readonly gapMs: number };
}

const still: Pace = { edgeSpeed: 0, headSpeed: 0, edgeStep: 0, step: { moved: 0, gapMs: 0 } };

/** Speeds are averages of this much history: several pruner steps, yet short enough to follow a change. */
const historyMs = 15_000;
/** Samples closer together than this replace each other: a busy node answers thousands of times a second. */
const sampleGapMs = 50;
const maxSamples = historyMs / sampleGapMs;
/** The largest step of all samples is found this often: until then a step can only grow. */
const stepsMs = 1_000;
/** Requests that arrive within this time share one view: much less than the uncertainty of their arrival. */
const viewMs = 5;
/** Uncertainty of the arrival time itself: queues, a slow connection, a paused process. */
const jitterMs = 40;
/** A node that reports an older ledger than before for this long may have been restored or synced anew. */
const rollbackMs = 10_000;
/** Answers that overtake each other arrive within this time, in ms. */
const lowerMs = 500;
/** A refusal outweighs headers that claim the version for this long. */
const refusalMs = 10_000;

/**
 * Farthest believed move of an edge past the node's report. A ledger with 20,000 versions a second needs 8 minutes for
 * it, far longer than between two looks, and no pruner steps so far at once.
 */
const farthestMove = 10_000_000n;
/** One refusal takes at most a quarter of a small window. */
const smallestPart = 4n;

/** The window of one node, from its answers. */
export class RetentionWindow {
  #info: LedgerInfo | undefined;
  #infoAtMs = 0;
  /** Since when all reports have been of older ledgers than `info`, and the last of them. */
  #olderSinceMs: number | undefined;
  #older: LedgerInfo | undefined;
  /** The lower head was reported to operators. */
  isLowerReported = false;
  #samples: WindowSample[] = [];
  #pace = still;
  /** When all samples were compared for the largest step. */
  #steppedAtMs = -Infinity;
  #refused: { readonly version: bigint; readonly untilMs: number } | undefined;
  /** The last shared view, until the next report changes it. */
  #view: { readonly unit: Unit; readonly atMs: number; readonly window: WindowView | undefined } | undefined;

  readonly #address: SharedAddress;

  /** `address`: where several nodes may answer. Default: one node. */
  constructor(address = new SharedAddress()) {
    this.#address = address;
  }

  get info(): LedgerInfo | undefined {
    return this.#info;
  }

  /** The newest snapshot, as far as every node at the address holds it (see `SharedAddress.believed`). */
  get believed(): LedgerInfo | undefined {
    return this.#info && this.#address.believed(this.#info);
  }

  get observedAtMs(): number {
    return this.#infoAtMs;
  }

  /**
   * Records one answer. Answers overtake each other, so a report of an older ledger is ignored, until no other has come
   * for a while and a look at the ledger info (`isLook`) confirms it. Another chain replaces the window at once. Returns
   * whether the node has gone back on its chain.
   */
  observe(info: LedgerInfo, nowMs: number, isLook = true): boolean {
    const known = this.#info;
    let hasGoneBack = false;
    if (known !== undefined && info.chainId !== known.chainId) {
      this.#forget();
    } else if (known !== undefined && isOlder(info, known)) {
      this.#olderSinceMs ??= nowMs;
      this.#older = info;
      // Another one of several nodes behind the address may have answered.
      if (!isLook || this.#address.isShared || !this.maySeemRestored(nowMs)) return false;
      this.#forget();
      hasGoneBack = info.version < known.version;
    }
    if (known !== undefined && info.oldestVersion < known.oldestVersion) this.#forgetSamples();
    this.#olderSinceMs = undefined;
    this.#older = undefined;
    this.isLowerReported = false;
    if (info !== known) this.#view = undefined;
    this.#info = info;
    this.#infoAtMs = nowMs;
    this.#remember(nowMs, info);
    return hasGoneBack;
  }

  /** Whether reports have been of older ledgers for so long that a look at the ledger info has to decide. */
  maySeemRestored(nowMs: number): boolean {
    return this.#olderSinceMs !== undefined && nowMs - this.#olderSinceMs >= rollbackMs;
  }

  /** The last report, while all have had lower heads than `info` for half a second. */
  lowerAt(nowMs: number): LedgerInfo | undefined {
    const isLower = this.#older !== undefined && this.#info !== undefined && this.#older.version < this.#info.version;
    return isLower && nowMs - (this.#olderSinceMs ?? nowMs) >= lowerMs ? this.#older : undefined;
  }

  /** Records a snapshot that is believed even when its ledger is older. */
  adopt(info: LedgerInfo, nowMs: number): void {
    if (this.#info !== undefined && isOlder(info, this.#info)) {
      this.#forget();
      this.#info = undefined;
    }
    this.observe(info, nowMs);
  }

  #forget(): void {
    this.#forgetSamples();
    this.#refused = undefined;
    this.#view = undefined;
  }

  /**
   * Records that the node refused `version` as pruned, against its headers. Only refusals near the node's own edge count,
   * because clients choose versions and part of the error texts. Returns whether it counts.
   */
  observeRefusal(version: LedgerVersion, nowMs: number): boolean {
    const info = this.#info;
    if (info === undefined || version - info.oldestVersion > farthestRefusal(info)) return false;
    // Another node behind the address may hold the version.
    if (this.#address.isShared) return false;
    const standing = this.#refused;
    if (standing !== undefined && standing.untilMs > nowMs && standing.version > version) return true;
    this.#refused = { version, untilMs: nowMs + refusalMs };
    this.#view = undefined;
    return true;
  }

  /** The window for a request that arrives at `arrivalMs`. */
  at(arrivalMs: number, unit: Unit = 'versions'): WindowView | undefined {
    const info = this.#info;
    if (info === undefined) return undefined;
    const spread = this.#address.isShared ? this.#address.spreadOf(info) : undefined;
    const { deepest, shallowest } = spread ?? { deepest: info, shallowest: info };
    const movedBy = this.#movedBy(arrivalMs);
    if (unit === 'blocks') {
      // Assumes blocks of one size; a node beyond the estimate refuses with 410.
      const versions = Number(info.version - info.oldestVersion);
      const blocks = Number(info.blockHeight - info.oldestBlockHeight);
      const perVersion = versions === 0 ? 1 : Math.min(1, blocks / versions);
      const safeOldest = shallowest.oldestBlockHeight + BigInt(Math.ceil(movedBy * perVersion));
      return { head: info.blockHeight, oldest: deepest.oldestBlockHeight, safeOldest };
    }
    const refused = spread === undefined ? this.#refused : undefined;
    const shown = refused !== undefined && arrivalMs < refused.untilMs ? refused.version + 1n : 0n;
    const oldest = shown > deepest.oldestVersion ? shown : deepest.oldestVersion;
    const highest = shown > shallowest.oldestVersion ? shown : shallowest.oldestVersion;
    return { head: info.version, oldest, safeOldest: highest + BigInt(Math.ceil(movedBy)) };
  }

  /** The window at `arrivalMs` or up to 5 ms later: thousands of requests a second share a view. */
  around(arrivalMs: number, unit: Unit): WindowView | undefined {
    // Its spread changes with answers that do not change `info`.
    if (this.#address.isShared) return this.at(arrivalMs + viewMs, unit);
    const view = this.#view;
    const isGood = view?.unit === unit && arrivalMs <= view.atMs && view.atMs - arrivalMs <= viewMs;
    if (isGood) return view.window;
    const atMs = arrivalMs + viewMs;
    const window = this.at(atMs, unit);
    this.#view = { unit, atMs, window };
    return window;
  }

  /** Largest move of the edge since the last report, in versions. */
  #movedBy(arrivalMs: number): number {
    const { edgeSpeed, edgeStep } = this.#pace;
    return edgeSpeed * (Math.max(0, arrivalMs - this.#infoAtMs) + jitterMs) + edgeStep;
  }

  get pace(): Pace {
    return this.#pace;
  }

  #remember(atMs: number, { oldestVersion: oldest, version: head }: LedgerInfo): void {
    const samples = this.#samples;
    const before = samples[samples.length - 2];
    const last = samples[samples.length - 1];
    if (before !== undefined && last !== undefined && atMs - before.atMs < sampleGapMs) {
      last.atMs = atMs;
      if (oldest !== last.oldest) last.moved = Number(oldest - before.oldest);
      last.oldest = oldest;
      last.head = head;
      return;
    }
    samples.push({ atMs, oldest, head, moved: Number(oldest - (last?.oldest ?? oldest)) });
    while (samples.length > maxSamples || atMs - (samples[0]?.atMs ?? atMs) > historyMs) samples.shift();
    const isDue = atMs - this.#steppedAtMs >= stepsMs;
    if (isDue) this.#steppedAtMs = atMs;
    // The sample ahead of the new one was replaced since it was compared.
    this.#pace = isDue ? paceOf(samples) : paceOf(samples, samples.length - 2, this.#pace.step);
  }

  #forgetSamples(): void {
    this.#samples = [];
    this.#steppedAtMs = -Infinity;
  }
}

/** Both ends of a ledger only move up: of two answers with one head, the one with the lower edge is the earlier. */
function isOlder(info: LedgerInfo, known: LedgerInfo): boolean {
  return info.version < known.version || (info.version === known.version && info.oldestVersion < known.oldestVersion);
}

function farthestRefusal({ version, oldestVersion }: LedgerInfo): bigint {
  const part = (version - oldestVersion) / smallestPart;
  return part < farthestMove ? part : farthestMove;
}

/** `from`: the first sample whose step may exceed `largest`, of those before. */
function paceOf(samples: readonly WindowSample[], from = 1, largest = still.step): Pace {
  const first = samples[0];
  const last = samples.at(-1);
  if (first === undefined || last === undefined || last.atMs <= first.atMs) return still;
  const span = last.atMs - first.atMs;
  const edgeSpeed = Math.max(0, Number(last.oldest - first.oldest) / span);
  const headSpeed = Math.max(0, Number(last.head - first.head) / span);
  const aheadBy = ({ moved, gapMs }: Pace['step']): number => moved - edgeSpeed * gapMs;
  let step = largest;
  let before = samples[Math.max(1, from) - 1] ?? first;
  for (const sample of samples.slice(Math.max(1, from))) {
    const next = { moved: sample.moved, gapMs: sample.atMs - before.atMs };
    if (aheadBy(next) > aheadBy(step)) step = next;
    before = sample;
  }
  return { edgeSpeed, headSpeed, edgeStep: Math.max(0, aheadBy(step)), step };
}
