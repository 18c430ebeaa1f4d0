/**
 * The history of a ledger as replicas agree on it: plain data. A checkpoint, the accumulator root of the transaction at
 * a version, identifies the whole history up to there. An epoch (of the ledger, not of its validators) is a name under
 * which replicas on one history store answers; its checkpoint is the newest that its members have compared. Tiers that
 * older versions wrote call it a term.
 */
import { findU64 } from '../../ledger/index.ts';

/** A version and the root that identifies the history up to it. */
export interface Checkpoint {
  readonly version: bigint;
  /** `accumulator_root_hash` of the transaction at `version`: 64 digits in lower case, without `0x`. */
  readonly root: string;
}

/** A name for answers of one history. */
export interface Epoch {
  readonly id: string;
  /** Unix time in ms at the replica that began it. The older of two epochs on one history is used. */
  readonly bornMs: number;
  readonly checkpoint: Checkpoint;
  /** Earlier epochs whose answers up to `upTo` this one uses, lowest first. */
  readonly before: readonly { readonly id: string; readonly upTo: bigint }[];
}

/** Epochs of one ledger; ids of ended ones are never used again. */
export interface Epochs {
  /** Oldest first. */
  readonly open: readonly Epoch[];
  readonly ended: ReadonlySet<string>;
}

/** Epochs that one continues at most; nodes answer the versions of older ones again. */
const mostBefore = 64;
const form = /^(\d{1,15}) (\d{1,20}) ([0-9a-f]{64})((?: [0-9a-z]{8}@\d{1,20}){0,64})$/;
const idForm = /^[0-9a-z]{8}$/;
const endedForm = /^ended:([0-9a-z]{8})$/;

/** Epochs of one ledger at most, ended ones included: the newest stay. */
const mostEpochs = 16;

/** Fields of the epochs beyond the bound: ended ones first, then the oldest. */
export function surplusFields({ open, ended }: Epochs): readonly string[] {
  const surplus = Math.max(0, open.length + ended.size - mostEpochs);
  const ids = [...ended, ...open.map(({ id }) => id)].slice(0, surplus);
  return ids.flatMap((id) => [id, endedField(id)]);
}

/** Parses the fields of a ledger's epochs, by name. Fields of another form are ignored. */
export function readEpochs(fields: Readonly<Record<string, string>>): Epochs {
  const names = Object.keys(fields);
  const ended = new Set(names.flatMap((name) => endedForm.exec(name)?.[1] ?? []));
  const entries = Object.entries(fields).filter(([id]) => idForm.test(id) && !ended.has(id));
  const open = entries.map(([id, text]) => findEpoch(id, text)).filter((epoch) => epoch !== undefined);
  return { open: open.sort((one, other) => (isOlder(one, other) ? -1 : 1)), ended };
}

/** Whether replicas prefer `one`: the order of `Epochs.open`. */
export function isOlder(one: Epoch, other: Epoch): boolean {
  return one.bornMs < other.bornMs || (one.bornMs === other.bornMs && one.id < other.id);
}

/** The field that ends an epoch, apart from the epoch's: a member's concurrent publication does not overwrite it. */
export function endedField(id: string): string {
  return `ended:${id}`;
}

/** The value of an epoch's field. */
export function formatEpoch({ bornMs, checkpoint: { version, root }, before }: Epoch): string {
  return [`${bornMs} ${version} ${root}`, ...before.map(({ id, upTo }) => `${id}@${upTo}`)].join(' ');
}

function findEpoch(id: string, text: string): Epoch | undefined {
  const [, born = '', number = '', root = '', rest = ''] = form.exec(text) ?? [];
  const version = findU64(number);
  if (version === undefined) return undefined;
  const before = rest.split(' ').flatMap((part) => {
    const [earlier = '', upTo = ''] = part.split('@');
    return earlier === '' ? [] : [{ id: earlier, upTo: BigInt(upTo) }];
  });
  return { id, bornMs: Number(born), checkpoint: { version, root }, before };
}

/** An epoch that continues `parent` at its checkpoint; above it, no member has compared the parent's answers. */
export function continued(parent: Epoch, id: string, bornMs: number): Epoch {
  const { version } = parent.checkpoint;
  const isEmpty = version <= (parent.before.at(-1)?.upTo ?? -1n);
  const before = isEmpty ? parent.before : [...parent.before, { id: parent.id, upTo: version }].slice(-mostBefore);
  return { id, bornMs, checkpoint: parent.checkpoint, before };
}

/**
 * Whether an answer of a node at `head` may be stored: below the checkpoint the node may be on another history.
 * `undefined`: the node reported no head.
 */
export function admits({ checkpoint }: Pick<Epoch, 'checkpoint'>, head: bigint | undefined): boolean {
  return head !== undefined && head >= checkpoint.version;
}

/** The name for answers at `version`, or for reads without a version. */
export function epochAt({ id, before }: Pick<Epoch, 'id' | 'before'>, version: bigint | undefined): string {
  if (version === undefined) return id;
  return before.find(({ upTo }) => version <= upTo)?.id ?? id;
}

/** The names of all epochs that may have entries. `own`: an epoch that Redis may have lost. */
export function everyEpoch({ open, ended }: Epochs, own?: Epoch): readonly string[] {
  const known = own === undefined ? open : [...open, own];
  const names = new Set(ended);
  for (const { id, before } of known) {
    names.add(id);
    for (const earlier of before) names.add(earlier.id);
  }
  return [...names];
}
