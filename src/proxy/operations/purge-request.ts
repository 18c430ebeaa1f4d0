/** An operator's purge, in plain data, and its scope in the cache. */
import { readText } from '../../cache/key.ts';
import type { PurgeScope } from '../../cache/purge/purge-scope.ts';
import { findAddress } from '../../ledger/address.ts';
import { quote } from '../../ledger/errors.ts';
import { parseRequest, type DescribedRequest } from './described-request.ts';
import type { Reader } from '../reads/reader.ts';
import type { Router } from '../routes/router.ts';

/** The parsed body of `POST /admin/purge`. */
export type PurgeRequest =
  { readonly read: DescribedRequest } | { readonly account: string } | { readonly everything: true };

/** An answer to an operator: plain data that can cross to another process. */
export interface AdminAnswer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** An operator's request failed; status and message of the answer. */
export class AdminFault extends Error {
  override readonly name = 'AdminFault';
  readonly status: 400 | 404 | 503;

  constructor(status: 400 | 404 | 503, message: string) {
    super(message);
    this.status = status;
  }
}

const kinds = ['read', 'account', 'everything'] as const;
const parameters = ['target', 'method', 'accept', 'contentType', 'body'] as const;

/** Parses the body of a purge. Throws `AdminFault` 400. */
export function parsePurgeRequest(value: unknown): PurgeRequest {
  const expected = 'exactly one of {"read": {…}}, {"account": "0x…"}, {"everything": true}';
  const given = memberNames(value);
  if (given === undefined) throw new AdminFault(400, `the body must be a JSON object: ${expected}`);
  refuseUnknown(given, kinds, 'the body');
  const { read, account, everything } = value as Readonly<Record<string, unknown>>;
  if (given.length !== 1) throw new AdminFault(400, `the body must have ${expected}`);
  if (given[0] === 'read') return { read: parseDescribed(read, '"read"') };
  if (given[0] === 'everything') {
    if (everything !== true) throw new AdminFault(400, '"everything" must be true');
    return { everything };
  }
  if (typeof account === 'string') return { account };
  throw new AdminFault(400, '"account" must be an address as text');
}

/** Parses a described request. Throws `AdminFault` 400; `where` names the place in its message. */
export function parseDescribed(value: unknown, where: string): DescribedRequest {
  const given = memberNames(value);
  if (given === undefined) throw new AdminFault(400, `${where} must be an object`);
  refuseUnknown(given, parameters, where);
  const described = value as Readonly<Record<string, unknown>>;
  for (const name of given) {
    const text = described[name];
    if (typeof text !== 'string') throw new AdminFault(400, `"${name}" must be given once, as text`);
    // UTF-8 would replace a lone surrogate, and the text would describe another request.
    if (!text.isWellFormed()) throw new AdminFault(400, `"${name}" must be text that UTF-8 can hold`);
  }
  const { target, ...rest } = described as Readonly<Partial<Record<(typeof parameters)[number], string>>>;
  if (target === undefined)
    throw new AdminFault(400, `${where} needs a "target", such as "/v1/accounts/0x1/module/coin"`);
  return { target, ...rest };
}

/** Parts that turn a described read into a scope. */
export interface ScopeParts {
  readonly router: Router;
  readonly reader: Reader;
  readonly chainId: () => number | undefined;
}

/** The scope in the cache. Throws `AdminFault`: 400, or 503 while no node has reported its chain. */
export function scopeOf(request: PurgeRequest, parts: ScopeParts): PurgeScope {
  if ('everything' in request) return { kind: 'everything' };
  const chainId = parts.chainId();
  if (chainId === undefined) throw new AdminFault(503, 'no node has reported its chain yet: try again');
  if ('read' in request) return scopeOfRead(request.read, chainId, parts);
  const address = findAddress(request.account);
  if (address === undefined) throw new AdminFault(400, `"account" is no address: ${quote(request.account)}`);
  return { kind: 'account', chainId, address };
}

function scopeOfRead(request: DescribedRequest, chainId: number, { router, reader }: ScopeParts): PurgeScope {
  const parsed = parseRequest(router, request);
  if (parsed.kind === 'refused') {
    const { status, message } = parsed.error;
    throw new AdminFault(400, `no read: a client would get ${status}, ${message}`);
  }
  if (parsed.kind !== 'read') throw new AdminFault(400, 'answers to this request are never kept');
  const key = reader.keyOf(parsed.read);
  return key === undefined ? { kind: 'versions', read: readText({ ...parsed.read, chainId }) } : { kind: 'read', key };
}

function memberNames(value: unknown): readonly string[] | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value) : undefined;
}

function refuseUnknown(given: readonly string[], known: readonly string[], where: string): void {
  const unknown = given.find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw new AdminFault(400, `${where} has an unknown field ${quote(unknown)}; use ${known.join(', ')}`);
}
