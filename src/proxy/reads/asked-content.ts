/**
 * Whether a success is of the read that was asked. Broken proxies have turned errors of nodes into successes and
 * crossed the answers of two requests, and a final answer stays in the cache for ever. Only what every node sends counts
 * (interface specification 2.3 to 2.5, protocol 1): members that newer nodes add never do. Two answers of one kind that
 * differ in nothing else than values, such as two accounts' resources of one type, look the same.
 */
import {
  Address,
  type AnswerContent,
  findU64,
  type JsonBody,
  maxU64,
  TransactionHash,
  TypeTag,
} from '../../ledger/index.ts';
import type { Operation } from '../../cache/index.ts';
import type { ReadFacts } from './policy.ts';

type JsonList = NonNullable<JsonBody['list']>;
type Members = JsonBody['members'];

/** A read with its canonical item (`KeyParts.subject`). */
export interface AskedRead extends Pick<ReadFacts, 'version' | 'extent'> {
  /** `sent`: a list of what an account has sent, which no cache keeps. */
  readonly operation: Operation | 'sent';
  readonly subject: string;
}

/** The comparisons of one kind of read. */
interface Comparison {
  readonly json: (json: JsonBody, read: AskedRead, body: Buffer) => boolean;
  /** Compares what stands at a fixed place. Default: nothing does. */
  readonly bcs?: (body: Buffer, read: AskedRead) => boolean;
  /** The member that nodes write first, compared alone in JSON that is too large to be parsed. Default: none. */
  readonly first?: readonly [name: string, compare: (text: unknown, read: AskedRead) => boolean];
}

const comparisons: Readonly<Record<AskedRead['operation'], Comparison>> = {
  resource: {
    json: ({ members }, read) => isTagOf(members['type'], read) && members['data'] !== undefined,
    first: ['type', isTagOf],
  },
  module: {
    json: ({ members, isWhole }, { subject }, body) =>
      isModule(isWhole ? members : { ...members, abi: abiIn(body) }, ...partsOf(subject)),
  },
  view: { json: ({ list }) => list !== undefined },
  account: {
    json: ({ members }) => isU64(members['sequence_number']) && isText(members['authentication_key']),
    bcs: isAccountBytes,
  },
  balance: { json: ({ value }) => isU64Number(value), bcs: (body) => body.length === 8 },
  modules: { json: areModules },
  resources: { json: ({ list }) => isListOf(list, isResource) },
  // Any value, which a publisher of modules has designed.
  table_item: { json: ({ isError }) => !isError },
  raw_table_item: { json: ({ isError }) => !isError },
  transaction: {
    json: ({ members }, { subject }) => isText(members['type']) && isHash(members['hash'], subject),
    bcs: isTransactionBytes,
  },
  by_version: {
    json: ({ members }, { version }) => isText(members['type']) && isU64(members['version'], version),
    bcs: (body, { version }) => body[0] === onChain && isU64At(body, 1, version),
    first: ['version', (text, { version }) => isU64(text, version)],
  },
  transactions: {
    json: ({ list }, { extent }) => isPage(list, extent) && areInOrder(list, 'version', firstOf(extent)),
    bcs: (body, { extent }) => isPageOf(body, extent, (at) => isU64At(body, at, firstOf(extent))),
    first: ['version', (text, { extent }) => isU64(text, firstOf(extent))],
  },
  // Nothing in an item names its version.
  auxiliary_info: {
    json: ({ list }, { extent }) => isPage(list, extent),
    bcs: (body, { extent }) => isPageOf(body, extent),
  },
  block: { json: isBlock, bcs: isBlockBytes, first: ['block_height', isHeightOf] },
  block_by_version: { json: isBlock, bcs: isBlockBytes },
  events: { json: areEvents, bcs: areEventBytes },
  sent: {
    json: ({ list }, { subject }) => isListOf(list, (item) => isAddress(membersOf(item)['sender'], subject)),
  },
};

/** Whether the success can be the answer to `read`. */
export function isContentOf(read: AskedRead, { form, body, json }: AnswerContent): boolean {
  const { bcs, first, json: compare } = comparisons[read.operation];
  if (form === 'bcs') return bcs === undefined || bcs(body, read);
  if (!json.isOpaque) return compare(json, read, body);
  const [, name, text] = firstMember.exec(body.toString('latin1', 0, 1024)) ?? [];
  return first === undefined || name !== first[0] || first[1](text, read);
}

/** The first member of an object, or of the first object in a list, when it is a text without escapes. */
const firstMember = /^\s*(?:\[\s*)?\{\s*"(\w+)"\s*:\s*"([^"\\]*)"/;

/** The item of a read of state: the address, and the text behind it. */
function partsOf(subject: string): [string, string] {
  const at = subject.indexOf('/');
  return [subject.slice(0, at), subject.slice(at + 1)];
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

/** The u64 in a JSON text. */
function u64In(value: unknown): bigint | undefined {
  return isText(value) ? findU64(value) : undefined;
}

/** Whether `value` is a u64 as text, and the one that was asked for, where that is known. */
function isU64(value: unknown, asked?: bigint): boolean {
  const number = u64In(value);
  return number !== undefined && (asked === undefined || number === asked);
}

/** Above 2^53 a number loses digits, and stays a whole number. */
function isU64Number(value: unknown): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= Number(maxU64);
}

function isU64At(body: Buffer, at: number, asked: bigint | undefined): boolean {
  return body.length >= at + 8 && (asked === undefined || body.readBigUInt64LE(at) === asked);
}

/** Nodes write canonical tags and addresses; any other spelling of the same one is as good (specification 2.1). */
function isTagOf(type: unknown, { subject }: AskedRead): boolean {
  if (!isText(type)) return false;
  const [, asked] = partsOf(subject);
  if (type === asked) return true;
  const tag = TypeTag.find(type);
  return tag !== undefined && TypeTag.format(tag) === asked;
}

function isAddress(value: unknown, asked: string): boolean {
  return value === asked || (isText(value) && Address.find(value) === asked);
}

/** The ABI in the JSON of a module; nodes write its address and name first, and the rest is long. */
function abiIn(body: Buffer): unknown {
  const at = Math.max(body.indexOf('"abi"'), 0);
  const [, address, name] = abiHead.exec(body.toString('latin1', at, at + longestAbiHead)) ?? [];
  return address === undefined ? membersOf(JSON.parse(body.toString()))['abi'] : { address, name };
}

const abiHead = /^"abi"\s*:\s*\{\s*"address"\s*:\s*"([^"\\]*)"\s*,\s*"name"\s*:\s*"([^"\\]*)"/;
/** In bytes: an address and an identifier of at most 255. */
const longestAbiHead = 512;

const none: Members = {};

/** The members of a JSON value, where it is an object; none otherwise. */
export function membersOf(value: unknown): Members {
  return typeof value === 'object' && value !== null ? (value as Members) : none;
}

/** Whether it is a list, and its known items are what they have to be. */
function isListOf(list: JsonList | undefined, isItem: (item: unknown) => boolean): boolean {
  return list?.known.every(([, item]) => isItem(item)) ?? false;
}

function areModules({ list }: JsonBody, { subject }: AskedRead): boolean {
  const [address] = partsOf(subject);
  return isListOf(list, (item) => isModule(membersOf(item), address));
}

function isResource(item: unknown): boolean {
  const { type, data } = membersOf(item);
  return isText(type) && data !== undefined;
}

/** The ABI alone names the module, and nodes need not send one (specification 2.4). `name`: `undefined` for any. */
function isModule({ bytecode, abi }: Members, address: string, name?: string): boolean {
  if (!isText(bytecode)) return false;
  if (abi === undefined || abi === null) return true;
  const { address: shown, name: shownName } = membersOf(abi);
  return isAddress(shown, address) && (name === undefined ? isText(shownName) : shownName === name);
}

/**
 * The account resource in BCS: a key of 32 bytes, two u64, two event handles (u64, u64, address), two options. The
 * handles are of the account itself, unless it has no resource: then its node makes one up, with nothing created yet.
 */
function isAccountBytes(body: Buffer, { subject }: AskedRead): boolean {
  const [address] = partsOf(subject);
  if (body.length < 147 || body[0] !== 32) return false;
  return body.readBigUInt64LE(41) === 0n || body.subarray(65, 97).equals(Address.bytes(address as Address));
}

/** A text in another form than nodes write is no proof of another transaction; another case is one of the same. */
function isHash(hash: unknown, asked: string): boolean {
  if (!isText(hash)) return false;
  const lower = hash.toLowerCase();
  return lower === asked || !TransactionHash.isWritten(lower);
}

/** Variant of a committed transaction in BCS (protocol 1.1). */
const onChain = 0;

/** A committed transaction holds its own hash, behind parts of any length. */
function isTransactionBytes(body: Buffer, { subject }: AskedRead): boolean {
  return body[0] !== onChain || body.includes(Buffer.from(subject.slice(2), 'hex'));
}

function firstOf(extent: ReadFacts['extent']): bigint | undefined {
  return extent?.kind === 'list' || extent?.kind === 'page' ? extent.first : undefined;
}

/** Whether it is a list, of no more items than were asked for. */
function isPage(list: JsonList | undefined, extent: ReadFacts['extent']): list is JsonList {
  return list !== undefined && isWithin(list.count, extent);
}

function isWithin(count: number, extent: ReadFacts['extent']): boolean {
  return (extent?.kind !== 'list' && extent?.kind !== 'page') || count <= extent.limit;
}

/** Whether the items' numbers follow one another, from `first` on where that is known. */
function areInOrder({ known }: Pick<JsonList, 'known'>, name: string, first: bigint | undefined): boolean {
  let start = first;
  for (const [index, item] of known) {
    const number = u64In(membersOf(item)[name]);
    if (number === undefined || number !== (start ?? number - BigInt(index)) + BigInt(index)) return false;
    start = number - BigInt(index);
  }
  return true;
}

/** Whether it is a list in BCS of no more items than were asked for; `isFirst` compares the first one, at an offset. */
function isPageOf(body: Buffer, extent: ReadFacts['extent'], isFirst?: (at: number) => boolean): boolean {
  const list = listAt(body, 0);
  return list !== undefined && isWithin(list.count, extent) && (list.count === 0 || (isFirst?.(list.start) ?? true));
}

/** The list in BCS at an offset: its length (ULEB128, protocol 5.6), and the offset of its first item. */
function listAt(body: Buffer, at: number): { readonly count: number; readonly start: number } | undefined {
  let count = 0;
  for (let index = 0; index < 5; index += 1) {
    const byte = body[at + index];
    if (byte === undefined) return undefined;
    count += (byte & 0x7f) * 2 ** (7 * index);
    if (byte < 0x80) return { count, start: at + index + 1 };
  }
  return undefined;
}

/** The numbers of a block. */
interface BlockNumbers {
  readonly height: bigint | undefined;
  readonly first: bigint;
  readonly last: bigint;
}

function isBlockOf({ height, first, last }: BlockNumbers, { extent, version }: AskedRead): boolean {
  if (height === undefined || first > last) return false;
  const asked = extent?.kind === 'block' || extent?.kind === 'bare block' ? extent.height : undefined;
  return height === (asked ?? height) && first <= (version ?? first) && last >= (version ?? last);
}

/** The list of transactions is cut at a page's length, and starts with the block (protocol 1, row 14). */
function isBlock({ members, isWhole }: JsonBody, read: AskedRead): boolean {
  const { block_height: height, first_version: start, last_version: end, transactions = null } = members;
  // A missing version makes an empty block.
  const first = u64In(start) ?? maxU64;
  const last = u64In(end) ?? -1n;
  if (!isBlockOf({ height: u64In(height), first, last }, read)) return false;
  if (read.extent?.kind !== 'block') return transactions === null;
  // A large block is compared by its numbers alone.
  if (!isWhole) return true;
  if (!Array.isArray(transactions) || !isWithinBlock(transactions.length, first, last)) return false;
  return areInOrder({ known: [...transactions.entries()] }, 'version', first);
}

function isWithinBlock(count: number, first: bigint, last: bigint): boolean {
  return count > 0 && BigInt(count) <= last - first + 1n;
}

/** Height, hash, time, versions, transactions. Nodes write a hash with its length ahead of it, or without. */
function isBlockBytes(body: Buffer, read: AskedRead): boolean {
  return [32, 33].some((hashBytes) => isBlockBehind(body, 16 + hashBytes, read));
}

/** Whether it is a block whose versions stand at `at`. Without transactions, nodes write nothing, or an empty option. */
function isBlockBehind(body: Buffer, at: number, read: AskedRead): boolean {
  const end = at + 16;
  if (body.length < end) return false;
  const [first, last] = [body.readBigUInt64LE(at), body.readBigUInt64LE(at + 8)];
  if (!isBlockOf({ height: body.readBigUInt64LE(0), first, last }, read)) return false;
  if (read.extent?.kind !== 'block') return body.length === end || (body.length === end + 1 && body[end] === 0);
  const list = body[end] === 1 ? listAt(body, end + 1) : undefined;
  return list !== undefined && isWithinBlock(list.count, first, last) && isU64At(body, list.start, first);
}

function isHeightOf(text: unknown, { extent }: AskedRead): boolean {
  return isU64(text, extent?.kind === 'block' ? extent.height : undefined);
}

/** The stream of a read by creation number; the key of a handle stands in the handle's resource alone. */
const stream = /^(0x[\da-f]+)\/(\d+)(?:\?|$)/;

function areEvents({ list }: JsonBody, { extent, subject }: AskedRead): boolean {
  if (!isPage(list, extent) || !areInOrder(list, 'sequence_number', firstOf(extent))) return false;
  const [, address, number = ''] = stream.exec(subject) ?? [];
  return isListOf(list, (item) => {
    const { account_address: account, creation_number: creation } = membersOf(membersOf(item)['guid']);
    if (address === undefined) return isText(account) && isU64(creation);
    return isAddress(account, address) && (creation === number || isU64(creation, BigInt(number)));
  });
}

/** An event: version, variant, key (creation number and address), sequence number. */
function areEventBytes(body: Buffer, { extent, subject }: AskedRead): boolean {
  const [, address, number = ''] = stream.exec(subject) ?? [];
  return isPageOf(body, extent, (at) => {
    if (body[at + 8] !== 0 || !isU64At(body, at + 49, firstOf(extent))) return false;
    if (address === undefined) return true;
    return (
      isU64At(body, at + 9, BigInt(number)) && body.subarray(at + 17, at + 49).equals(Address.bytes(address as Address))
    );
  });
}
