/** `GET {base}`: what the ledger is, from one coherent snapshot of a node, with the fleet's own oldest version. */
import { GatewayError } from '../ledger/errors.ts';
import type { Fleet } from '../upstream/fleet.ts';
import type { Snapshot } from '../upstream/shown.ts';

/**
 * The node's answer as it came, except for what it says of its own pruning: the fleet may reach further back
 * (protocol 9). Unknown members stay as they are.
 */
export function ledgerInfoBody({ body }: Snapshot, fleet: Fleet): Buffer {
  const { oldest } = fleet;
  if (oldest === undefined) throw new GatewayError('unavailable', 'no usable node is known');
  const text = body
    .toString()
    .replace(/("oldest_ledger_version"\s*:\s*)"\d+"/, `$1"${oldest.oldestVersion}"`)
    .replace(/("oldest_block_height"\s*:\s*)"\d+"/, `$1"${oldest.oldestBlockHeight}"`);
  return Buffer.from(text);
}
