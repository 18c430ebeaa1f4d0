/**
 * Probes over new connections when the open ones hang: the node's name may have moved to another address, or a middlebox
 * may have dropped the connections silently. Only a new connection looks the name up again.
 */
import { settlesWithin } from '../../ledger/stop.ts';
import type { NodeAnswer } from '../dispatch/exchange.ts';
import type { NodeClient } from './node-client.ts';
import type { Upstream } from './upstream.ts';

/** After this time, or a quarter of its time-out, a probe without an answer goes out over a new connection as well. */
const silentMs = 250;

/**
 * Runs `ask` over the node's open connections and, without an answer, over new ones beside them. Resolves with the first
 * answer. New connections that report a ledger first replace the open ones. Rejects as the first `ask` does.
 */
export async function overLiveClient(
  upstream: Upstream,
  timeoutMs: number,
  ask: (client: NodeClient) => Promise<NodeAnswer>,
): Promise<NodeAnswer> {
  const { client } = upstream;
  const first = ask(client);
  if (await settlesWithin(first, Math.min(silentMs, timeoutMs / 4))) return first;
  const fresh = upstream.openClient();
  let isPending = true;
  let isInUse = false;
  const second = ask(fresh).then((answer) => {
    if (answer.status !== 200 || answer.info === undefined) throw new Error('no ledger info over a new connection');
    // Another probe, or another process, may have replaced the open connections meanwhile.
    isInUse = isPending && upstream.client === client && !upstream.isRemoved;
    if (isInUse) upstream.replaceClient(fresh);
    return answer;
  });
  try {
    return await Promise.any([first, second]);
  } catch {
    return await first;
  } finally {
    isPending = false;
    if (!isInUse) void fresh.destroy();
  }
}
