/** One request on its way through a sample node, and the parsing that all operations share (protocol 2.4, 3.1, 3.2). */
import type { IncomingHttpHeaders } from 'node:http';
import {
  Address,
  findU64,
  isIdentifier,
  JsonError,
  type JsonObject,
  JsonValue,
  type LedgerInfo,
  LedgerVersion,
  type StructTag,
  TypeTag,
} from '../ledger/index.ts';
import { negotiate, type AcceptForm } from './answer.ts';
import type { LedgerClock } from './ledger-clock.ts';
import type { Mempool } from './mempool.ts';
import { bareError, frameworkError, versionPruned, nodeError, notFound } from './node-error.ts';
import { isKnownAccount } from './synthetic.ts';

/** Input of an operation: the request, its parameters, and the state of the node. */
export class SampleCall {
  /** The holes of the route's path, percent-decoded. */
  declare readonly params: readonly string[];
  declare readonly query: URLSearchParams;
  declare readonly headers: IncomingHttpHeaders;
  declare readonly body: Buffer;
  /** The snapshot that the answer is made from, and whose numbers stand in its headers. */
  declare readonly ledger: LedgerInfo;
  declare readonly clock: LedgerClock;
  declare readonly mempool: Mempool;
  /** Aborted when the node closes. */
  declare readonly signal: AbortSignal;

  constructor(
    parts: Pick<SampleCall, 'params' | 'query' | 'headers' | 'body' | 'ledger' | 'clock' | 'mempool' | 'signal'>,
  ) {
    Object.assign(this, parts);
  }

  /** The form that the request accepts (protocol 2.3). */
  get form(): AcceptForm {
    return negotiate(this.headers.accept);
  }

  /** The name of the history that the ledger is on at `version`; '' unless a test has forked it. */
  historyAt(version: bigint): string {
    return this.clock.historyOf?.(version) ?? '';
  }

  /** The path parameter at `at` as an address. Throws `NodeError` 400 as a node does, as the next ones. */
  address(at: number, name = 'address'): Address {
    return this.#parameter(at, name, (text) => Address.find(text), addressFault);
  }

  structTag(at: number): StructTag {
    return this.#parameter(at, 'resource_type', findStruct, structFault);
  }

  u64(at: number, name: string): bigint {
    return this.#parameter(at, name, findU64, u64Fault);
  }

  #parameter<T>(at: number, name: string, parse: (text: string) => T | undefined, fault: (text: string) => string): T {
    const text = this.params[at] ?? '';
    const value = parse(text);
    if (value !== undefined) return value;
    throw frameworkError(400, `failed to parse path \`${name}\`: ${fault(text)}`);
  }

  /** A module's name. A bad one is found by verification, which is not the framework: another code, still no headers. */
  moduleName(at: number): string {
    const name = this.params[at] ?? '';
    if (isIdentifier(name)) return name;
    throw bareError(400, 'invalid_input', `'module_name' invalid: Invalid identifier '${name}'`);
  }

  /** `?ledger_version=`. Throws `NodeError` 400 for one that is no u64. */
  pinned(): bigint | undefined {
    return this.u64Query('ledger_version');
  }

  /** A query parameter as a u64: the first of several counts. Throws `NodeError` 400 as a node does. */
  u64Query(name: string): bigint | undefined {
    const text = this.query.get(name);
    if (text === null) return undefined;
    const value = findU64(text);
    if (value !== undefined) return value;
    const chain = '(occurred while parsing "optional<string(U64)>")';
    throw frameworkError(400, `failed to parse parameter \`${name}\`: ${u64Fault(text)} ${chain}`);
  }

  /** The version that is read, after everything in the request was parsed: the pinned one if this node holds it. */
  resolve(pinned: bigint | undefined): LedgerVersion {
    const { ledger } = this;
    const version = LedgerVersion.of(pinned ?? ledger.version);
    if (version > ledger.version)
      throw nodeError(404, 'version_not_found', `Ledger version not found by Ledger version(${version})`);
    if (version < ledger.oldestVersion) throw versionPruned(version);
    return version;
  }

  /** Throws 404 for an account without any state. */
  expectAccount(address: Address, version: bigint = this.ledger.version): void {
    if (!isKnownAccount(address)) throw notFound('Account', { Address: address, 'Ledger version': version });
  }

  /** Compares the whole string, as nodes do on `/view` and on submission: a charset parameter is refused. */
  expectContentType(accepted: (type: string) => boolean): string {
    const type = this.headers['content-type'];
    if (type === undefined) throw frameworkError(415, 'the client request does not include the `Content-Type` header');
    if (accepted(type)) return type;
    throw frameworkError(415, `the \`Content-Type\` requested by the client is not supported: ${type}`);
  }

  /** The body as a JSON object that has all of `required`. */
  jsonBody(required: readonly string[]): JsonObject {
    const value = parsedBody(this.body.toString());
    if (value === null || typeof value !== 'object' || value.kind !== 'object') {
      throw frameworkError(400, 'parse request payload error: expected an object');
    }
    const missing = required.find((name) => (value.members.get(name) ?? null) === null);
    if (missing !== undefined) throw frameworkError(400, `parse request payload error: field "${missing}" is required`);
    return value;
  }

  /** `?limit=` within `size`. Throws 400: by the framework for text that is no u16, by the operation for 0. */
  pageLimit(size: PageSize): number {
    const limit = this.u64Query('limit') ?? BigInt(size.usual);
    if (limit > 65_535n) {
      throw frameworkError(400, 'failed to parse parameter `limit`: number too large to fit in target type');
    }
    if (limit === 0n) throw nodeError(400, 'invalid_input', 'Given limit value (0) must not be zero');
    return Math.min(Number(limit), size.most);
  }
}

function findStruct(text: string): StructTag | undefined {
  const tag = TypeTag.find(text);
  return tag?.kind === 'struct' ? tag : undefined;
}

function structFault(text: string): string {
  return `failed to parse "string(MoveStructTag)": invalid struct tag: ${text}`;
}

function addressFault(text: string): string {
  return `failed to parse "string(Address)": Invalid account address: ${digitsFault(text.replace(/^0x/, ''))}`;
}

/** Nodes name the place in the address after padding it to 64 digits. */
function digitsFault(digits: string): string {
  if (digits.length === 0 || digits.length > 64) return 'Invalid string length';
  const at = digits.search(/[^0-9a-fA-F]/);
  return `Hex characters are invalid: Invalid character '${digits.charAt(at)}' at position ${64 - digits.length + at}`;
}

function u64Fault(text: string): string {
  const reason =
    text === ''
      ? 'cannot parse integer from empty string'
      : /^\+?\d+$/.test(text)
        ? 'number too large to fit in target type'
        : 'invalid digit found in string';
  return `failed to parse "string(U64)": Parsing u64 string "${text}" failed, caused by error: ${reason}`;
}

/** `application/json` or `application/*+json`, parameters allowed: tables and encode_submission. */
export function isJsonMediaType(type: string): boolean {
  return /^application\/(?:json|[^\s;]+\+json)\s*(?:;|$)/i.test(type);
}

function parsedBody(text: string): JsonValue {
  try {
    return JsonValue.parse(text);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw frameworkError(400, `parse request payload error: ${error.message}`);
  }
}

/** The member as text, `undefined` unless it is a JSON string. */
export function textMember(object: JsonObject, name: string): string | undefined {
  const value = object.members.get(name);
  return typeof value === 'string' ? value : undefined;
}

/** Items of a page without `limit`, and the most of one: a larger `limit` counts as `most`. */
interface PageSize {
  readonly usual: number;
  readonly most: number;
}

/** Pages of transactions and events. */
export const historyPage: PageSize = { usual: 25, most: 100 };

/** Pages of resources and modules. */
export const statePage: PageSize = { usual: 9999, most: 9999 };

/** The numbers of a page: `first` and the `count - 1` after it. */
export interface PageRange {
  readonly first: bigint;
  readonly count: number;
}

/**
 * The page of a list that ends at `last` (-1 for an empty one). Without `start` the newest page; a page that would run
 * beyond the end is cut there.
 */
export function pageOf(start: bigint | undefined, limit: number, last: bigint): PageRange {
  const newest = last - BigInt(limit) + 1n;
  const first = start ?? (newest < 0n ? 0n : newest);
  const left = last - first + 1n;
  if (left <= 0n) return { first, count: 0 };
  return { first, count: left < BigInt(limit) ? Number(left) : limit };
}

/** Maps each number of a range, in order. */
export function mapRange<T>({ first, count }: PageRange, map: (at: bigint) => T): readonly T[] {
  return Array.from({ length: count }, (_, index) => map(first + BigInt(index)));
}
