/**
 * Headers of nodes beside the seven. The key of an epoch, which nodes put on every answer (protocol 2.1), is a fact of
 * the ledger at its head: every answer carries the live one, and no stored answer replays one. Only looks at the ledger
 * info set it: no client has a part in them. Others belong to the answers they come with. Those that a node puts on its
 * ledger info as well may change with the ledger, so reads are answered and stored without them; answers that pass
 * through keep them.
 */
import {
  Dialect,
  familyText,
  type HeaderValues,
  isOfInterface,
  type LedgerInfo,
  namedByConnection,
} from '../ledger/index.ts';
import type { AnswerHead } from './dispatch/exchange.ts';
import type { LedgerEvents } from './fleet-ledger.ts';
import type { Upstream } from './node/upstream.ts';

/** A node's answer of the fleet's chain. */
type FamilyAnswer = Pick<AnswerHead, 'upstream' | 'info' | 'headers'>;

/** `onUnconfirmed` asks for a look at a node's ledger info, at most once a second for each node. */
interface HeaderEvents extends Pick<LedgerEvents, 'onChange'> {
  onUnconfirmed(upstream: Upstream): void;
}

/** The key on the newest look that had it. */
interface LiveKey {
  readonly value: string;
  readonly upstream: Upstream;
  readonly info: LedgerInfo;
  readonly generation: number;
}

interface Look {
  readonly generation: number;
  readonly epoch: bigint;
  readonly hasKey: boolean;
  /** A report with a key asked for it, and it had none: the ledger info of the node lacks the key in this epoch. */
  readonly isKeyless: boolean;
}

/** Most names of each kind: a node that sends names at random must not fill memory. */
const mostNames = 16;
const lookGapMs = 1_000;

/** The ledger-wide headers of one fleet. */
export class LedgerWideHeaders {
  readonly #fleet: { readonly generation: number; readonly dialect: Dialect };
  readonly #events: HeaderEvents;
  #names: ReadonlySet<string> = new Set([new Dialect('node').epochKey, new Dialect('aptos').epochKey]);
  /** Names on answers that a look has followed: each is their answers' own, unless it is in `names`. */
  readonly #seen = new Set<string>();
  /** Other names on answers, each with a node that had it, and the version there: a look not older decides. */
  readonly #unseen = new Map<string, { readonly upstream: Upstream; readonly version: bigint }>();
  #key: LiveKey | undefined;
  readonly #looks = new WeakMap<Upstream, Look>();
  /** Nodes of which a report with a key has asked for a look. */
  readonly #keyAsked = new WeakSet<Upstream>();
  readonly #askedAtMs = new WeakMap<Upstream, number>();
  readonly #isCut = new WeakSet<Upstream>();
  #list: readonly string[] = [];

  constructor(fleet: { readonly generation: number; readonly dialect: Dialect }, events: HeaderEvents) {
    this.#fleet = fleet;
    this.#events = events;
  }

  /** Lower-case names of the key and of all headers that looks had at some time; another object after each change. */
  get names(): ReadonlySet<string> {
    return this.#names;
  }

  /** Name and value of the key for answers at `head`, or nothing; the same object until they change. */
  listAt(head: LedgerInfo | undefined): readonly string[] {
    // A key of another epoch may be wrong, and a missing one is none.
    const live = this.#key?.info.epoch === head?.epoch && this.#isBelieved(this.#key) ? this.#key : undefined;
    if (live?.value !== this.#list[1]) {
      this.#list = live === undefined ? [] : [Dialect.titleCase(this.#fleet.dialect.epochKey), live.value];
    }
    return this.#list;
  }

  onLook(answer: FamilyAnswer & { readonly info: LedgerInfo }): void {
    const { upstream, info } = answer;
    if (upstream.isSuspect) return;
    const generation = this.#fleet.generation;
    const { fields, cut } = this.#familyOf(answer);
    const value = fields.get(this.#fleet.dialect.epochKey);
    const before = this.#looks.get(upstream);
    const isSameEpoch = before?.generation === generation && before.epoch === info.epoch;
    const wasAsked = this.#keyAsked.delete(upstream);
    const isKeyless = value === undefined && (wasAsked || (isSameEpoch && before.isKeyless));
    this.#looks.set(upstream, { generation, epoch: info.epoch, hasKey: value !== undefined, isKeyless });
    if (!this.#isNewer(this.#key, info)) {
      if (value !== undefined) this.#key = { value, upstream, info, generation };
      // An older release beside newer ones has no key.
      else if (this.#key?.upstream === upstream || this.#key?.upstream.isRemoved === true) this.#key = undefined;
    }
    this.#learn([...fields.keys(), ...cut], upstream);
    for (const [name, first] of this.#unseen) {
      if (first.upstream !== upstream || first.version > info.version) continue;
      this.#unseen.delete(name);
      if (this.#seen.size >= mostNames) this.#seen.clear();
      this.#seen.add(name);
    }
  }

  onReport(upstream: Upstream, info: LedgerInfo, headers: HeaderValues = {}): void {
    const hasKey = headers[this.#fleet.dialect.epochKey] !== undefined;
    if ((!hasKey && this.#key === undefined) || upstream.isSuspect) return;
    const look = this.#looks.get(upstream);
    const isLooked = look?.generation === this.#fleet.generation && look.epoch >= info.epoch;
    if (isLooked && (!hasKey || look.hasKey || look.isKeyless)) return;
    if (hasKey) this.#keyAsked.add(upstream);
    this.#needLook(upstream);
  }

  /** The headers of an answer to a read that belong to it alone (`familyText`); `undefined`: none. */
  ownOf(answer: FamilyAnswer): string | undefined {
    const { fields } = this.#familyOf(answer);
    const own = new Map<string, string>();
    for (const [name, value] of fields) if (!this.#names.has(name)) own.set(name, value);
    if (own.size === 0) return undefined;
    const { upstream } = answer;
    // A name that is not learned any more may be ledger-wide.
    if (this.#names.size >= mostNames) return this.#leaveOut(upstream);
    // Should the next look have the name, cached answers cease to show it.
    const unseen = [...own.keys()].filter((name) => !this.#seen.has(name));
    if (unseen.length > 0 && !upstream.isSuspect) this.#lookFor(unseen, answer);
    return familyText.of(own, this.#fleet.dialect);
  }

  #lookFor(names: readonly string[], { upstream, info }: FamilyAnswer): void {
    for (const name of names) {
      const first = this.#unseen.get(name);
      const isAwaited = first !== undefined && first.upstream.health === 'usable' && !first.upstream.isRemoved;
      if (isAwaited || info === undefined) continue;
      if (this.#unseen.size >= mostNames) this.#unseen.clear();
      this.#unseen.set(name, { upstream, version: info.version });
    }
    this.#needLook(upstream);
  }

  #familyOf({ headers, upstream }: FamilyAnswer): FamilyFields {
    const family = familyFields(headers, this.#fleet.dialect, upstream.withheld);
    if (family.cut.length > 0) this.#leaveOut(upstream);
    return family;
  }

  /** Whether the key is of a newer ledger than `info`, from a node that counts. */
  #isNewer(key: LiveKey | undefined, info: LedgerInfo): boolean {
    return key !== undefined && key.info.version > info.version && this.#isBelieved(key) && !key.upstream.isRemoved;
  }

  /** A name stays for good, so that no answer stored meanwhile replays an old value. */
  #learn(names: readonly string[], upstream: Upstream): void {
    const further = names.filter((name) => !this.#names.has(name));
    if (further.length === 0) return;
    const known = [...this.#names, ...further];
    if (known.length > mostNames) this.#leaveOut(upstream);
    this.#names = new Set(known.slice(0, mostNames));
  }

  #isBelieved(key: LiveKey | undefined): boolean {
    if (key === undefined || key.generation !== this.#fleet.generation) return false;
    return !key.upstream.isSuspect && key.upstream.health !== 'foreign';
  }

  #needLook(upstream: Upstream): void {
    const nowMs = performance.now();
    if (nowMs - (this.#askedAtMs.get(upstream) ?? -Infinity) < lookGapMs) return;
    this.#askedAtMs.set(upstream, nowMs);
    this.#events.onUnconfirmed(upstream);
  }

  #leaveOut(upstream: Upstream): undefined {
    if (this.#isCut.has(upstream)) return;
    this.#isCut.add(upstream);
    const message = 'headers of an upstream are left out: they exceed the bounds';
    this.#events.onChange('headers left out', { upstream: upstream.name }, message);
  }
}

interface FamilyFields {
  /** Values by lower-case name. */
  readonly fields: ReadonlyMap<string, string>;
  /** Names that were left out: beyond the bounds, or not printable ASCII. */
  readonly cut: readonly string[];
}

const noFields: FamilyFields = { fields: new Map(), cut: [] };
const printable = /^[ -~]*$/;

/**
 * The family's headers of a node's answer, in its order; values of a repeated name are joined (RFC 9110 5.3). `secret`:
 * the node's credentials, which an echo of the request must not publish.
 */
function familyFields(headers: HeaderValues, dialect: Dialect, secret: HeaderValues = {}): FamilyFields {
  const names = Object.keys(headers).filter((name) => name.startsWith(dialect.prefix) && !dialect.known.has(name));
  if (names.length === 0) return noFields;
  const named = namedByConnection(headers['connection']?.toString());
  const fields = new Map<string, string>();
  let bytes = 0;
  const cut: string[] = [];
  for (const name of names) {
    const given = headers[name];
    if (given === undefined || named.has(name) || Object.hasOwn(secret, name)) continue;
    const value = typeof given === 'string' ? given : given.join(', ');
    const isWithin = fields.size < familyText.mostFields && bytes + name.length + value.length <= familyText.mostBytes;
    if (isWithin && isOfInterface(name) && printable.test(value)) {
      fields.set(name, value);
      bytes += name.length + value.length;
    } else cut.push(name);
  }
  return { fields, cut };
}
