/** The digest of a body that is too large to be hashed at once: 8 MiB take the event loop 20 ms and more. */
import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { bodyBounds } from '../ledger/body-bounds.ts';

/** SHA-256 over all of `bytes`, in base64url. Other work runs after each 128 kB. */
export async function digestInTurns(bytes: Buffer): Promise<string> {
  const hash = createHash('sha256');
  for (let at = 0; at < bytes.length; at += bodyBounds.bytes) {
    if (at > 0) await nextTurn();
    hash.update(bytes.subarray(at, at + bodyBounds.bytes));
  }
  return hash.digest('base64url');
}
