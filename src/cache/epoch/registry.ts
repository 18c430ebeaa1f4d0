import { randomBytes } from 'node:crypto';
import {
  continued,
  endedField,
  everyEpoch,
  formatEpoch,
  isOlder,
  readEpochs,
  surplusFields,
  type Checkpoint,
  type Epoch,
  type Epochs,
} from './epoch.ts';

/** Keeps the epochs of ledgers as fields, for all processes of a tier. No method rejects. */
export interface EpochFields {
  /** `undefined`: no answer now. */
  read(ledger: string): Promise<Readonly<Record<string, string>> | undefined>;
  /** Resolves to whether the field is kept. */
  put(ledger: string, field: string, value: string): Promise<boolean>;
  delete(ledger: string, fields: readonly string[]): Promise<unknown>;
  /** Records this process as a member of the epoch, for `beatMs`. */
  beat(ledger: string, id: string, beatMs: number): Promise<unknown>;
  /** Whether another process recorded itself within `beatMs`; `undefined`: no answer now. */
  hasMembers(ledger: string, id: string, beatMs: number): Promise<boolean | undefined>;
}

/** The answers of nodes about a checkpoint. */
export interface CheckpointReport {
  /**
   * Nodes' roots at a checkpoint's version. `same`: nodes report its root, and none another. `mixed`: some do. `other`:
   * none does. `pruned`: no node reports a root, and one has pruned the version. `unknown`: no report.
   */
  readonly agreement: 'same' | 'other' | 'mixed' | 'pruned' | 'unknown';
  /** A newer checkpoint, of a node that confirmed the compared one afterwards. */
  readonly next: Checkpoint | undefined;
}

/** A report with the time of the request, on the clock of `performance.now()`: a pause of the process may delay the answer. */
interface TimedReport extends CheckpointReport {
  readonly askedMs: number;
}

/** The nodes' ledger, as the epochs of every tier depend on it. */
export interface ComparedLedger {
  /** Chain id and first transaction, `4.1a2b3c4d`; `undefined` while they are not known. */
  readonly ledger: () => string | undefined;
  /** The fleet's generation: when it rises, earlier confirmations do not count. */
  readonly generation: () => number;
  /** Start of an outage, on the clock of `performance.now()`; `undefined`: a node answers. */
  readonly outageFromMs: () => number | undefined;
  /** Reads every node's root at `known`; `wantsNext`: before that, one node's root at its head. */
  readonly readRoots: (known: Checkpoint | undefined, wantsNext: boolean) => Promise<CheckpointReport>;
  /** All nodes report a new root at `version`: the ledger's history was replaced. */
  readonly onReplaced: (version: bigint) => void;
  /** A replica that uses the same name is on another history: answers of the tier may belong to it. */
  readonly onForeign: () => void;
}

interface EpochTimes {
  /** Between two comparisons. */
  readonly intervalMs: number;
  /** An epoch that no member has recorded for so long has none. */
  readonly beatMs: number;
  /** Nodes' confirmation allows the use of the tier for so long: a rollback is noticed within that. */
  readonly trustedMs: number;
  /** Nodes may be so long behind a checkpoint before an epoch begins beside it. */
  readonly patienceMs: number;
}

/** The times for a gateway of so many processes: together each node gets fewer than one request a second. */
export function epochTimes(processes: number): EpochTimes {
  const intervalMs = 2_500 * processes;
  return {
    intervalMs,
    beatMs: 2.4 * intervalMs,
    trustedMs: Math.max(10_000, 2 * intervalMs),
    patienceMs: 30_000,
  };
}

/** The trouble of a tier whose epoch nodes have not confirmed. */
export const unverified = 'nodes have not confirmed the history of its ledger yet';

/** An epoch in use, and its ledger. */
export interface CurrentEpoch {
  readonly ledger: string;
  readonly epoch: Epoch;
}

/** This process on one ledger, in one generation of the fleet. */
interface Membership {
  readonly ledger: string;
  readonly generation: number;
  epoch: Epoch | undefined;
  /** Time of the nodes' last confirmation, on the clock of `performance.now()`. */
  confirmedAtMs: number;
  /** Epochs whose root nodes contradicted. */
  readonly denied: Set<string>;
  /** Checkpoints that nodes here have not reached, by the epoch's id. */
  readonly awaited: Map<string, Checkpoint>;
  waitingSinceMs: number | undefined;
}

/** An epoch with the checkpoint that nodes compared. */
interface Comparison extends Partial<CheckpointReport>, Pick<TimedReport, 'askedMs'> {
  readonly epoch: Epoch;
}

/** An epoch that this process ended. */
interface End {
  readonly ledger: string;
  /** The tier has it. */
  isRecorded: boolean;
}

/** Pause in ms after the first check without a result; each further one adds as much. */
const retryMs = 1_100;
const mostEnded = 16;
const idBytes = 5;

/**
 * Compares the history of the nodes' ledger with the epochs of every tier of this process that outlives it: one loop, in
 * which a checkpoint that tiers have in common is read from nodes once.
 */
export class EpochRegistry {
  readonly nodes: ComparedLedger;
  readonly times: EpochTimes;
  readonly #tiers: TierEpoch[] = [];
  /** Reports of the present round, by the request for them. */
  readonly #reports = new Map<string, Promise<TimedReport>>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(nodes: ComparedLedger, times: EpochTimes) {
    this.nodes = nodes;
    this.times = times;
  }

  /** The epoch in the tier with these fields, which the loop compares from now on. */
  join(fields: EpochFields): TierEpoch {
    const tier = new TierEpoch(fields, this);
    this.#tiers.push(tier);
    return tier;
  }

  /** Ends the earlier epoch of each tier for every replica after a rollback, whichever root nodes report. */
  rolledBack(): void {
    for (const tier of this.#tiers) tier.rolledBack();
    void this.check();
  }

  /** Compares the history with nodes and other replicas now, each tier once at a time. Never rejects. */
  async check(): Promise<void> {
    if (this.#isClosed) return;
    clearTimeout(this.#timer);
    // A report of an earlier generation confirms nothing in this one.
    this.#reports.clear();
    await Promise.all(this.#tiers.map((tier) => tier.check()));
  }

  /** `ComparedLedger.readRoots`, once a round for equal requests of several tiers. */
  readRoots(known: Checkpoint | undefined, wantsNext: boolean): Promise<TimedReport> {
    const request = `${known?.version} ${known?.root} ${wantsNext}`;
    const found = this.#reports.get(request);
    if (found !== undefined) return found;
    const askedMs = performance.now();
    const report = this.nodes.readRoots(known, wantsNext).then((answer) => ({ ...answer, askedMs }));
    this.#reports.set(request, report);
    return report;
  }

  /** A tier's check has ended. The next one waits for no other tier: a disk that hangs keeps no other tier waiting. */
  schedule(): void {
    if (this.#isClosed) return;
    const pauseMs = Math.min(this.times.intervalMs, ...this.#tiers.map((tier) => tier.pauseMs));
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.check(), pauseMs).unref();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }
}

/**
 * The epoch of the ledger's history that this process is in, whose name it may use in a tier that outlives it: Redis, or
 * the store. It confirms the epoch with nodes, joins that of another process, or begins one. An accumulator root that
 * nodes report again and again identifies the history (docs/redis.md has the argument). It fails closed: without a recent
 * confirmation by nodes the tier is not used, because a wrong name means a wrong answer.
 */
export class TierEpoch {
  readonly #fields: EpochFields;
  readonly #registry: EpochRegistry;
  readonly #nodes: ComparedLedger;
  readonly #times: EpochTimes;
  #checking: Promise<void> | undefined;
  #membership: Membership | undefined;
  /** The last epoch of an earlier generation. */
  #left: CurrentEpoch | undefined;
  /** Epochs that this process ended, by id, also where the tier did not store the end, or lost it. */
  readonly #ended = new Map<string, End>();
  /** Consecutive checks without a result: they lengthen the pause, for nodes that report no root. */
  #fruitless = 0;

  constructor(fields: EpochFields, registry: EpochRegistry) {
    this.#fields = fields;
    this.#registry = registry;
    this.#nodes = registry.nodes;
    this.#times = registry.times;
  }

  /** The epoch in use now; `undefined`: this process must not use the tier. */
  get current(): CurrentEpoch | undefined {
    const own = this.#membership;
    if (own?.epoch === undefined) return undefined;
    if (!this.#isCurrent(own)) {
      this.#renew();
      void this.#registry.check();
      return undefined;
    }
    // In an outage no node replaces the history: the confirmation holds until one answers.
    const untilMs = this.#nodes.outageFromMs() ?? performance.now();
    const isTrusted = untilMs - own.confirmedAtMs <= this.#times.trustedMs;
    return isTrusted ? { ledger: own.ledger, epoch: own.epoch } : undefined;
  }

  /** All epochs of the ledger that may have entries, by id; `undefined`: no answer now. */
  async everyId(ledger: string): Promise<readonly string[] | undefined> {
    const fields = await this.#fields.read(ledger);
    return fields && everyEpoch(readEpochs(fields), this.current?.epoch);
  }

  /** See `EpochRegistry.rolledBack`, which checks afterwards. */
  rolledBack(): void {
    this.#renew();
    if (this.#left !== undefined)
      this.#ended.set(this.#left.epoch.id, { ledger: this.#left.ledger, isRecorded: false });
    const [oldest] = this.#ended.keys();
    if (this.#ended.size > mostEnded && oldest !== undefined) this.#ended.delete(oldest);
    this.#left = undefined;
  }

  /** Called by the registry's loop. Never rejects. */
  check(): Promise<void> {
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
      this.#fruitless = this.current === undefined ? this.#fruitless + 1 : 0;
      this.#registry.schedule();
    });
    return this.#checking;
  }

  /** Longest pause in ms until the next check; none follows one that has not ended. */
  get pauseMs(): number {
    return this.#checking === undefined && this.#fruitless > 0 ? retryMs * this.#fruitless : Infinity;
  }

  /** Whether ledger and generation are unchanged; otherwise no result of a step counts. */
  #isCurrent(own: Membership | undefined): boolean {
    return own?.generation === this.#nodes.generation() && own.ledger === this.#nodes.ledger();
  }

  /** Begins a membership when ledger or generation have changed. */
  #renew(): void {
    if (this.#isCurrent(this.#membership)) return;
    const { epoch, ledger: before } = this.#membership ?? {};
    if (epoch !== undefined && before !== undefined) this.#left = { ledger: before, epoch };
    this.#membership = undefined;
    const ledger = this.#nodes.ledger();
    if (ledger === undefined) return;
    this.#fruitless = 0;
    this.#membership = {
      ledger,
      generation: this.#nodes.generation(),
      epoch: undefined,
      confirmedAtMs: -Infinity,
      denied: new Set(),
      awaited: new Map(),
      waitingSinceMs: undefined,
    };
  }

  /** Compares the epoch with nodes and with the kept ones; with nodes also while the tier is away. */
  async #check(): Promise<void> {
    this.#renew();
    // Another membership, or none, may be the present one after each wait.
    const own = this.#membership;
    if (own === undefined) return;
    for (const [id, end] of this.#ended) end.isRecorded ||= await this.#end(end.ledger, id);
    const kept = await this.#read(own.ledger);
    if (!this.#isCurrent(own)) return;
    for (const id of own.awaited.keys())
      if (kept?.open.some((epoch) => epoch.id === id) === false) own.awaited.delete(id);
    if (own.epoch !== undefined) await this.#confirm(own, own.epoch, kept);
    if (kept !== undefined && own.epoch === undefined && this.#isCurrent(own)) await this.#join(own, kept);
  }

  /** The kept epochs, without those that this process ended: a returning member may have published one again. */
  async #read(ledger: string): Promise<Epochs | undefined> {
    const fields = await this.#fields.read(ledger);
    if (fields === undefined) return undefined;
    const { open, ended } = readEpochs(fields);
    for (const { id } of open) {
      const end = this.#ended.get(id);
      if (end !== undefined) end.isRecorded = false;
    }
    return { open: open.filter(({ id }) => !this.#ended.has(id)), ended };
  }

  #end(ledger: string, id: string): Promise<boolean> {
    return this.#fields.put(ledger, endedField(id), '1');
  }

  /**
   * Compares an epoch's checkpoint with nodes; `undefined`: the membership ended meanwhile. A checkpoint above the nodes
   * is compared until they reach it, although the epoch's own moves on.
   */
  async #compare(own: Membership, epoch: Epoch, wantsNext = false): Promise<(Comparison & TimedReport) | undefined> {
    const checkpoint = own.awaited.get(epoch.id) ?? epoch.checkpoint;
    const { agreement, next, askedMs } = await this.#registry.readRoots(checkpoint, wantsNext);
    if (!this.#isCurrent(own)) return undefined;
    if (agreement === 'unknown') own.awaited.set(epoch.id, checkpoint);
    else own.awaited.delete(epoch.id);
    if (agreement === 'other') own.denied.add(epoch.id);
    return { agreement, next, askedMs, epoch: { ...epoch, checkpoint } };
  }

  /** Confirms this process's epoch and advances its checkpoint. `kept`: absent while the tier gives no answer. */
  async #confirm(own: Membership, before: Epoch, kept: Epochs | undefined): Promise<void> {
    const published = kept?.open.find(({ id }) => id === before.id);
    const isAhead = published !== undefined && published.checkpoint.version > before.checkpoint.version;
    const newest = isAhead ? published.checkpoint : before.checkpoint;
    const compared = await this.#compare(own, { ...before, checkpoint: newest }, !isAhead);
    if (compared === undefined) return;
    const { agreement, next, epoch } = compared;
    const known = epoch.checkpoint;
    if (agreement === 'other') return this.#leave(own, before, known);
    if (agreement === 'mixed') own.confirmedAtMs = -Infinity;
    // No node can confirm the epoch any more, unless another member advances its checkpoint.
    if (agreement === 'pruned' && known === newest && kept !== undefined) own.epoch = undefined;
    if (agreement === 'unknown' && known !== before.checkpoint) return this.#confirmBehind(own, before);
    if (agreement !== 'same') return;
    own.confirmedAtMs = compared.askedMs;
    // In a cluster the server of the epochs may be away alone. The checkpoint advances, or nodes would prune it.
    if (kept === undefined) {
      own.epoch = movedOn(epoch, next);
      return;
    }
    if (kept.ended.has(before.id)) {
      own.epoch = undefined;
      return this.#nodes.onForeign();
    }
    await this.#take(own, compared, published !== undefined && published.checkpoint.version >= known.version);
    await this.#preferOlder(own, before, kept);
  }

  /** Nodes here are behind another replica's: for `patienceMs` the last checkpoint that they confirmed is enough. */
  async #confirmBehind(own: Membership, before: Epoch): Promise<void> {
    if (this.#hasWaitedLong(own)) return;
    const { agreement, askedMs } = await this.#registry.readRoots(before.checkpoint, false);
    if (!this.#isCurrent(own)) return;
    if (agreement === 'other') return this.#leave(own, before, before.checkpoint);
    if (agreement === 'same') own.confirmedAtMs = askedMs;
  }

  /** Nodes contradict the epoch's checkpoint: the epoch is of another history, or the ledger's history was replaced. */
  async #leave(own: Membership, { id, checkpoint }: Epoch, known: Checkpoint): Promise<void> {
    own.denied.add(id);
    own.epoch = undefined;
    const isOwn = known === checkpoint;
    const agreement = isOwn ? 'other' : (await this.#registry.readRoots(checkpoint, false)).agreement;
    if (!this.#isCurrent(own)) return;
    if (agreement === 'other') this.#nodes.onReplaced(checkpoint.version);
    else this.#nodes.onForeign();
  }

  /** Adopts the epoch. `isPublished`: the tier has it with this checkpoint. */
  async #take(own: Membership, { epoch, next, askedMs }: Comparison, isPublished: boolean): Promise<void> {
    const moved = movedOn(epoch, next);
    own.epoch = moved;
    own.confirmedAtMs = askedMs;
    own.waitingSinceMs = undefined;
    const isKept = moved === epoch && isPublished;
    if (isKept || (await this.#fields.put(own.ledger, epoch.id, formatEpoch(moved))))
      await this.#fields.beat(own.ledger, epoch.id, this.#times.beatMs);
  }

  /** Replicas that each began an epoch for one history converge on the oldest. */
  async #preferOlder(own: Membership, present: Epoch, kept: Epochs): Promise<void> {
    for (const older of kept.open) {
      if (!isOlder(older, present)) return;
      if (own.denied.has(older.id) || !(await this.#fields.hasMembers(own.ledger, older.id, this.#times.beatMs)))
        continue;
      const compared = await this.#compare(own, older);
      if (compared === undefined) return;
      if (compared.agreement === 'same') return this.#take(own, compared, true);
    }
  }

  /** Joins another replica's epoch of the same history, or begins one. */
  async #join(own: Membership, kept: Epochs): Promise<void> {
    let isUndecided = false;
    let empty: Comparison | undefined;
    for (const epoch of kept.open) {
      if (own.denied.has(epoch.id)) continue;
      const compared = await this.#compare(own, epoch);
      if (compared === undefined || compared.agreement === 'mixed') return;
      isUndecided ||= compared.agreement === 'unknown' || compared.agreement === 'pruned';
      if (compared.agreement !== 'same') continue;
      const hasMembers = await this.#fields.hasMembers(own.ledger, epoch.id, this.#times.beatMs);
      if (hasMembers === undefined || !this.#isCurrent(own)) return;
      if (hasMembers) return this.#take(own, compared, true);
      empty ??= compared;
    }
    if (empty !== undefined) {
      const { epoch, askedMs } = empty;
      await this.#begin(own, { epoch: continued(epoch, newId(), Date.now()), askedMs }, kept);
      if (this.#isCurrent(own)) await this.#end(own.ledger, epoch.id);
      return;
    }
    // Nodes are behind, or the ledger rolled back while no replica ran: roots differ only from the checkpoint on.
    if (!this.#hasWaitedLong(own) && isUndecided) return;
    const { next, askedMs } = await this.#registry.readRoots(undefined, true);
    if (next === undefined || !this.#isCurrent(own)) return;
    await this.#begin(own, { epoch: { id: newId(), bornMs: Date.now(), checkpoint: next, before: [] }, askedMs }, kept);
  }

  async #begin(own: Membership, begun: Comparison, kept: Epochs): Promise<void> {
    await this.#take(own, begun, false);
    const surplus = surplusFields(kept);
    if (surplus.length > 0) await this.#fields.delete(own.ledger, surplus);
    // Another replica may have begun one at the same moment.
    const after = await this.#read(own.ledger);
    if (after !== undefined && this.#isCurrent(own)) await this.#preferOlder(own, begun.epoch, after);
  }

  /** Whether `patienceMs` have passed since the first call. */
  #hasWaitedLong(own: Membership): boolean {
    own.waitingSinceMs ??= performance.now();
    return performance.now() - own.waitingSinceMs >= this.#times.patienceMs;
  }
}

/** The epoch with a newer checkpoint, where there is one. */
function movedOn(epoch: Epoch, next: Checkpoint | undefined): Epoch {
  return next !== undefined && next.version > epoch.checkpoint.version ? { ...epoch, checkpoint: next } : epoch;
}

/** Eight random characters. */
function newId(): string {
  return randomBytes(idBytes).readUIntBE(0, idBytes).toString(36).padStart(8, '0');
}
