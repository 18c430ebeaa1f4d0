/**
 * The history of a ledger as replicas agree on it: plain data. A checkpoint, the accumulator root of the transaction at
 * a version, identifies the whole history up to there. A term is a name under which replicas on one history store
 * answers; its checkpoint is the newest that its members have compared.
 */
import { findU64 } from '../../ledger/index.ts';

/** A version and the root that identifies the history up to it. */
export interface Checkpoint {
  readonly version: bigint;
  /** `accumulator_root_hash` of the transaction at `version`: 64 digits in lower case, without `0x`. */
  readonly root: string;
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

/** A range of versions stored under one name; it begins above the segment before. */
interface Segment {
  readonly id: string;
  /** The highest version of the segment. */
  readonly upTo: bigint;
}

/** A name for answers of one history. */
export interface Term {
  readonly id: string;
  /** Unix time in ms at the replica that began it. The older of two terms on one history is used. */
  readonly bornMs: number;
  readonly checkpoint: Checkpoint;
  /** Earlier terms whose answers up to `upTo` this one uses, lowest first. */
  readonly before: readonly Segment[];
}

/** Terms of one ledger; an ended term's name stays, so that no replica uses it again. */
export interface Terms {
  /** Oldest first. */
  readonly open: readonly Term[];
  readonly ended: ReadonlySet<string>;
}

/** Segments of a term at most; nodes answer the versions of older ones again. */
const mostSegments = 64;
const form = /^(\d{1,15}) (\d{1,20}) ([0-9a-f]{64})((?: [0-9a-z]{8}@\d{1,20}){0,64})$/;
const idForm = /^[0-9a-z]{8}$/;
const endedForm = /^ended:([0-9a-z]{8})$/;

/** Terms of one ledger at most, ended ones included: the newest stay. */
const mostTerms = 16;

/** Fields of the terms beyond the bound: ended ones first, then the oldest. */
export function surplusFields({ open, ended }: Terms): readonly string[] {
  const surplus = Math.max(0, open.length + ended.size - mostTerms);
  const ids = [...ended, ...open.map(({ id }) => id)].slice(0, surplus);
  return ids.flatMap((id) => [id, endedField(id)]);
}

/** Parses the fields of a ledger's terms, by name. Fields of another form are ignored. */
export function readTerms(fields: Readonly<Record<string, string>>): Terms {
  const names = Object.keys(fields);
  const ended = new Set(names.flatMap((name) => endedForm.exec(name)?.[1] ?? []));
  const entries = Object.entries(fields).filter(([id]) => idForm.test(id) && !ended.has(id));
  const open = entries.map(([id, text]) => findTerm(id, text)).filter((term) => term !== undefined);
  return { open: open.sort((one, other) => one.bornMs - other.bornMs || (one.id < other.id ? -1 : 1)), ended };
}

/** The field that ends a term, apart from the term's: a member's concurrent publication does not overwrite it. */
export function endedField(id: string): string {
  return `ended:${id}`;
}

/** The value of a term's field. */
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

/** A term that continues `parent` at its checkpoint; above it, no member has compared the parent's answers. */
export function continued(parent: Term, id: string, bornMs: number): Term {
  const { version } = parent.checkpoint;
  const isEmpty = version <= (parent.before.at(-1)?.upTo ?? -1n);
  const before = isEmpty ? parent.before : [...parent.before, { id: parent.id, upTo: version }].slice(-mostSegments);
  return { id, bornMs, checkpoint: parent.checkpoint, before };
}

/** The name for answers at `version`, or for reads without a version. */
export function segmentAt({ id, before }: Pick<Term, 'id' | 'before'>, version: bigint | undefined): string {
  if (version === undefined) return id;
  return before.find(({ upTo }) => version <= upTo)?.id ?? id;
}

/** The names of all terms that may have entries. `own`: a term that Redis may have lost. */
export function everyTerm({ open, ended }: Terms, own?: Term): readonly string[] {
  const known = own === undefined ? open : [...open, own];
  const names = new Set(ended);
  for (const { id, before } of known) {
    names.add(id);
    for (const segment of before) names.add(segment.id);
  }
  return [...names];
}
