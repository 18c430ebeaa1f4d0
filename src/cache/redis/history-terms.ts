/**
 * The history of a ledger as replicas agree on it: plain data. A checkpoint, the accumulator root of the
 * transaction at a version, names the whole history up to that version. A term is a name under which replicas that are
 * on one history keep what they read; the checkpoint of a term is the newest that its members have compared.
 */
import { findU64 } from '../../ledger/version.ts';

export interface Checkpoint {
  readonly version: bigint;
  /** `accumulator_root_hash` of the transaction at `version`: 64 digits in lower case, without `0x`. */
  readonly root: string;
}

/**
 * `same`: nodes report the checkpoint's root, and none another one. `mixed`: some do, some do not. `other`: none does.
 * `pruned`: no node reports one, and a node holds nothing that old any more.
 */
export type RootAgreement = 'same' | 'other' | 'mixed' | 'pruned' | 'unknown';

/** The answers of nodes about a checkpoint. */
export interface RootReport {
  readonly agreement: RootAgreement;
  /** A newer checkpoint, of a node that confirmed the compared one afterwards. */
  readonly next: Checkpoint | undefined;
}

/** Versions that are kept under one name; segments lie one above the other, and the last has no upper end. */
export interface Segment {
  readonly id: string;
  /** The highest version of the segment. */
  readonly upTo: bigint;
}

export interface Term {
  readonly id: string;
  /** Unix time in milliseconds at the replica that began it. Of two terms on one history the older is used. */
  readonly bornMs: number;
  readonly checkpoint: Checkpoint;
  /** Terms whose versions up to `upTo` this one goes on using, lowest first. */
  readonly before: readonly Segment[];
}

/** Terms of one ledger in Redis; an ended term stays by name, so that no replica uses it again. */
export interface Terms {
  /** Oldest first. */
  readonly open: readonly Term[];
  readonly ended: ReadonlySet<string>;
}

/** A term keeps the names of so many before it; versions of older ones are read from nodes again. */
const mostSegments = 64;
const form = /^(\d{1,15}) (\d{1,20}) ([0-9a-f]{64})((?: [0-9a-z]{8}@\d{1,20}){0,64})$/;
const idForm = /^[0-9a-z]{8}$/;
const endedForm = /^ended:([0-9a-z]{8})$/;

/** The fields of the hash in Redis, as terms. Fields of another form are left out. */
export function readTerms(fields: Readonly<Record<string, string>>): Terms {
  const names = Object.keys(fields);
  const ended = new Set(names.flatMap((name) => endedForm.exec(name)?.[1] ?? []));
  const entries = Object.entries(fields).filter(([id]) => idForm.test(id) && !ended.has(id));
  const open = entries.map(([id, text]) => findTerm(id, text)).filter((term) => term !== undefined);
  return { open: open.sort((one, other) => one.bornMs - other.bornMs || (one.id < other.id ? -1 : 1)), ended };
}

/** The field that ends a term. A field of its own: a member that publishes the term at that moment overwrites no end. */
export function endedField(id: string): string {
  return `ended:${id}`;
}

export function formatTerm({ bornMs, checkpoint: { version, root }, before }: Term): string {
  return [`${bornMs} ${version} ${root}`, ...before.map(({ id, upTo }) => `${id}@${upTo}`)].join(' ');
}

function findTerm(id: string, text: string): Term | undefined {
  const [, born = '', number = '', root = '', rest = ''] = form.exec(text) ?? [];
  const version = findU64(number);
  if (version === undefined) return undefined;
  const before = rest.split(' ').flatMap((part) => {
    const [segment = '', upTo = ''] = part.split('@');
    return segment === '' ? [] : [{ id: segment, upTo: BigInt(upTo) }];
  });
  return { id, bornMs: Number(born), checkpoint: { version, root }, before };
}

/**
 * A term that continues `parent` at its checkpoint. Entries of the parent above that are not used any more: no member
 * compared their history.
 */
export function continued(parent: Term, id: string, bornMs: number): Term {
  const { version } = parent.checkpoint;
  const isEmpty = version <= (parent.before.at(-1)?.upTo ?? -1n);
  const before = isEmpty ? parent.before : [...parent.before, { id: parent.id, upTo: version }].slice(-mostSegments);
  return { id, bornMs, checkpoint: parent.checkpoint, before };
}

/** The name under which the state at `version` is kept; without a version, of reads that name none. */
export function segmentAt({ id, before }: Pick<Term, 'id' | 'before'>, version: bigint | undefined): string {
  if (version === undefined) return id;
  return before.find(({ upTo }) => version <= upTo)?.id ?? id;
}

/** The names of all terms under which something may be kept; `own`: of one that Redis may have lost. */
export function everyTerm({ open, ended }: Terms, own?: Term): readonly string[] {
  const known = own === undefined ? open : [...open, own];
  const names = new Set(ended);
  for (const { id, before } of known) {
    names.add(id);
    for (const segment of before) names.add(segment.id);
  }
  return [...names];
}
