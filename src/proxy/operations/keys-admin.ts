/** `/admin/keys`: requests about keys of clients, and their answers. */
import type { z } from 'zod';
import { type Access, holdsKey, KeysFault, type KeysRequest } from '../../access/index.ts';
import { ConfigError, explainValue, keyChangesSchema, newKeySchema } from '../../config/index.ts';
import { AdminFault, type AdminAnswer } from './admin-request.ts';

/** A request in order, which may be logged and sent on. Throws `AdminFault`: 400, or 404 for what is no name. */
export function parseKeysRequest(action: KeysRequest['action'], name: string, body: unknown): KeysRequest {
  switch (action) {
    case 'list':
      return { action };
    case 'create':
      return { action, key: parse(newKeySchema, body) };
    case 'change':
      return { action, name: requireName(name), changes: parse(keyChangesSchema, body) };
    case 'revoke':
      return { action, name: requireName(name) };
  }
}

/** The key that a request is about; `undefined`: all. */
export function keyNameOf(request: KeysRequest): string | undefined {
  if (request.action === 'list') return undefined;
  return request.action === 'create' ? request.key.name : request.name;
}

function requireName(name: string): string {
  if (!newKeySchema.shape.name.safeParse(name).success || holdsKey(name))
    throw new AdminFault(404, 'no key has this name');
  return name;
}

/** Throws `AdminFault` 400 in the words of the config's problems. */
function parse<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  const { data, problems } = explainValue(schema, body);
  if (data === undefined) {
    const texts = problems.map(({ path, message }) => `${ConfigError.formatPath(path) || 'the body'}: ${message}`);
    throw new AdminFault(400, texts.join('; '));
  }
  // A name is logged, and so is a tenant.
  if (holdsKey(JSON.stringify(data))) throw new AdminFault(400, 'the body holds a key: the gateway makes keys itself');
  return data;
}

/** Answers a request. Rejects with `AdminFault`. */
export async function answerKeys(keys: Access['keys'] | undefined, request: KeysRequest): Promise<AdminAnswer> {
  if (keys === undefined) throw new AdminFault(404, 'there are no keys: the config has no access');
  try {
    switch (request.action) {
      case 'list':
        return { status: 200, body: keys.list() };
      case 'create':
        return { status: 201, body: await keys.create(request.key) };
      case 'change':
        return { status: 200, body: await keys.change(request.name, request.changes) };
      case 'revoke':
        await keys.revoke(request.name);
        return { status: 200, body: { revoked: request.name } };
    }
  } catch (error) {
    if (!(error instanceof KeysFault)) throw error;
    throw new AdminFault(statuses[error.reason], error.message);
  }
}

const statuses: Readonly<Record<KeysFault['reason'], AdminFault['status']>> = {
  invalid: 400,
  unknown: 404,
  exists: 409,
  conflict: 409,
  unavailable: 503,
};
