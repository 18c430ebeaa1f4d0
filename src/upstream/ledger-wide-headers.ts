/**
 * Headers of the ledger family that nodes put on their ledger info, such as the encryption key of an epoch. They are
 * facts of the ledger at its head, as the seven ledger headers are: every answer of the gateway carries the live ones,
 * and no stored answer replays one. Only looks at the ledger info set them: no client has a part in those requests.
 *
 * Other headers of the family belong to the answers they come with. A look decides which of the two a new name is.
 */
import {
  type Dialect,
  familyFields,
  type FamilyFields,
  type LedgerInfo,
  mostFamilyBytes,
  mostFamilyFields,
  textOfFields,
  titleCase,
} from '../ledger/index.ts';
import type { AnswerHead } from './dispatch/exchange.ts';
import type { Upstream } from './node/upstream.ts';

/** A node's answer of the fleet's chain. */
export type FamilyAnswer = Pick<AnswerHead, 'upstream' | 'info' | 'headers'>;

/** Headers that belong to one answer. */
export interface OwnHeaders {
  /** `textOfFields`; `undefined`: none. */
  readonly text: string | undefined;
  /** No look has shown yet whether a header is ledger-wide: the answer must not be stored. */
  readonly isUndecided: boolean;
}

/** Connections of the headers to the fleet. */
export interface LedgerWideParts {
  readonly dialect: Dialect;
  readonly generation: () => number;
  /** The headers of later answers may differ. */
  readonly onChange: () => void;
  /** The node's ledger info has to be looked at. Called at most once a second for each node. */
  readonly onLookNeeded: (upstream: Upstream) => void;
  /** Headers of the node are left out, because they exceed a bound. Called once for each node. */
  readonly onLeftOut: (upstream: Upstream) => void;
}

/** An answer that had a header: its node, its ledger, and the fleet's generation. */
interface Sighting {
  readonly upstream: Upstream;
  readonly info: LedgerInfo;
  readonly generation: number;
}

/** The value of one header on the newest look that had it. */
interface LiveValue extends Sighting {
  /** The name in the case nodes write. */
  readonly written: string;
  readonly value: string;
}

/** Most names of each kind: a node that sends names at random must not fill memory. */
const mostNames = 16;
/** Least time between two looks at a node. */
const lookGapMs = 1_000;
const noOwn: OwnHeaders = { text: undefined, isUndecided: false };

/** The ledger-wide headers of one fleet. */
export class LedgerWideHeaders {
  readonly #parts: LedgerWideParts;
  /** Lower-case names. A name stays ledger-wide for good, so that no answer stored meanwhile replays an old value. */
  #names: ReadonlySet<string> = new Set();
  readonly #ownNames = new Set<string>();
  /** The first answer with each name that no look has decided. */
  readonly #undecided = new Map<string, Sighting>();
  readonly #values = new Map<string, LiveValue>();
  readonly #looks = new WeakMap<Upstream, { readonly generation: number; readonly epoch: bigint }>();
  readonly #askedAtMs = new WeakMap<Upstream, number>();
  readonly #isCut = new WeakSet<Upstream>();
  #list: readonly string[] = [];

  constructor(parts: LedgerWideParts) {
    this.#parts = parts;
  }

  /** Lower-case names of all headers that were ledger-wide at some time; another object after each change. */
  get names(): ReadonlySet<string> {
    return this.#names;
  }

  /** Names and values in turn for answers at `head`; the same object until they change. */
  listAt(head: LedgerInfo | undefined): readonly string[] {
    if (this.#values.size === 0 && this.#list.length === 0) return this.#list;
    const list: string[] = [];
    let bytes = 0;
    for (const live of this.#values.values()) {
      // A value of another epoch may be wrong, and a missing header is none.
      if (!this.#isBelieved(live) || live.info.epoch !== head?.epoch) continue;
      bytes += live.written.length + live.value.length;
      if (list.length < mostFamilyFields * 2 && bytes <= mostFamilyBytes) list.push(live.written, live.value);
      else this.#leaveOut(live.upstream);
    }
    const isSame = list.length === this.#list.length && list.every((text, at) => text === this.#list[at]);
    if (!isSame) this.#list = list;
    return this.#list;
  }

  /** Records a node's ledger info of the fleet's chain. */
  onLook(answer: FamilyAnswer & { readonly info: LedgerInfo }): void {
    const { upstream, info } = answer;
    if (upstream.isSuspect) return;
    const generation = this.#parts.generation();
    this.#looks.set(upstream, { generation, epoch: info.epoch });
    const { fields, cut } = this.#familyOf(answer);
    for (const [name, live] of this.#values) {
      const isOfOther = live.upstream !== upstream && !live.upstream.isRemoved;
      // An older release beside newer ones has fewer headers.
      if (!fields.has(name) && !isOfOther && !this.#isNewer(live, info)) this.#values.delete(name);
    }
    for (const [name, value] of fields) {
      const live = this.#values.get(name);
      if (!this.#learn(name, upstream) || (live !== undefined && this.#isNewer(live, info))) continue;
      this.#values.set(name, { written: titleCase(name), value, upstream, generation, info });
    }
    // Without a value, and yet no answer's own.
    for (const name of cut) this.#learn(name, upstream);
    for (const [name, first] of this.#undecided) {
      if (first.upstream !== upstream || first.info.version > info.version) continue;
      this.#undecided.delete(name);
      if (this.#ownNames.size < mostNames) this.#ownNames.add(name);
    }
    this.#parts.onChange();
  }

  /** Records a node's report of its ledger outside a look. */
  onReport(upstream: Upstream, info: LedgerInfo): void {
    if (this.#names.size === 0 || upstream.isSuspect) return;
    const look = this.#looks.get(upstream);
    const isLooked = look?.generation === this.#parts.generation() && look.epoch >= info.epoch;
    if (!isLooked) this.#needLook(upstream);
  }

  /** The headers of an answer to a read that belong to it alone. */
  ownOf(answer: FamilyAnswer): OwnHeaders {
    const { fields } = this.#familyOf(answer);
    if (fields.size === 0) return noOwn;
    const { upstream, info } = answer;
    const own = new Map<string, string>();
    let isUndecided = false;
    for (const [name, value] of fields) {
      if (this.#names.has(name)) continue;
      if (!this.#ownNames.has(name)) {
        if (this.#ownNames.size >= mostNames || this.#names.size >= mostNames) {
          this.#leaveOut(upstream);
          continue;
        }
        isUndecided = true;
        if (info !== undefined && !upstream.isSuspect) this.#doubt(name, upstream, info);
      }
      own.set(name, value);
    }
    return { text: textOfFields(own, this.#parts.dialect), isUndecided };
  }

  #familyOf({ headers, upstream }: FamilyAnswer): FamilyFields {
    const family = familyFields(headers, this.#parts.dialect, upstream.headers);
    if (family.cut.length > 0) this.#leaveOut(upstream);
    return family;
  }

  /** Whether the value is of a newer ledger than `info`, from a node that counts. */
  #isNewer(live: LiveValue, info: LedgerInfo): boolean {
    return live.info.version > info.version && this.#isBelieved(live) && !live.upstream.isRemoved;
  }

  /** Makes the name ledger-wide; false: there is no room for it. */
  #learn(name: string, upstream: Upstream): boolean {
    this.#undecided.delete(name);
    if (this.#names.has(name)) return true;
    if (this.#names.size >= mostNames) {
      this.#leaveOut(upstream);
      return false;
    }
    this.#ownNames.delete(name);
    this.#names = new Set([...this.#names, name]);
    return true;
  }

  #isBelieved({ upstream, generation }: Sighting): boolean {
    return generation === this.#parts.generation() && !upstream.isSuspect && upstream.health !== 'foreign';
  }

  /** Remembers the first answer with the name: a look at its node that is no older decides. */
  #doubt(name: string, upstream: Upstream, info: LedgerInfo): void {
    const first = this.#undecided.get(name);
    if (first !== undefined && this.#isBelieved(first) && !first.upstream.isRemoved)
      return this.#needLook(first.upstream);
    if (this.#undecided.size >= mostNames) this.#undecided.clear();
    this.#undecided.set(name, { upstream, info, generation: this.#parts.generation() });
    this.#needLook(upstream);
  }

  #needLook(upstream: Upstream): void {
    const nowMs = performance.now();
    if (nowMs - (this.#askedAtMs.get(upstream) ?? -Infinity) < lookGapMs) return;
    this.#askedAtMs.set(upstream, nowMs);
    this.#parts.onLookNeeded(upstream);
  }

  #leaveOut(upstream: Upstream): void {
    if (this.#isCut.has(upstream)) return;
    this.#isCut.add(upstream);
    this.#parts.onLeftOut(upstream);
  }
}
