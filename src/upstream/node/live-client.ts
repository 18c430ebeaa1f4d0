/**
 * Open connections to a node may hang while new ones would be answered: its name moved to another address, or something
 * between lost the connections without a word. Only a new connection looks the name up again.
 */
import { setPatientTimeout } from '../../ledger/patient-timeout.ts';
import type { NodeAnswer } from '../dispatch/exchange.ts';
import type { NodeClient } from './node-client.ts';
import type { Upstream } from './upstream.ts';

/** A probe that is silent for this long, or for a quarter of its time, goes out once more over a new connection. */
const silentMs = 250;

/**
 * Runs `ask` over the node's open connections and, when they stay silent, over new ones beside them. Resolves with the
 * first answer. New connections that report a ledger first replace the open ones. Rejects as the first `ask` does.
 */
export async function overLiveClient(
  upstream: Upstream,
  timeoutMs: number,
  ask: (client: NodeClient) => Promise<NodeAnswer>,
): Promise<NodeAnswer> {
  const { client } = upstream;
  const first = ask(client);
  if (!(await isPendingAfter(first, Math.min(silentMs, timeoutMs / 4)))) return first;
  const fresh = upstream.openClient();
  let isPending = true;
  let isTaken = false;
  const second = ask(fresh).then((answer) => {
    if (answer.status !== 200 || answer.info === undefined) throw new Error('no ledger info over a new connection');
    // Another probe, or another process, may have replaced the open connections meanwhile.
    isTaken = isPending && upstream.client === client && !upstream.isRemoved;
    if (isTaken) upstream.replaceClient(fresh);
    return answer;
  });
  try {
    return await Promise.any([first, second]);
  } catch {
    return await first;
  } finally {
    isPending = false;
    if (!isTaken) void fresh.destroy();
  }
}

/** Whether `promise` has not settled within `ms`. */
function isPendingAfter(promise: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setPatientTimeout(() => resolve(true), ms);
    const settle = (): void => {
      clearTimeout(timer);
      resolve(false);
    };
    promise.then(settle, settle);
  });
}
