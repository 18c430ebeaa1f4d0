/** The keys of a running gateway, by its operations port. */
import { z } from 'zod';
import type { describeKey } from '../access/index.ts';
import { type CommandCall, RuntimeFailure } from './command.ts';
import { askAdmin } from './operations-port.ts';

/** Longer than the gateway waits for its workers. */
const keysMs = 15_000;

/** Resolves with the new key. `key`: its fields. Rejects with RuntimeFailure. */
export async function createByUrl(call: CommandCall, key: object): Promise<string> {
  const answer = await askAdmin(call, { method: 'POST', path: '/admin/keys', body: key, timeoutMs: keysMs });
  return parse(z.object({ key: z.string() }), answer).key;
}

/** The keys of both sources, and texts about entries that are refused. Rejects with RuntimeFailure. */
export async function listByUrl(call: CommandCall) {
  return parse(listed, await askAdmin(call, { method: 'GET', path: '/admin/keys', timeoutMs: keysMs }));
}

/** Rejects with RuntimeFailure. */
export async function revokeByUrl(call: CommandCall, name: string): Promise<void> {
  await askAdmin(call, { method: 'DELETE', path: `/admin/keys/${encodeURIComponent(name)}`, timeoutMs: keysMs });
}

const words = z.array(z.string()).nullable();

const listed = z.object({
  // Fields of a later gateway stay.
  keys: z.array(
    z.looseObject({
      name: z.string(),
      tenant: z.string(),
      plan: z.string(),
      operations: words,
      origins: words,
      addresses: words,
      expires: z.string().nullable(),
      sha256Prefix: z.string(),
    }),
  ),
  problems: z.array(z.string()),
}) as z.ZodType<{ readonly keys: readonly ReturnType<typeof describeKey>[]; readonly problems: readonly string[] }>;

function parse<T>(schema: z.ZodType<T>, answer: unknown): T {
  const { data } = schema.safeParse(answer);
  if (data === undefined) throw new RuntimeFailure('the answer is not of a gateway');
  return data;
}
