/**
 * Parsers of reads of state, and of a transaction by hash. Each yields a canonical `Read`; `undefined` leaves a request to
 * a node, unchanged: the gateway keeps no answer to a question that it reads only in part.
 */
import { LRUCache } from 'lru-cache';
import type { Operation } from '../../cache/index.ts';
import { parseTableBody, parseViewBody, type CanonicalBody, type ViewContentType } from './canonical-body.ts';
import {
  Address,
  findU64,
  GatewayError,
  isIdentifier,
  LedgerVersion,
  quote,
  TransactionHash,
  TypeTag,
  withVersion,
} from '../../ledger/index.ts';
import { answerForm, ownCopy } from '../http/index.ts';
import type { Read, SharedRead } from '../reads/index.ts';
import type { Need } from '../../upstream/index.ts';
import type { Submissions } from './submissions.ts';

/** The parts of a client's request beside its path parameters. */
export interface PathRead {
  /** With base path and query, percent-encoded. */
  readonly target: string;
  readonly accept: string | undefined;
}

/** Path parameters by name, decoded. A route's parser gets all that its path names. */
export type Parameters = Readonly<Record<string, string>>;

/** Parses the read that a target asks for; `undefined` leaves it to a node. Throws `GatewayError` 400. */
export type ParseRead = (
  parameters: Parameters,
  request: PathRead,
  submissions: Submissions,
) => Read | SharedRead | undefined;

/** Need of state at `version`; `undefined`: at a node's head. */
export function needOf(version: LedgerVersion | undefined): Need {
  return version === undefined ? { kind: 'head' } : { kind: 'version', version };
}

/** Parses `GET /accounts/{address}/resource/{type}`. Throws `GatewayError` 400 where a node would refuse it too. */
export function resourceRead({ address: addressText = '', type = '' }: Parameters, request: PathRead): Read {
  const address = Address.parse(addressText);
  const { text, encoded } = parseTag(type);
  const path = `/accounts/${address}/resource/${encoded}`;
  return stateRead({ operation: 'resource', subject: `${address}/${text}`, path }, request);
}

/** Parses `GET /accounts/{address}/module/{name}`. Names are case-sensitive. Throws `GatewayError` 400. */
export function moduleRead({ address: addressText = '', name = '' }: Parameters, request: PathRead): Read {
  const address = Address.parse(addressText);
  if (!isIdentifier(name)) throw new GatewayError('invalidInput', `'module_name' invalid: ${quote(name)}`);
  const path = `/accounts/${address}/module/${encodeURIComponent(name)}`;
  return stateRead({ operation: 'module', subject: `${address}/${name}`, path }, request);
}

/**
 * Parses `GET /transactions/by_hash/{hash}`. Its need names the node that accepted the submission, if one is recorded.
 * Throws `GatewayError` 400.
 */
export function transactionRead(
  { hash: hashText = '' }: Parameters,
  { accept }: PathRead,
  submissions: Submissions,
): Read {
  const hash = TransactionHash.parse(hashText);
  const path = `/transactions/by_hash/${hash}`;
  const need = { kind: 'transaction', submittedTo: submissions.submittedTo(hash) } as const;
  return readOf({ operation: 'transaction', subject: hash, path, need }, accept);
}

/** `transactionRead` for `wait_by_hash`: the node waits up to a second while the transaction is pending. */
export function transactionWait(parameters: Parameters, request: PathRead, submissions: Submissions): Read {
  const read = transactionRead(parameters, request, submissions);
  const wire = { ...read.wire, path: `/transactions/wait_by_hash/${read.subject}` };
  return { ...read, wire, atOnce: read.wire };
}

/** A client's request with a body. */
export interface BodyRead extends PathRead {
  readonly contentType: string | undefined;
  readonly body: Buffer;
  /** Digest of a large body, by `digestInTurns`. */
  readonly digest?: string | undefined;
  /** The client's plan has rights by function: that of a large view has to be read. */
  readonly isRestricted?: boolean | undefined;
}

/** Parses `POST /view`. Throws `GatewayError` 400 or 415. */
export function viewRead(request: BodyRead): Read {
  const contentType = viewContentType(request.contentType);
  // Ahead of the body, whose parse costs more.
  const version = versionParameter(request.target);
  const { functionId, ...body } = parseViewBody(contentType, request.body, request);
  const read = postedRead({ operation: 'view', path: '/view', contentType, version, ...body }, request.accept);
  // Joined slices would keep the client's text in memory.
  return { ...read, functionId: functionId && ownCopy(functionId) };
}

interface PostedParts extends Omit<CanonicalBody, 'functionId'>, CanonicalPath {
  readonly contentType: string;
  readonly version: LedgerVersion | undefined;
}

function postedRead(parts: PostedParts, accept: string | undefined): Read {
  const { operation, subject, path, contentType, version, bytes } = parts;
  const form = answerForm(accept);
  const headers = { accept: mediaType[form], 'content-type': contentType };
  const wire = { method: 'POST', path: withVersion(path, version), headers, body: bytes } as const;
  return { operation, subject, version, form, wire, need: needOf(version) };
}

/** The `Content-Type` of a view's body. Throws `GatewayError` 415 for any other. */
export function viewContentType(contentType: string | undefined): ViewContentType {
  if (contentType === undefined || !contentTypes.has(contentType)) throw unsupportedContentType(contentType);
  return contentType as ViewContentType;
}

/** The 415 for this `Content-Type`, with the messages of nodes. */
function unsupportedContentType(contentType: string | undefined): GatewayError {
  const message =
    contentType === undefined
      ? 'the client request does not include the `Content-Type` header'
      : 'the `Content-Type` requested by the client is not supported';
  return new GatewayError('unsupportedMediaType', message);
}

/** Compares the media type as nodes do, parameters allowed (protocol 2.4). Throws `GatewayError` 415. */
export function requireJson(contentType: string | undefined): void {
  if (contentType === undefined || !jsonForm.test(contentType)) throw unsupportedContentType(contentType);
}

const jsonForm = /^\s*application\/(?:[\w.!#$&^+-]+\+)?json\s*(?:;|$)/i;

/** Exact texts, because nodes refuse a charset parameter (protocol 2.4). */
const contentTypes: ReadonlySet<string> = new Set(['application/json', 'application/x.aptos.view_function+bcs']);

const mediaType = { json: 'application/json', bcs: 'application/x-bcs' } as const;

/** Request headers by form. Frozen: headers that derive from them are computed once for all requests. */
export const acceptOnly = {
  json: Object.freeze({ accept: mediaType.json }),
  bcs: Object.freeze({ accept: mediaType.bcs }),
} as const;

/** `path` is below the base path, canonical and percent-encoded. */
interface CanonicalPath {
  readonly operation: Operation;
  readonly subject: string;
  readonly path: string;
}

/** A read of state by GET, at the version that the target names. */
function stateRead({ operation, subject, path }: CanonicalPath, request: PathRead): Read {
  const version = versionParameter(request.target);
  return readOf({ operation, subject, path: withVersion(path, version), version }, request.accept);
}

/** A read by GET; `path` with its query. Default of `need`: `version`. */
export function readOf(
  { operation, subject, path, version, need = needOf(version), extent }: CanonicalPath & Partial<Read>,
  accept: string | undefined,
): Read {
  const form = answerForm(accept);
  const wire = { method: 'GET', path, headers: acceptOnly[form] } as const;
  return { operation, subject, version, form, wire, need, extent, keyed: undefined };
}

/** A canonical struct tag, plain and percent-encoded. */
interface Tag {
  readonly text: string;
  readonly encoded: string;
}

/** Canonical tags by spelling. Nearly all requests name one of a few types. */
const parsedTags = new LRUCache<string, Tag>({ max: 1_000 });
/** In characters. With both forms of a tag an entry takes at most 4 kB. */
const longestCached = 500;

/** A struct tag in any spelling that nodes accept, as canonical text. Throws `GatewayError` 400. */
export function parseTag(spelling: string): Tag {
  const cached = parsedTags.get(spelling);
  if (cached !== undefined) return cached;
  // A slice would keep the whole text of the received bytes in memory. The copy of a text beyond latin1 is another text.
  const copy = ownCopy(spelling);
  const own = copy === spelling ? copy : spelling;
  const text = TypeTag.format(TypeTag.parseStruct(own));
  const tag = { text, encoded: encodeURIComponent(text) };
  if (own === copy && own.length <= longestCached) parsedTags.set(own, tag);
  return tag;
}

const versionOnly = ['ledger_version'];

/** Parses `GET /accounts/{address}`. */
export const accountRead: ParseRead = ({ address: addressText = '' }, request) => {
  if (knownParameters(request.target, versionOnly) === undefined) return undefined;
  const address = Address.parse(addressText);
  return stateRead({ operation: 'account', subject: `${address}/`, path: `/accounts/${address}` }, request);
};

/**
 * Parses `GET /accounts/{address}/balance/{asset}`, of a struct tag or a fungible asset's address. The public SDK repeats
 * both path parameters in the query, where nodes ignore them (protocol 4.3); only a repetition to the letter is ignored
 * here too.
 */
export const balanceRead: ParseRead = ({ address: addressText = '', asset: assetText = '' }, request) => {
  const given = knownParameters(request.target, balanceParameters);
  if (given === undefined) return undefined;
  const { accountAddress = addressText, asset: repeated = assetText } = given;
  if (accountAddress !== addressText || repeated !== assetText) return undefined;
  const address = Address.parse(addressText);
  const asset = Address.find(assetText);
  const { text, encoded } = asset === undefined ? parseTag(assetText) : { text: asset, encoded: asset };
  const path = `/accounts/${address}/balance/${encoded}`;
  return stateRead({ operation: 'balance', subject: `${address}/${text}`, path }, request);
};

const balanceParameters = ['ledger_version', 'accountAddress', 'asset'];

/** Parses a page of `/accounts/{address}/modules` or `/resources`. */
export function accountPageRead(operation: Extract<Operation, 'modules' | 'resources'>): ParseRead {
  return ({ address: addressText = '' }, request) => {
    const page = pageOf(request.target, 'start', findCursor, 'ledger_version');
    if (page === undefined) return undefined;
    const { query } = page;
    const address = Address.parse(addressText);
    const path = `/accounts/${address}/${operation}${query}`;
    return stateRead({ operation, subject: `${address}/${query}`, path }, request);
  };
}

/** The cursor of nodes: hex, of which only they know the meaning (protocol 2.1). */
function findCursor(text: string): string | undefined {
  return /^[\w-]{1,2048}$/.test(text) ? text : undefined;
}

/**
 * A page's parameters, and their canonical query; `undefined`: nodes refuse them, or read more than these and `others`.
 * `startName`, `findStart`: of the parameter with the page's start.
 */
export function pageOf<Start extends string | bigint>(
  target: string,
  startName: string,
  findStart: (text: string) => Start | undefined,
  ...others: readonly string[]
) {
  const given = knownParameters(target, [startName, 'limit', ...others]);
  const { [startName]: startText, limit: limitText } = given ?? {};
  const start = startText === undefined ? undefined : findStart(startText);
  const limit = limitText === undefined ? undefined : findLimit(limitText);
  const isRefused =
    (startText !== undefined && start === undefined) || (limitText !== undefined && limit === undefined);
  if (given === undefined || isRefused) return undefined;
  return { start, limit, query: queryText({ [startName]: start, limit }) };
}

/** A page's length as nodes parse it, a u16 above zero; `undefined`: nodes refuse it. */
function findLimit(text: string): number | undefined {
  const limit = findU64(text);
  return limit === undefined || limit === 0n || limit > 0xffffn ? undefined : Number(limit);
}

/** The query of the parameters that have a value, with its question mark; '' where none has. */
export function queryText(parameters: Readonly<Record<string, string | number | bigint | undefined>>): string {
  let query = '';
  for (const [name, value] of Object.entries(parameters))
    if (value !== undefined) query += `${query === '' ? '?' : '&'}${name}=${value}`;
  return query;
}

/** Parses `POST /tables/{handle}/item` or `/raw_item`. Throws `GatewayError` 400. */
export function tableItemRead(
  operation: Extract<Operation, 'table_item' | 'raw_table_item'>,
  { handle: handleText = '' }: Parameters,
  request: BodyRead,
): Read | undefined {
  if (knownParameters(request.target, versionOnly) === undefined) return undefined;
  const handle = Address.parse(handleText);
  const version = versionParameter(request.target);
  const { subject, bytes } = parseTableBody(operation, request.body, request.digest);
  const path = `/tables/${handle}/${operation === 'table_item' ? 'item' : 'raw_item'}`;
  const parts = { operation, subject: `${handle}/${subject}`, path, contentType: 'application/json', version, bytes };
  return postedRead(parts, request.accept);
}

/** `?ledger_version=` as nodes read it: the first of several wins, an empty one is an error (protocol 4.3). */
export function versionParameter(target: string): LedgerVersion | undefined {
  const query = queryOf(target);
  if (query === '') return undefined;
  const text = plainVersion.exec(query)?.[1] ?? parametersOf(query).get('ledger_version');
  return text === null ? undefined : LedgerVersion.parse(text);
}

/** Fast case without the general parser. */
const plainVersion = /^ledger_version=(\d{1,20})$/;

/** A u64 parameter; undefined if absent or malformed. For routing only, so it never throws. */
export function numberParameter(target: string, name: string): LedgerVersion | undefined {
  const text = parametersOf(queryOf(target)).get(name);
  return text === null ? undefined : (findU64(text) as LedgerVersion | undefined);
}

/**
 * The query's parameters, decoded; `undefined` when one is repeated or not in `known`: nodes may read such a query in
 * ways that the gateway does not know.
 */
export function knownParameters(
  target: string,
  known: readonly string[],
): Readonly<Record<string, string | undefined>> | undefined {
  const query = queryOf(target);
  if (query === '') return {};
  const version = plainVersion.exec(query)?.[1];
  if (version !== undefined) return known.includes('ledger_version') ? { ledger_version: version } : undefined;
  const found: Record<string, string> = {};
  for (const [name, value] of parametersOf(query)) {
    if (!known.includes(name) || Object.hasOwn(found, name)) return undefined;
    found[name] = value;
  }
  return found;
}

/** Whether a parameter is present, in any spelling of its name, with any value. */
export function hasParameter(target: string, name: string): boolean {
  return parametersOf(queryOf(target)).has(name);
}

/** `URLSearchParams` drops a leading question mark, although it belongs to the first name: `??ledger_version=5`. */
function parametersOf(query: string): URLSearchParams {
  return new URLSearchParams(`&${query}`);
}

function queryOf(target: string): string {
  const mark = target.indexOf('?');
  return mark === -1 ? '' : target.slice(mark + 1);
}
