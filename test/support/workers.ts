/** Requests to gateways in processes of their own. */
import { fetchReply, type Reply } from './gateway.ts';
import type { GatewayProcess } from './gateway-process.ts';
import { sampleIn } from './metric-counts.ts';

/** One request over a connection of its own. */
export function get(url: string): Promise<Reply> {
  return fetchReply(url, { method: 'GET' });
}

/** A sample of `/metrics`. */
export async function metric(
  { operationsUrl }: Pick<GatewayProcess, 'operationsUrl'>,
  sample: string,
): Promise<number | undefined> {
  const { text } = await get(`${operationsUrl}/metrics`);
  return sampleIn(text, sample);
}

/** In the place of a worker that is not there: a signal to process 0 ends the tests and what started them. */
export function noWorker(): never {
  throw new Error('no worker is known');
}

export function isAlive(worker: number): boolean {
  try {
    return process.kill(worker, 0);
  } catch {
    return false;
  }
}
