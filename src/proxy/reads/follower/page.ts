/** A page of transactions in a node's answer, cut at the node's own bytes: facts for filters, and frames of events. */
import { LRUCache } from 'lru-cache';
import { ownBytes } from '../../../cache/index.ts';
import {
  Address,
  AnswerForm,
  findU64,
  FunctionId,
  headerOf,
  JsonBody,
  type LedgerInfo,
  type LedgerVersion,
  TransactionHash,
  TypeTag,
} from '../../../ledger/index.ts';
import type { NodeAnswer } from '../../../upstream/index.ts';
import { membersOf } from '../asked-content.ts';
import { frameParts, isLine } from '../push.ts';

/** A page of transactions as the follower cut it: a structured clone between workers. */
export interface Page {
  readonly first: LedgerVersion;
  /** The node's whole answer, in memory of its own. */
  readonly body: Buffer;
  /** From and to of each item in `body`, in turn. */
  readonly ranges: Uint32Array;
  readonly hashes: readonly string[];
  readonly contentType: string;
  /** See `Fleet.ownHeadersOf`. */
  readonly ownHeaders: string | undefined;
  /** Snapshot and name of the node that answered. */
  readonly info: LedgerInfo;
  readonly upstream: string;
}

/** The facts of a transaction that filters read. */
export interface TransactionFacts {
  readonly sender: string | undefined;
  /** Full name of the entry function. */
  readonly function: string | undefined;
  /** Types of the events, each once, in canonical form. */
  readonly events: readonly string[];
}

/** A filter of transactions. Streams with equal keys share frames. */
export interface Filter {
  readonly key: string;
  matches(facts: TransactionFacts): boolean;
}

/** Frames for `EventSink.send`. */
export interface Frames {
  readonly frames: Buffer;
  /** May be 0: the filter let nothing pass. */
  readonly events: number;
}

/** Frames that were added by `Items.addFrames`. */
export function joinFrames(parts: readonly Buffer[]): Frames {
  return { frames: Buffer.concat(parts), events: parts.length / 3 };
}

/** Consecutive transactions in one body. */
export class Items {
  readonly first: LedgerVersion;
  /** The version behind the last one. */
  readonly end: LedgerVersion;
  readonly #body: Buffer;
  readonly #ranges: Uint32Array;
  /** Whether no line of a frame can end inside a transaction; `undefined`: no frame was asked for. */
  #isOneLine: boolean | undefined;
  /** By index, once for all filters; those that one has asked for. */
  #facts: TransactionFacts[] | undefined;
  /** Frames of all, which streams without a filter get. */
  #whole: Frames | undefined;

  constructor({ first, body, ranges }: Pick<Page, 'first' | 'body' | 'ranges'>) {
    this.first = first;
    // Behind the last version that there is, it is no u64.
    this.end = (first + BigInt(ranges.length / 2)) as LedgerVersion;
    this.#body = body;
    this.#ranges = ranges;
  }

  /** In memory. */
  get bytes(): number {
    return this.#body.length;
  }

  bytesOf(version: bigint): Buffer {
    const at = this.indexOf(version) * 2;
    return this.#body.subarray(this.#ranges[at], this.#ranges[at + 1]);
  }

  indexOf(version: bigint): number {
    return Number(version - this.first);
  }

  /** Adds the frames of [from, upTo), or of some `mostBytes`, but of one at least. Returns the version behind them. */
  addFrames(
    parts: Buffer[],
    from: LedgerVersion,
    upTo: LedgerVersion,
    filter: Filter | undefined,
    mostBytes = Infinity,
  ): LedgerVersion {
    const isOneLine = (this.#isOneLine ??= isLine(this.#body));
    let version = from;
    // A transaction that does not pass the filter costs its parse.
    for (let bytes = 0; version < upTo && bytes < mostBytes; version = (version + 1n) as LedgerVersion) {
      const item = this.bytesOf(version);
      bytes += item.length;
      if (filter?.matches(this.#factsOf(version)) !== false)
        parts.push(...frameParts('transaction', version, item, isOneLine));
    }
    return version;
  }

  /** Frames of [from, next), at most up to `upTo` and of some `mostBytes` of transactions, but of one at least. */
  framesOf(
    from: LedgerVersion,
    upTo: LedgerVersion,
    filter: Filter | undefined,
    mostBytes: number,
  ): Frames & { readonly next: LedgerVersion } {
    const { first, end } = this;
    const isWhole = from === first && end <= upTo && filter === undefined && this.bytes <= mostBytes;
    if (isWhole && this.#whole !== undefined) return { ...this.#whole, next: end };
    const parts: Buffer[] = [];
    const next = this.addFrames(parts, from, upTo < end ? upTo : end, filter, mostBytes);
    const joined = joinFrames(parts);
    if (isWhole) this.#whole = joined;
    return { ...joined, next };
  }

  #factsOf(version: LedgerVersion): TransactionFacts {
    const facts = (this.#facts ??= []);
    return (facts[this.indexOf(version)] ??= factsOf(this.bytesOf(version)));
  }
}

/** `undefined`: the answer's items are not the transactions from `first` on. `ownHeaders`: see `Fleet.ownHeadersOf`. */
export async function cutPage(
  answer: Pick<NodeAnswer, 'status' | 'headers' | 'info' | 'coding' | 'isFramed' | 'body'> & {
    readonly upstream: Pick<NodeAnswer['upstream'], 'name'>;
  },
  first: LedgerVersion,
  ownHeaders: string | undefined,
): Promise<Page | undefined> {
  const { status, headers, info, coding, isFramed, upstream } = answer;
  const contentType = headerOf(headers, 'content-type');
  if (status !== 200 || info === undefined || coding !== undefined || !isFramed) return undefined;
  if (contentType === undefined || AnswerForm.find(contentType) !== 'json') return undefined;
  const body = ownBytes(answer.body);
  const ranges = await rangesIn(body, '');
  if (ranges === undefined) return undefined;
  const hashes: string[] = [];
  for (let at = 0; at < ranges.length; at += 2) {
    const { version, hash } = await skim(body.subarray(ranges[at], ranges[at + 1]), '');
    if (typeof version !== 'string' || findU64(version) !== first + BigInt(at / 2)) return undefined;
    if (!TransactionHash.isWritten(hash)) return undefined;
    hashes.push(hash);
  }
  return { first, body, ranges, hashes, contentType, ownHeaders, info, upstream: upstream.name };
}

/** `Page.ranges` of the items in a body; `undefined`: it is no list, or an empty one. */
export async function rangesIn(body: Buffer, client: string): Promise<Uint32Array | undefined> {
  const items = (await JsonBody.items(body, client)) ?? [];
  return items.length === 0 ? undefined : Uint32Array.from(items.flatMap(([, from, to]) => [from, to]));
}

/** Members of a transaction of any size, read in the turns of `client`. */
export async function skim(item: Buffer, client: string): Promise<JsonBody['members']> {
  return (await JsonBody.skim(item, client))?.members ?? {};
}

/** The facts of a transaction's bytes. Numbers above 2^53 lose digits on the way: none of the facts is one. */
export function factsOf(bytes: Buffer): TransactionFacts {
  const { sender, payload, events } = membersOf(JSON.parse(bytes.toString()));
  const { function: called, transaction_payload: inner } = membersOf(payload);
  return {
    sender: typeof sender === 'string' ? Address.find(sender) : undefined,
    function: functionIn(called) ?? functionIn(membersOf(inner)['function']),
    events: Array.isArray(events)
      ? [...new Set(events.flatMap((event) => typeIn(membersOf(event)['type']) ?? []))]
      : [],
  };
}

function functionIn(value: unknown): string | undefined {
  const id = typeof value === 'string' ? FunctionId.find(value) : undefined;
  return id && FunctionId.format(id);
}

/** By the spelling of nodes: events repeat some hundreds, whose parse took five times as long as all the JSON. */
const eventTypes = new LRUCache<string, string>({ max: 2_000 });
/** In characters. A longer spelling is read each time. */
const longestKept = 512;

function typeIn(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const known = eventTypes.get(value);
  if (known !== undefined) return known;
  const tag = TypeTag.find(value);
  if (tag === undefined) return undefined;
  const type = TypeTag.format(tag);
  if (value.length <= longestKept) eventTypes.set(value, type);
  return type;
}
