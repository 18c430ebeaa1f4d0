/** An operator's purge, in plain data, and its scope in the cache. */
import { z } from 'zod';
import { readText } from '../../cache/key.ts';
import type { PurgeScope } from '../../cache/purge/purge-scope.ts';
import { findAddress } from '../../ledger/address.ts';
import { quote } from '../../ledger/errors.ts';
import { parseRequest, type DescribedRequest } from './described-request.ts';
import type { Reader } from '../reads/reader.ts';
import type { Router } from '../routes/router.ts';

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

/**
 * The faults of a request by their place, without quoting it; `where` names the request itself. An unknown field is the
 * only one reported: the others mostly follow from it.
 */
export function faultsOf({ issues }: z.ZodError, where: string): string {
  const unknown = issues.filter(({ code }) => code === 'unrecognized_keys');
  return (unknown.length === 0 ? issues : unknown)
    .map(({ path, message }) => `${path.join('.') || where}: ${message}`)
    .join('; ');
}

/** The value by its schema. Throws `AdminFault` 400. */
export function parseBy<T>(schema: z.ZodType<T>, value: unknown, where: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new AdminFault(400, faultsOf(parsed.error, where));
}

/** An object with these fields and no other. `form`: the words for it in an error. */
export function fieldsOf<Shape extends z.ZodRawShape>(shape: Shape, form = 'an object') {
  const names = Object.keys(shape).join(', ');
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? `has an unknown field ${quote(issue.keys[0] ?? '')}; use ${names}`
        : `must be ${form}`,
  });
}

const text = z
  .string({
    error: ({ input }) =>
      input === undefined ? 'is needed, such as "/v1/accounts/0x1/module/coin"' : 'must be given once, as text',
  })
  // UTF-8 would replace a lone surrogate, and the text would describe another request.
  .refine((given) => given.isWellFormed(), { error: 'must be text that UTF-8 can hold' });

const described = fieldsOf({
  target: text,
  method: text.optional(),
  accept: text.optional(),
  contentType: text.optional(),
  body: text.optional(),
});

const purgeForms = '{"read": {…}}, {"account": "0x…"}, {"everything": true}';

const purge = fieldsOf(
  {
    read: described.optional(),
    account: z.string({ error: 'must be an address as text' }).optional(),
    everything: z.literal(true, { error: 'must be true' }).optional(),
  },
  `a JSON object: one of ${purgeForms}`,
).refine((given) => Object.keys(given).length === 1, { error: `must have exactly one of ${purgeForms}` });

/** The parsed body of `POST /admin/purge`: one of its fields is set. */
export type PurgeRequest = z.output<typeof purge>;

/** Parses the body of a purge. Throws `AdminFault` 400. */
export function parsePurgeRequest(value: unknown): PurgeRequest {
  return parseBy(purge, value, 'the body');
}

/** Parses a described request. Throws `AdminFault` 400; `where` names the place in its message. */
export function parseDescribed(value: unknown, where: string): DescribedRequest {
  return parseBy(described, value, where);
}

/** Parts that turn a described read into a scope. */
export interface ScopeParts {
  readonly router: Router;
  readonly reader: Reader;
  readonly chainId: () => number | undefined;
}

/** The scope in the cache. Throws `AdminFault`: 400, or 503 while no node has reported its chain. */
export function scopeOf(request: PurgeRequest, parts: ScopeParts): PurgeScope {
  const { read, account = '', everything } = request;
  if (everything === true) return { kind: 'everything' };
  const chainId = parts.chainId();
  if (chainId === undefined) throw new AdminFault(503, 'no node has reported its chain yet: try again');
  if (read !== undefined) return scopeOfRead(read, chainId, parts);
  const address = findAddress(account);
  if (address === undefined) throw new AdminFault(400, `"account" is no address: ${quote(account)}`);
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
