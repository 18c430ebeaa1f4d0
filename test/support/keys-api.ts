/** Operators' calls of `/admin/keys`. */
import assert from 'node:assert/strict';
import { fetchReply, type Reply } from './gateway.ts';

/** A gateway whose operations port is called. */
type Operated = Readonly<Record<'operationsUrl', string>>;

/** One call. `path`: behind `/admin/keys`. */
export function askKeys(
  gateway: Operated,
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
  path = '',
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> {
  return fetchReply(`${gateway.operationsUrl}/admin/keys${path}`, {
    method,
    body: body === undefined ? null : JSON.stringify(body),
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
  });
}

/** A key as operators get it. */
export interface ListedKey {
  readonly name: string;
  readonly source: string;
  readonly inForce: boolean;
  readonly [field: string]: unknown;
}

/** Makes a key; resolves with its text. */
export async function createdKey(gateway: Operated, fields: object): Promise<string> {
  const reply = await askKeys(gateway, 'POST', '', fields);
  assert.equal(reply.status, 201, reply.text);
  return (JSON.parse(reply.text) as { readonly key: string }).key;
}

/** Changes or revokes the key `name`; resolves when the answer is 200. */
export async function changedKey(gateway: Operated, name: string, changes?: object): Promise<Record<string, unknown>> {
  const reply = await askKeys(gateway, changes === undefined ? 'DELETE' : 'PATCH', `/${name}`, changes);
  assert.equal(reply.status, 200, reply.text);
  return JSON.parse(reply.text) as Record<string, unknown>;
}

export async function listedKeys(gateway: Operated) {
  const reply = await askKeys(gateway, 'GET');
  assert.equal(reply.status, 200, reply.text);
  return JSON.parse(reply.text) as { readonly keys: readonly ListedKey[]; readonly problems: readonly string[] };
}
